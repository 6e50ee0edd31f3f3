// SPDX-License-Identifier: Apache-2.0
// LangChain's client, which sends fields without effect (`"text": {}`, `tools: []`): chat and responses.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ChatOpenAI } from '@langchain/openai';
import { chats, serveModel } from './server.mjs';

for (const useResponsesApi of [false, true])
  describe(`langchain, ${useResponsesApi ? 'responses' : 'chat completions'}`, () => {
    let server, client, chat;
    before(async () => {
      server = await serveModel();
      chat = await chats(server);
      const { data: [{ id: model }] } = await (await fetch(`${server.api}/models`)).json();
      client = new ChatOpenAI({
        model, apiKey: 'any', maxRetries: 0, maxTokens: 16, temperature: 0, useResponsesApi,
        configuration: { baseURL: server.api },
      });
    });
    after(async () => assert.equal(await server.end(), 0));
    const messages = [['system', 'Answer shortly.'], ['user', 'Tell me of a house by the sea.']];

    test('an answer, and a second turn', async (t) => {
      if (!chat) return t.skip('the served model has no chat format');
      const first = await client.invoke(messages);
      assert.ok(first.text.length > 0);
      assert.ok(first.usage_metadata.output_tokens > 0 && first.usage_metadata.output_tokens <= 16);
      const second = await client.invoke([...messages, first, ['user', 'And then?']]);
      assert.ok(second.usage_metadata.input_tokens > first.usage_metadata.input_tokens);
    });
    test('streamed: the same text', async (t) => {
      if (!chat) return t.skip('the served model has no chat format');
      const whole = await client.invoke(messages);
      let text = '';
      for await (const part of await client.stream(messages)) text += part.text;
      assert.equal(text, whole.text);
    });
  });
