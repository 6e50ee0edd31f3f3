// SPDX-License-Identifier: Apache-2.0
// The live page in a browser: it shows the decision log's figures and works with a keyboard only.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, serve, sleep } from '../clients/server.mjs';
import { open } from './chromium.mjs';

let folder, log, server, browser;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-live-'));
  log = join(folder, 'decisions.txt');
  server = await serve('--model', 'llama3-8b', '--simulate', 'h100', '--system', 'OrbitFlow', '--kv-memory', '320MiB',
    '--batch', '8', '--slo-ttft', '2', '--slo-tbt', '0.012', '--decisions', log);
  browser = await open(`${server.url}/live`);
  assert.ok(await eventually(() => browser.read(`document.getElementById('all')?.hidden === false`)));
});
after(async () => {
  await browser?.end();
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

/// Requests an answer to a prompt of so many tokens; `signal` aborts.
const ask = (prompt, tokens, signal) =>
  fetch(`${server.api}/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ prompt: 'a'.repeat(prompt), max_tokens: tokens, ignore_eos: true }),
    signal,
  }).then((answer) => answer.json());

/// The page's content at one moment.
const look = () => browser.read(`(() => {
  const texts = (list) => [...list].map((one) => one.textContent);
  const facts = {}, logs = {};
  for (const one of document.querySelectorAll('#facts > div'))
    facts[one.querySelector('dt').textContent] = texts(one.querySelectorAll('dd > *'));
  for (const one of document.querySelectorAll('#logs > div'))
    logs[one.querySelector('h3').textContent] =
      [...one.querySelectorAll('li:not(.sub)')].map((li) => [li.firstChild.textContent, li.lastChild.textContent]);
  const rows = [...document.querySelectorAll('#rows .row')].map((row) => row.getAttribute('aria-label'));
  return { facts, logs, rows, plan: texts(document.querySelectorAll('#plan p')), said: document.getElementById('said').textContent };
})()`);

/// A decision of the log or the page as text, with its times separate: the page rounds them, and writes "1 token".
function reading(text) {
  const times = [];
  const scale = { 's': 1, 'ms': 1e-3, 'µs': 1e-6, 'min': 60 };
  const plain = text
    .replace(/(\d),(?=\d{3})/g, '$1')
    .replace(/([\d.]+(?:e-?\d+)?) (s|ms|µs|min)\b/g, (_, value, unit) => (times.push(value * scale[unit]), 'TIME'))
    .replace(/\b(request|token|layer|block|node|weight|stream)s\b/g, '$1')
    .replace('…', '...')
    .replace(/; SLO .*/, '');
  return { plain, times };
}
function same(shown, logged) {
  const page = reading(shown), line = reading(logged);
  assert.equal(page.plain, line.plain);
  assert.equal(page.times.length, line.times.length);
  page.times.forEach((time, i) => assert.ok(Math.abs(time - line.times[i]) <= 0.006 * line.times[i] + 1e-6, `${shown}: ${logged}`));
}

/// Whether the page's "1.414 s" is this time of the log: either may have been rounded from a tie, 1.4135 s.
const atTime = (shown, when) => /^\d+[.]\d{3} s$/.test(shown) && Math.abs(Number.parseFloat(shown) - when) < 0.000501;

/// The log's lines as time and text; plans without their step.
function decisions() {
  const text = readFileSync(log, 'utf8');
  return text.slice(0, text.lastIndexOf('\n')).split('\n').map((line) => {
    const [, when, step, what] = /^([\d.]+) s {2}(?:step (\d+) {2})?(.*)$/.exec(line);
    return { when: Number(when), step, what, kind: what.split(/[ :]/)[0] };
  });
}

test('plans, layers, preemptions and ends are the same as in the decision log', async () => {
  const looks = [];
  const leaving = new AbortController();
  const left = ask(500, 3000, leaving.signal).catch((error) => error.name);
  const asked = [];
  for (let i = 0; i < 9; ++i) asked.push(ask(300 + 60 * i, 60 + 25 * i));
  const done = Promise.all(asked);
  let over = false;
  done.then(() => (over = true));
  while (!over) {
    looks.push(await look());
    await sleep(150);
  }
  leaving.abort();
  assert.equal(await left, 'AbortError');
  assert.ok(await eventually(async () => (await look()).said === 'ready, idle'));
  looks.push(await look());

  const lines = decisions(); // a line is in the file before the page shows it
  const of = (...kinds) => lines.filter((line) => kinds.includes(line.kind));
  const plans = of('plan');
  let offloads = 0;
  for (const { facts, logs, plan, rows } of looks) {
    const found = /^Plan ([\d,]+), .*? ago, for step ([\d,]+): (.*)\.$/.exec(plan[0]);
    if (!found) continue; // no data yet
    const number = Number(found[1].replaceAll(',', '')), line = plans[number - 1];
    assert.equal(found[2].replaceAll(',', ''), line.step);
    same(`plan: ${found[3]}`, line.what);
    // Rows show the layers that the plan moves, for requests that existed when it was made.
    const away = new Map([...line.what.matchAll(/r(\d+): (\d+) layer/g)].map(([, id, layers]) => [id, Number(layers)]));
    const named = !line.what.includes('...');
    for (const row of rows) {
      const [, id, phase] = /^r(\d+), (\w+),/.exec(row), onHost = Number(/(\d+) on the host/.exec(row)?.[1] ?? 0);
      if (phase !== 'decode' || !named) continue;
      assert.equal(onHost, away.get(id) ?? 0, `${row}; ${line.what}`);
      offloads += onHost > 0 ? 1 : 0;
    }
    // The lists have the newest first, and as many entries as the counters say.
    const times = Number(/^([\d,]+) times/.exec(facts.preempted[1])[1].replaceAll(',', ''));
    const until = { Plans: plans.slice(0, number), Ended: of('end', 'cancel'), 'Preempted and back': of('preempt', 'resume') };
    for (const [name, shown] of Object.entries(logs)) {
      const all = until[name].slice(0, name === 'Plans' ? number : undefined);
      // The log has newer lines by now: compare up to the newest that the page shows.
      const newest = name === 'Plans' || shown.length === 0 ? all.length
        : all.findLastIndex((one) => atTime(shown[0][0], one.when) && reading(one.what).plain === reading(shown[0][1]).plain) + 1;
      assert.ok(newest > 0 || shown.length === 0, `${name}: ${shown[0]}`);
      const expected = all.slice(0, newest).slice(-50).reverse();
      assert.equal(shown.length, shown.length === 0 ? 0 : expected.length);
      shown.forEach(([when, what], i) => {
        assert.ok(atTime(when, expected[i].when), `${when}: ${expected[i].when}`);
        same(what, expected[i].what);
      });
      if (name === 'Preempted and back') assert.equal(times, all.slice(0, newest * (shown.length > 0)).filter((one) => one.kind === 'preempt').length);
    }
  }
  assert.ok(offloads > 0, 'memory was short, and a look saw it');
  assert.ok(of('preempt').length > 0, 'and a request had to wait');

  const { facts, plan } = looks.at(-1);
  assert.equal(facts.ended[0], String(of('end').length));
  assert.equal(of('end').length, 9);
  assert.equal(facts['left and refused'][0], '1, 0');
  assert.equal(of('cancel').length, 1);
  assert.equal(facts.preempted[1], `${of('preempt').length} times in all`);
  assert.match(plan[2], new RegExp(`^${plans.length} plans so far`));
  assert.equal(facts.running[0], '0');
  assert.equal(Number(facts['tokens handed over'][0].replaceAll(',', '')), await server.metric('sluice:tokens_released_total'));
});

test('keyboard: arrows move, Enter opens the details, Escape closes them', async () => {
  const leaving = new AbortController();
  const asked = [1, 2, 3].map(() => ask(50, 4000, leaving.signal).catch(() => {}));
  const rows = `document.querySelectorAll('#rows .row')`;
  assert.ok(await eventually(async () => (await browser.read(`${rows}.length`)) === 3));
  await browser.read(`document.getElementById('hold').click()`); // freezes the rows
  const ids = await browser.read(`[...${rows}].map((row) => row.dataset.id)`);
  const focused = () => browser.read(`document.activeElement.dataset.id ?? document.activeElement.tagName`);
  const details = () => browser.read(`document.getElementById('details').hidden ? '' : document.getElementById('h-details').textContent`);
  for (let i = 0; i < 20 && (await focused()) !== ids[0]; ++i) await browser.press('Tab');
  assert.equal(await focused(), ids[0]);
  await browser.press('ArrowDown');
  assert.equal(await focused(), ids[1]);
  assert.equal(await details(), '');
  await browser.press('Enter');
  assert.equal(await details(), `Request r${ids[1]}`);
  await browser.press('End');
  assert.equal(await focused(), ids[2]);
  assert.equal(await details(), `Request r${ids[2]}`);
  await browser.press('ArrowUp');
  await browser.press('ArrowUp');
  await browser.press('ArrowUp');
  assert.equal(await focused(), ids[0]);
  await browser.press('Escape');
  assert.equal(await details(), '');
  assert.equal(await focused(), ids[0]);
  await browser.read(`document.getElementById('hold').click()`);
  leaving.abort();
  await Promise.all(asked);
});
