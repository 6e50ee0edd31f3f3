// SPDX-License-Identifier: Apache-2.0
// report.html in a browser: an address restores its view, and saved files equal the shown content.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { browse } from './browse.mjs';

const address = pathToFileURL(join(process.env.SLUICE_REPORT, 'report.html')).href;
const report = JSON.parse(readFileSync(join(process.env.SLUICE_REPORT, 'report.json'), 'utf8'));

let page, hash, click;
before(async () => { ({ hash, click } = page = await browse()); });
after(async () => { await page?.end(); });
const visit = (fragment = '') => page.visit(address + fragment, '#time svg');
/// The visible content, without the page's variables.
const look = () => page.read(`({
  pressed: [...document.querySelectorAll('.bar [aria-pressed=true]')].map(b => b.textContent),
  cards: [...document.querySelectorAll('#time figure')].map(f => f.querySelector('title').textContent),
  axis: [...document.querySelectorAll('#time figure:first-child svg > text.m')].map(t => t.textContent),
  why: document.getElementById('why-text').textContent,
  iteration: document.querySelector('#iteration figcaption').textContent,
  sorted: [...document.querySelectorAll('th[aria-sort]')].map(h => h.textContent + ' ' + h.getAttribute('aria-sort')),
  order: [...document.querySelectorAll('table:not(.audit)')].map(t => [...t.tBodies[0].rows].map(r => r.cells[0].textContent).join(' '))
})`);

test('an untouched page has a plain address', async () => {
  await visit();
  assert.equal(await hash(), '');
});

test('the address contains all choices and restores them', async () => {
  await visit();
  const opened = await look();
  await click('scales', '×2');
  await click('deposits', 'with deposit');
  await click('names', 'VllmSwap');
  await page.read(`{ const pick = document.getElementById('pick'); pick.value = 'SuperInfer'; pick.dispatchEvent(new Event('change')); }`);
  await page.read(`document.querySelectorAll('table:not(.audit)')[1].tHead.rows[1].cells[3].click()`);
  await page.read(`{ const head = document.querySelectorAll('table:not(.audit)')[0].tHead.rows[1].cells[2]; head.click(); head.click(); }`);
  const box = await page.read(`{ document.querySelector('#time').scrollIntoView();
    const r = document.querySelector('#time rect[style*=crosshair]').getBoundingClientRect(); ({ x: r.x, y: r.y, w: r.width, h: r.height }); }`);
  const pointer = (type, share) => page.page('Input.dispatchMouseEvent',
    { type, x: box.x + share * box.w, y: box.y + box.h / 2, button: 'left', buttons: 1, clickCount: 1 });
  await pointer('mousePressed', 0.2);
  await pointer('mouseMoved', 0.5);
  await pointer('mouseReleased', 0.6);
  await page.read(`document.querySelector('#why-lines g[role=button]:nth-of-type(2)').dispatchEvent(new MouseEvent('click', { bubbles: true }))`);
  const seen = await look(), there = await hash();
  assert.notDeepEqual(seen, opened);
  assert.match(there, /^#slo=2&deposit=on&systems=[A-Za-z,]+&iteration=SuperInfer&time=[\d.e+]+-[\d.e+]+&why=[A-Za-z]+[.]\d+&sort=/);
  await visit(there);
  assert.deepEqual(await look(), seen);
  assert.equal(await hash(), there);
  await page.read(`document.getElementById('whole').click()`);
  assert.doesNotMatch(await hash(), /time=/);
});

test('an address of another report or without meaning changes nothing', async () => {
  await visit();
  const opened = await look();
  for (const wrong of ['#slo=7&deposit=maybe&iteration=Nobody&time=9-3&sort=99.1.up', '#time=-&sort=0.0.up', '#%%%', '#time=a-b&slo=']) {
    await visit(wrong);
    assert.deepEqual(await look(), opened, wrong);
    assert.equal(await hash(), '', wrong);
  }
});

/// The ends of a number's 95 % interval in report.json.
function checkInterval(row, key, system) {
  const [least, most] = system.interval[key];
  for (const [end, wanted] of [['least', least], ['most', most]])
    assert.ok(Math.abs(Number(row[`${key}_${end}`]) - wanted) <= 1e-5 * Math.max(1, Math.abs(wanted)), `${row.system}: ${key}_${end}`);
}

test('every picture is saved as self-contained SVG, with its numbers as CSV', async () => {
  await visit();
  const pictures = await page.pictures();
  assert.deepEqual([...new Set(pictures.map((p) => p.id))], ['attainment', 'pair-charts', 'costs', 'cdf', 'time', 'why-bars', 'why-lines', 'iteration']);
  for (const { id, wrong, variables, buttons, texts, rows, csv } of pictures) {
    assert.equal(wrong, undefined, id);
    assert.equal(variables, false, id);
    assert.equal(buttons, 2, id);
    assert.ok(texts > 3, id);
    assert.ok(rows.length > 1, id);
    for (const row of rows) assert.equal(row.length, rows[0].length, id);
    assert.equal(csv.trimEnd().split('\n').length, rows.length, id);
  }
  const [head, ...rows] = pictures.find((p) => p.id === 'attainment').rows;
  for (const row of rows) {
    const of = Object.fromEntries(head.map((name, i) => [name, row[i]]));
    const system = report.systems.find((s) => s.name === of.system && s.deposit === of.deposit && s.slo_scale === of.slo_scale);
    for (const key of ['slo_attainment', 'tbt_attainment', 'per_token_attainment']) assert.ok(Math.abs(system[key] - of[key]) < 1e-4);
    for (const key of ['slo_attainment', 'tbt_attainment']) checkInterval(of, key, system);
    for (const [i, each] of system.per_seed.slo_attainment.entries())
      assert.ok(Math.abs(of[`slo_attainment_seed_${i + 1}`] - each) < 1e-5, `${of.system}, seed ${i + 1}`);
  }
  // Numbers of charts over several seeds have all seeds; a chart of one seed names it.
  for (const picture of pictures) {
    const [names, first] = picture.rows;
    if (picture.id === 'why-bars') continue; // all seeds with --why, else the first
    if (!['attainment', 'pair-charts', 'costs'].includes(picture.id)) {
      assert.equal(first[names.indexOf('seed')], 1, picture.id);
      continue;
    }
    assert.equal(first[names.indexOf('seeds')], 3, picture.id);
    assert.ok(names.some((name) => name.endsWith('_least')) && names.some((name) => name.endsWith('_most')), picture.id);
  }
  const [costHead, ...costRows] = pictures.find((p) => p.id === 'costs').rows;
  for (const row of costRows) {
    const of = Object.fromEntries(costHead.map((name, i) => [name, row[i]]));
    const system = report.systems.find((s) => s.name === of.system && s.deposit === of.deposit && s.slo_scale === of.slo_scale);
    for (const key of ['p99_tbt_s', 'mean_e2e_all_s', 'throughput_tokens_per_s', 'times_preempted']) { // a count's mean is not a count
      assert.ok(Math.abs(Number(of[key]) - system[key]) <= 1e-5 * Math.max(1, system[key]), `${of.system}: ${key}`);
      checkInterval(of, key, system);
    }
  }
  const [pairHead, ...pairRows] = pictures.find((p) => p.id === 'pair-charts').rows;
  for (const row of pairRows) {
    const of = Object.fromEntries(pairHead.map((name, i) => [name, row[i]]));
    const each = [1, 2, 3].map((seed) => of[`difference_seed_${seed}`]);
    assert.ok(Math.abs(each.reduce((sum, v) => sum + v, 0) / 3 - of.mean) < 1e-4 * Math.max(1, Math.abs(of.mean)), of.system);
  }
});

test('no button covers text of a picture or a table, on wide and narrow screens', async () => {
  for (const { width, buttons, words, covered } of await page.covered(visit)) {
    assert.ok(buttons > 20 && words > 100);
    assert.deepEqual(covered, [], `${width} px`);
  }
});

test('a table is saved with all digits of its numbers', async () => {
  await visit();
  const tables = await page.read(`[...document.querySelectorAll('table:not(.audit)')].map(t => ({ rows: tableRows(t), buttons: t.querySelectorAll('.save button').length }))`);
  for (const { rows } of tables) for (const row of rows) assert.equal(row.length, rows[0].length);
  const { rows: [head, ...rows], buttons } = tables[0];
  assert.equal(buttons, 1);
  assert.deepEqual(head.slice(0, 5), ['system', 'tbt_attainment', 'tbt_attainment_least', 'tbt_attainment_most', 'per_token_attainment']);
  assert.equal(head.at(-1), 'seeds');
  for (const row of rows) {
    const of = Object.fromEntries(head.map((name, i) => [name, row[i]]));
    const system = report.systems.find((s) => s.name === of.system.replace(' (control)', '') && !s.deposit && s.slo_scale === 1.5);
    for (const key of head.filter((name) => name in system)) {
      assert.ok(Math.abs(system[key] - Number(of[key])) <= 1e-8 + 1e-9 * Math.abs(system[key]), `${of.system}: ${key}`);
      checkInterval(of, key, system);
    }
  }
  assert.ok(head.filter((name) => name in report.systems[0]).length > 15);
  const judged = tables.find((t) => t.rows[0].includes('tbt_attainment_points')).rows[0];
  assert.deepEqual(judged.slice(1, 5), ['slo_attainment_points', 'slo_attainment_points_least', 'slo_attainment_points_most', 'slo_attainment_judged']);
});

test('a click on a button saves a file', async () => {
  await visit();
  const saved = await page.saved('#cdf .save button');
  assert.equal(saved.length, 6);
  assert.match(saved[0][0], /^sluice-[a-z0-9-]+[.]svg$/);
  assert.match(saved[0][1], /^<[?]xml /);
  assert.match(saved[1][0], /[.]csv$/);
  assert.match(saved[1][1], /^system,deposit,slo_scale,seed,ttft_s,share_up_to\n/);
});
