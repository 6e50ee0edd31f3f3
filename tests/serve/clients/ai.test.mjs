// SPDX-License-Identifier: Apache-2.0
// The AI SDK with its provider for compatible servers, which checks a schema and the finish_reason.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, streamText } from 'ai';
import { chats, eventually, serveModel } from './server.mjs';

describe('ai', () => {
  let server, provider, model, chat;
  before(async () => {
    server = await serveModel('--api-key', 'right');
    const headers = { authorization: 'Bearer right' };
    model = (await (await fetch(`${server.api}/models`, { headers })).json()).data[0].id;
    chat = await chats(server, headers);
    provider = createOpenAICompatible({ name: 'sluice', baseURL: server.api, apiKey: 'right', includeUsage: true });
  });
  after(async () => assert.equal(await server.end(), 0));

  const asked = { prompt: 'It was', temperature: 1, seed: 7, maxOutputTokens: 24, maxRetries: 0 };

  const checkBoth = async (of) => {
    const whole = await generateText({ model: of, ...asked });
    assert.ok(['stop', 'length'].includes(whole.finishReason), whole.finishReason);
    assert.ok(whole.usage.inputTokens > 0);
    const stream = streamText({ model: of, ...asked });
    let text = '';
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, whole.text);
    assert.equal(await stream.finishReason, whole.finishReason);
    const usage = await stream.usage;
    assert.equal(usage.outputTokens, whole.usage.outputTokens);
    assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens);
  };

  test('completions, whole and streamed', () => checkBoth(provider.completionModel(model)));
  test('chat, whole and streamed', (t) =>
    chat ? checkBoth(provider(model)) : t.skip('the model has no chat format'));

  test('an abort ends the stream, and the server forgets the request', async () => {
    const leaving = new AbortController();
    const stream = streamText({
      model: provider.completionModel(model), ...asked, maxOutputTokens: 200, abortSignal: leaving.signal,
      providerOptions: { sluice: { ignore_eos: true } }, onError: () => {},
    });
    let pieces = 0;
    try {
      for await (const piece of stream.textStream) {
        assert.ok(piece.length > 0);
        if (++pieces === 2) leaving.abort();
      }
    } catch (error) {
      assert.equal(error.name, 'AbortError');
    }
    assert.ok(pieces < 200);
    assert.ok(await eventually(async () => (await server.metric('vllm:num_requests_running')) === 0));
    assert.ok(await eventually(async () => (await server.metric('vllm:kv_cache_usage_perc')) === 0));
  });

  test('errors are APICallError, with the status', async () => {
    const other = createOpenAICompatible({ name: 'sluice', baseURL: server.api, apiKey: 'wrong' });
    await assert.rejects(generateText({ model: other.completionModel(model), ...asked }), (error) => {
      assert.ok(APICallError.isInstance(error));
      assert.equal(error.statusCode, 401);
      return true;
    });
    await assert.rejects(generateText({ model: provider.completionModel('another'), ...asked }), (error) => {
      assert.equal(error.statusCode, 404);
      assert.match(error.message, /there is no model 'another'/);
      return true;
    });
  });
});
