// SPDX-License-Identifier: Apache-2.0
// OpenAI's own client: chat and completions, whole, streamed, aborted, refused and retried.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { chats, eventually, serve, serveModel, sleep } from './server.mjs';

const messages = [{ role: 'user', content: 'Tell me of a house by the sea.' }];
const drawn = { temperature: 1, seed: 7, max_tokens: 24 };

describe('openai', () => {
  let server, client, model, chat;
  before(async () => {
    server = await serveModel();
    client = new OpenAI({ baseURL: server.api, apiKey: 'any', maxRetries: 0 });
    model = (await client.models.list()).data[0].id;
    chat = await chats(server);
  });
  after(async () => assert.equal(await server.end(), 0));

  const addsUp = (usage) => {
    assert.ok(usage.prompt_tokens > 0);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  };

  test('a completion, whole', async () => {
    const answer = await client.completions.create({ model, prompt: 'It was', ...drawn });
    assert.equal(answer.object, 'text_completion');
    assert.equal(answer.choices.length, 1);
    assert.ok(['stop', 'length'].includes(answer.choices[0].finish_reason));
    assert.ok(answer.usage.completion_tokens <= 24);
    addsUp(answer.usage);
  });

  test('a completion, streamed: the same text for the same seed', async () => {
    const whole = await client.completions.create({ model, prompt: 'It was', ...drawn });
    const stream = await client.completions.create({
      model, prompt: 'It was', ...drawn, stream: true, stream_options: { include_usage: true },
    });
    let text = '', reason, usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.text ?? '';
      reason = chunk.choices[0]?.finish_reason ?? reason;
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].text);
    assert.equal(reason, whole.choices[0].finish_reason);
    assert.deepEqual(usage, whole.usage);
  });

  test('several prompts and answers, with logprobs', async () => {
    const answer = await client.completions.create({
      model, prompt: ['One', 'Two'], n: 2, logprobs: 3, temperature: 1, seed: 3, max_tokens: 5,
    });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2, 3]);
    for (const { logprobs } of answer.choices) {
      assert.equal(logprobs.tokens.length, logprobs.token_logprobs.length);
      assert.ok(logprobs.token_logprobs.every((one) => one <= 0));
    }
  });

  test('a stop string is not sent', async () => {
    const whole = await client.completions.create({ model, prompt: 'It was', ...drawn });
    const text = whole.choices[0].text;
    const stop = text.slice(4, 6);
    const answer = await client.completions.create({ model, prompt: 'It was', ...drawn, stop: [stop] });
    assert.equal(answer.choices[0].text, text.slice(0, text.indexOf(stop)));
    assert.equal(answer.choices[0].finish_reason, 'stop');
  });

  test('chat, whole and streamed', async (t) => {
    if (!chat) return t.skip('the model has no chat format');
    const whole = await client.chat.completions.create({ model, messages, ...drawn });
    assert.equal(whole.object, 'chat.completion');
    assert.equal(whole.choices[0].message.role, 'assistant');
    addsUp(whole.usage);
    const stream = await client.chat.completions.create({
      model, messages, ...drawn, stream: true, stream_options: { include_usage: true },
    });
    let text = '', role, usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      role = chunk.choices[0]?.delta.role ?? role;
      usage = chunk.usage ?? usage;
    }
    assert.equal(role, 'assistant');
    assert.equal(text, whole.choices[0].message.content);
    assert.deepEqual(usage, whole.usage);
  });

  test("chat through the client's helper, which joins chunks", async (t) => {
    if (!chat) return t.skip('the model has no chat format');
    const runner = client.chat.completions.stream({ model, messages, ...drawn });
    let text = '';
    runner.on('content', (piece) => (text += piece));
    const last = await runner.finalChatCompletion();
    assert.equal(last.choices[0].message.content, text);
    assert.ok(['stop', 'length'].includes(last.choices[0].finish_reason));
  });

  test('a client that leaves during a stream frees its request\'s memory', async () => {
    const before = await server.metric('sluice:cancelled_total');
    const stream = await client.completions.create({
      model, prompt: 'It was', temperature: 1, seed: 1, max_tokens: 200, stream: true, ignore_eos: true,
    });
    let chunks = 0;
    for await (const chunk of stream) {
      assert.equal(chunk.object, 'text_completion');
      if (++chunks === 3) stream.controller.abort();
    }
    assert.ok(chunks < 200);
    assert.ok(await eventually(async () => (await server.metric('sluice:cancelled_total')) > before));
    assert.ok(await eventually(async () => (await server.metric('vllm:num_requests_running')) === 0));
    assert.equal(await server.metric('vllm:kv_cache_usage_perc'), 0);
  });

  test('an abort before the response throws the client\'s own exception', async () => {
    const leaving = new AbortController();
    const asked = client.completions.create(
      { model, prompt: 'It was', max_tokens: 200, ignore_eos: true }, { signal: leaving.signal });
    setTimeout(() => leaving.abort(), 20);
    await assert.rejects(asked, OpenAI.APIUserAbortError);
  });

  test('the model by its name', async () => {
    assert.equal((await client.models.retrieve(model)).id, model);
    await assert.rejects(client.models.retrieve('org/another'), OpenAI.NotFoundError);
  });

  test('a conversation that used tools elsewhere continues', async (t) => {
    if (!chat) return t.skip('the model has no chat format');
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Ulm"}' } };
    const answer = await client.chat.completions.create({
      model, ...drawn,
      messages: [
        { role: 'developer', content: 'Be brief.' }, ...messages,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'It rains.' },
      ],
    });
    assert.equal(answer.choices[0].message.role, 'assistant');
    // The client's own object goes back as it came.
    const next = await client.chat.completions.create({
      model, ...drawn, messages: [...messages, answer.choices[0].message, { role: 'user', content: 'And then?' }],
    });
    assert.ok(next.usage.prompt_tokens > 0);
  });

  test('the request\'s id, the date and the fingerprint', async () => {
    const asked = { model, prompt: 'It was', ...drawn };
    const { data, response } = await client.completions.create(asked).withResponse();
    assert.match(data._request_id, /^req-[0-9a-f]{24}$/);
    assert.match(data.system_fingerprint, /^sluice-[0-9.]+-[0-9a-f]{16}$/);
    assert.ok(Math.abs(Date.parse(response.headers.get('date')) - Date.now()) < 3_600_000);
    const named = await client.completions.create(asked, { headers: { 'x-request-id': 'mine-1' } });
    assert.equal(named._request_id, 'mine-1');
    await assert.rejects(client.completions.create({ ...asked, temperature: 9 }, { headers: { 'x-request-id': 'mine-2' } }),
      (error) => error.requestID === 'mine-2');
  });

  test('the likelihood of a prompt is that of the same text as an answer', async () => {
    const answer = await client.completions.create({
      model, prompt: 'It was', max_tokens: 8, temperature: 0, logprobs: 0,
    });
    const { text, logprobs } = answer.choices[0];
    const scored = await client.completions.create({
      model, prompt: `It was${text}`, max_tokens: 0, echo: true, logprobs: 1,
    });
    assert.equal(scored.choices[0].text, `It was${text}`);
    assert.equal(scored.usage.completion_tokens, 0);
    assert.equal(scored.choices[0].logprobs.token_logprobs[0], null);
    assert.deepEqual(scored.choices[0].logprobs.token_logprobs.slice(-8), logprobs.token_logprobs);
  });

  test('penalties, biases, forbidden words and stop tokens', async () => {
    const ask = async (fields) =>
      (await client.completions.create({ model, prompt: 'It was', temperature: 0, max_tokens: 12, ...fields })).choices[0];
    const { text: plain } = await ask({});
    const word = plain.trim().split(' ')[0];
    assert.ok(!(await ask({ bad_words: [word] })).text.startsWith(` ${word}`));
    const penalised = await ask({ frequency_penalty: -2, presence_penalty: -2, max_tokens: 60 }); // favours repetition
    assert.notEqual(penalised.text, (await ask({ max_tokens: 60 })).text);
    const { tokens } = await (await fetch(`${server.url}/tokenize`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ prompt: ` ${word}`, add_special_tokens: false }),
    })).json();
    const biased = await ask({ logit_bias: { [tokens[0]]: 100 }, max_tokens: 3 });
    assert.ok(biased.text.startsWith(` ${word}`.slice(0, 2)));
    const stopped = await ask({ logit_bias: { [tokens[0]]: 100 }, stop_token_ids: [tokens[0]] });
    assert.deepEqual([stopped.text, stopped.finish_reason], ['', 'stop']);
    const later = await ask({ logit_bias: { [tokens[0]]: 100 }, stop_token_ids: [tokens[0]], min_tokens: 2 });
    assert.notEqual(later.text, '');
  });

  test('what is not supported is refused by its name, and what changes no answer passes', async () => {
    const ask = (fields) => client.completions.create({ model, prompt: 'It was', max_tokens: 2, ...fields });
    for (const fields of [
      { response_format: { type: 'json_object' } }, { structured_outputs: { regex: 'a' } }, { guided_grammar: 'a' },
      { prompt_logprobs: 1 }, { suffix: 'x' }, { best_of: 3 }, { tempreture: 0 },
    ])
      await assert.rejects(ask(fields), (error) => error.status === 400 && error.param === Object.keys(fields)[0]);
    await assert.rejects(ask({ slo: { ttft: 1 } }), (error) => error.param === 'slo.ttft');
    assert.ok(await ask({ user: 'u', metadata: { a: 'b' }, store: false, service_tier: 'auto' }));
  });

  test('endpoints that this server lacks are not found', async () => {
    await assert.rejects(client.embeddings.create({ model, input: 'a' }), OpenAI.NotFoundError);
    await assert.rejects(client.moderations.create({ input: 'a' }), OpenAI.NotFoundError);
    await assert.rejects(client.files.list(), OpenAI.NotFoundError);
  });

  test('errors become the client\'s exceptions and name the field', async () => {
    const ask = (fields) => client.completions.create({ model, prompt: 'It was', max_tokens: 4, ...fields });
    await assert.rejects(ask({ temperature: -1 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.status, 400);
      assert.equal(error.param, 'temperature');
      assert.equal(error.type, 'invalid_request_error');
      return true;
    });
    await assert.rejects(ask({ max_tokens: -3 }), OpenAI.BadRequestError);
    await assert.rejects(ask({ tools: [{ type: 'function' }] }), (error) => error.param === 'tools');
    await assert.rejects(ask({ max_tokens: 1 << 20 }), (error) => error.code === 'context_length_exceeded');
    await assert.rejects(ask({ model: 'another' }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      return error.code === 'model_not_found';
    });
  });
});

test('openai: a missing or wrong key', async () => {
  const server = await serve('--model', 'tiny', '--api-key', 'right');
  const wrong = new OpenAI({ baseURL: server.api, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(wrong.models.list(), OpenAI.AuthenticationError);
  const right = new OpenAI({ baseURL: server.api, apiKey: 'right', maxRetries: 0 });
  assert.equal((await right.models.list()).data[0].id, 'tiny');
  assert.equal(await server.end(), 0);
});

test('openai: a full queue is a RateLimitError and is retried after the server\'s retry time', async () => {
  const server = await serve('--model', 'tiny', '--queue', '1', '--batch', '1');
  const statuses = [];
  const client = new OpenAI({
    baseURL: server.api, apiKey: 'any', maxRetries: 8,
    fetch: async (...asked) => {
      const answer = await fetch(...asked);
      statuses.push(answer.status);
      return answer;
    },
  });
  // One request runs and one waits until the test ends them.
  const leaving = [new AbortController(), new AbortController()];
  for (const { signal } of leaving) {
    client.completions
      .create({ model: 'tiny', prompt: 'a', max_tokens: 4000, ignore_eos: true, stream: true }, { signal })
      .then(async (stream) => { for await (const chunk of stream) assert.ok(chunk); })
      .catch(() => {});
    await eventually(async () => (await server.metric('sluice:requests_total')) >= 1);
  }
  assert.ok(await eventually(async () => (await server.metric('vllm:num_requests_waiting')) === 1));
  await assert.rejects(
    client.completions.create({ model: 'tiny', prompt: 'b', max_tokens: 1 }, { maxRetries: 0 }),
    (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.status, 429);
      assert.ok(Number(error.headers.get('retry-after')) >= 1);
      return true;
    });
  statuses.length = 0;
  const asked = client.completions.create({ model: 'tiny', prompt: 'b', max_tokens: 1 });
  await sleep(200);
  for (const one of leaving) one.abort();
  assert.equal((await asked).usage.completion_tokens, 1);
  assert.equal(statuses[0], 429);
  assert.equal(statuses.at(-1), 200);
  assert.equal(await server.end(), 0);
});
