// SPDX-License-Identifier: Apache-2.0
// The pages of a grid, of capacities and of an exploration in a browser: an address restores its view, and saved files
// equal the page's data, which equal the JSON report.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { browse, checkNumber, readCsv } from './browse.mjs';

const drawn = 1e-5; // the page's data have six digits
const whole = 1e-8; // its tables have nine decimals, and numbers may be thousandths

let page, hash, click;
before(async () => { ({ hash, click } = page = await browse()); });
after(async () => { await page?.end(); });

const look = () => page.read(`({
  pressed: [...document.querySelectorAll('.bar [aria-pressed=true]')].map(b => b.textContent),
  pictures: [...document.querySelectorAll('figure svg[role=img]')].map(svg => svg.querySelector('title').textContent + ': ' + svg.querySelector('desc').textContent),
  legend: document.getElementById('legend').textContent,
  sorted: [...document.querySelectorAll('th[aria-sort]')].map(h => h.textContent + ' ' + h.getAttribute('aria-sort')),
  order: [...document.querySelectorAll('table:not(.audit)')].map(t => [...t.tBodies[0].rows].map(r => r.textContent).join('\\n'))
})`);
/// A page's data, parsed from its file.
const dataOf = () => page.read(`JSON.parse(document.getElementById('data').textContent)`);
/// Clicks the column header of that name in the table of that number.
const sortBy = (table, name) => page.read(`[...[...document.querySelectorAll('table:not(.audit)')[${table}].tHead.rows].at(-1).cells]
  .find(h => (h.dataset.key ?? h.textContent) === ${JSON.stringify(name)}).click()`);
const files = async (selector, ending) =>
  (await page.saved(selector)).filter(([name]) => name.endsWith(ending)).map(([, text]) => ending === '.csv' ? readCsv(text) : text);
const flag = (text) => ({ true: true, false: false })[text];

const grid = {
  of: 'grid', file: 'report.html', figure: '#plots svg[role=img]', ids: ['plots'], tables: 2,
  async choose() {
    for (const [row, choice] of [['figures', 'P99 TBT'], ['along', 'batch'], ['panels', 'rate-scale'], ['fixed', '600'], ['scales', '×2'], ['deposits', 'with deposit'], ['names', 'VllmSwap']])
      await click(row, choice);
    await sortBy(0, 'p99_tbt_s');
    for (const _ of 'up') await sortBy(1, 'kv-blocks');
  },
  there: /^#figure=p99_tbt_s&against=batch&panels=rate-scale&at[.]kv-blocks=600&slo=2&deposit=on&systems=[A-Za-z,]+&sort=0[.]\d+[.]down&sort=1[.]\d+[.]up$/,
  wrong: ['#figure=beauty&against=nothing&panels=nothing&at.kv-blocks=7&at.=1&slo=9', '#panels=kv-blocks&deposit=maybe&sort=1.0.up', '#sort=9.9.up', '#%%%'],
};
const capacity = {
  of: 'capacity', file: 'report.html', figure: '#ranking svg[role=img]', ids: ['ranking', 'curves', 'against'], tables: 2,
  async choose() {
    for (const [row, choice] of [['cells', 'kv-blocks 800'], ['deposits', 'with deposit'], ['names', 'VllmSwap']]) await click(row, choice);
    await sortBy(0, 'requests_per_s');
    for (const _ of 'up') await sortBy(1, 'rate_scale');
  },
  there: /^#at=kv-blocks\+800&deposit=on&systems=[A-Za-z,]+&sort=0[.]\d+[.]down&sort=1[.]\d+[.]up$/,
  wrong: ['#at=kv-blocks+7&slo=1', '#at=&deposit=maybe&sort=1.0.up', '#sort=9.9.up', '#%%%'],
};
const explore = {
  of: 'explore', file: 'explore.html', figure: '#ranking svg[role=img]', ids: ['ranking', 'marginals'], tables: 1,
  async choose() {
    await page.read(`document.querySelector('#roles [aria-pressed=false]').click()`);
    for (const [row, choice] of [['axes', 'longest gap of all'], ['shown', 'the best 30']]) await click(row, choice);
    for (const _ of 'up') await sortBy(0, 'mean_e2e_all_s');
  },
  there: /^#colour=[A-Za-z]+&right=gap&shown=best&sort=0[.]\d+[.]up$/,
  wrong: ['#colour=Nobody&right=wrong&shown=some', '#right=&sort=0.1.up', '#sort=9.9.up', '#%%%'],
};

for (const what of [grid, capacity, explore]) {
  const folder = join(process.env.SLUICE_REPORT, what.of);
  const address = pathToFileURL(join(folder, what.file)).href;
  what.visit = (fragment = '') => page.visit(address + fragment, what.figure);
  what.report = JSON.parse(readFileSync(join(folder, what.file.replace('.html', '.json')), 'utf8'));

  describe(`the page of ${what.of}`, () => {
    test('the address contains all choices and restores them', async () => {
      await what.visit();
      assert.equal(await hash(), '');
      const opened = await look();
      await what.choose();
      const seen = await look(), there = await hash();
      for (const part of ['pressed', 'pictures', 'sorted', 'order']) assert.notDeepEqual(seen[part], opened[part], part);
      assert.match(there, what.there);
      await what.visit(there);
      assert.deepEqual(await look(), seen);
      assert.equal(await hash(), there);
    });

    test('an address of another page or without meaning changes nothing', async () => {
      await what.visit();
      const opened = await look();
      for (const wrong of what.wrong) {
        await what.visit(wrong);
        assert.deepEqual(await look(), opened, wrong);
        assert.equal(await hash(), '', wrong);
      }
    });

    test('every picture has two buttons and is saved complete, and every table has one', async () => {
      await what.visit();
      const pictures = await page.pictures();
      assert.deepEqual([...new Set(pictures.map((p) => p.id))], what.ids);
      assert.equal(pictures.length, await page.read(`document.querySelectorAll('svg[role=img]').length`));
      for (const { id, wrong, variables, buttons, texts, csv } of pictures) {
        assert.equal(wrong, undefined, id);
        assert.equal(variables, false, id);
        assert.equal(buttons, 2, id);
        assert.ok(texts > 3, id);
        assert.ok(readCsv(csv).length > 0, id);
      }
      assert.deepEqual(await page.read(`[...document.querySelectorAll('table:not(.audit)')].map(t => t.querySelectorAll('caption .save button').length)`), Array(what.tables).fill(1));
      const saved = await files('figure .save button', '.svg');
      assert.equal(saved.length, pictures.length);
      for (const text of saved) assert.match(text, /^<[?]xml [^]*<svg [^]*<\/svg>\s*$/);
    });

    test('no button covers text of a picture or a table, on wide and narrow screens', async () => {
      for (const { width, buttons, words, covered } of await page.covered(what.visit)) {
        assert.ok(buttons > what.tables && words > 20);
        assert.deepEqual(covered, [], `${width} px`);
      }
    });
  });
}

/// The run of `report` that belongs to a CSV row.
const placed = (report, row, systems = (cell) => cell.systems) => {
  const cell = report.cells.find((c) => Object.entries(c.at).every(([axis, value]) => Number(row[axis]) === value));
  return systems(cell).find((s) => s.name === row.system && s.deposit === flag(row.deposit) && s.slo_scale === Number(row.slo_scale));
};

test('a panel of a grid is saved with every figure of the report', async () => {
  await grid.visit();
  const data = await dataOf(), [panels] = [data.axes[1].values];
  for (const figure of data.figures) {
    await click('figures', figure.name);
    const saved = await files('#plots .save button', '.csv');
    assert.equal(saved.length, panels.length);
    for (const [i, rows] of saved.entries()) {
      const shown = data.systems.filter((s) => s.scale === 1.5 && !s.deposit && data.cells[s.cell].batch === panels[i] && data.cells[s.cell]['rate-scale'] === 1);
      assert.equal(rows.length, shown.length);
      for (const row of rows) {
        assert.equal(row.seeds, '3');
        assert.equal(Number(row.batch), panels[i]);
        const system = placed(grid.report, row);
        checkNumber(row[figure.key], system[figure.key], drawn, figure.key);
        ['least', 'most'].forEach((end, e) => checkNumber(row[`${figure.key}_${end}`], system.interval[figure.key][e], drawn, `${figure.key}_${end}`));
        assert.equal(flag(row.livelocked), data.systems.find((s) => s.name === row.system && s.deposit === system.deposit && s.scale === system.slo_scale
          && Object.entries(data.cells[s.cell]).every(([axis, value]) => Number(row[axis]) === value)).livelocked);
      }
    }
  }
});

/// A table has one block's rows; its caption names the block.
const rowsOf = async (what, caption) => {
  await what.visit();
  const captions = await page.read(`[...document.querySelectorAll('caption b')].map(b => b.textContent)`);
  const saved = await files('caption .save button', '.csv');
  assert.equal(saved.length, captions.length);
  return saved.flatMap((rows, i) => rows.map((row) => caption(row, captions[i])));
};
const block = (row, text) => ({ ...row, system: row.system.replace(' (control)', ''), deposit: String(text.includes('with token deposit')), slo_scale: row.slo_scale ?? '1.5' });

test('the tables of a grid are saved with all digits of their numbers', async () => {
  const rows = await rowsOf(grid, block);
  assert.equal(rows.length, grid.report.cells.reduce((sum, cell) => sum + cell.systems.length, 0));
  const { figures } = await dataOf();
  for (const row of rows) {
    const system = placed(grid.report, row);
    for (const { key } of figures) {
      checkNumber(row[key], system[key], whole * 1000, key);
      ['least', 'most'].forEach((end, e) => checkNumber(row[`${key}_${end}`], system.interval[key][e], whole * 1000, `${key}_${end}`));
    }
    assert.equal(row['kv-blocks_least'], undefined); // a rank has no mean
  }
});

test('capacities are saved as in the report, with each seed and each tried rate', async () => {
  await capacity.visit();
  const check = (row, precision) => {
    const system = placed(capacity.report, row);
    checkNumber(row.requests_per_s, system.requests_per_s, precision, row.system);
    ['least', 'most'].forEach((end, e) => checkNumber(row[`requests_per_s_${end}`], system.requests_per_s_interval[e], precision, `${row.system} ${end}`));
    checkNumber(row.median_requests_per_s, system.median_requests_per_s, precision, row.system);
    assert.equal(row.remark, system.remark);
    return system;
  };
  for (const choice of ['without deposit', 'with deposit']) {
    await click('deposits', choice);
    const [ranking] = await files('#ranking .save button', '.csv'), [curves] = await files('#curves .save button', '.csv');
    const against = await files('#against .save button', '.csv');
    assert.ok(ranking.length > 0);
    assert.equal(against.length, 1);
    assert.equal(against[0].length, capacity.report.cells.length * ranking.length);
    for (const row of [...ranking, ...against[0]]) {
      const system = check(row, drawn);
      for (const seed of system.per_seed)
        checkNumber(row[`requests_per_s_seed_${seed.seed}`], seed.found === 'between' ? seed.requests_per_s : null, drawn, `${row.system}, seed ${seed.seed}`);
    }
    for (const name of ranking) {
      const system = placed(capacity.report, name);
      const tried = system.per_seed.flatMap((seed) => seed.probes.map((probe) => ({ seed: seed.seed, ...probe })));
      const told = curves.filter((row) => row.system === name.system);
      assert.equal(told.length, tried.length);
      for (const [i, row] of told.entries()) {
        assert.equal(Number(row.seed), tried[i].seed);
        checkNumber(row.requests_per_s, tried[i].requests_per_s, drawn, row.system);
        checkNumber(row.slo_attainment, tried[i].slo_attainment, drawn, row.system);
        assert.equal(flag(row.livelocked), tried[i].livelocked);
      }
    }
  }
  const rows = await rowsOf(capacity, block);
  assert.equal(rows.length, capacity.report.cells.reduce((sum, cell) => sum + cell.systems.length, 0));
  for (const row of rows) {
    const system = check(row, whole * 1000);
    checkNumber(row.rate_scale, system.rate_scale, whole * 1000, row.system);
    checkNumber(row.slo_attainment, system.slo_attainment, whole * 1000, row.system);
    checkNumber(row.ratio, system.pairs?.ratio, whole * 1000, row.system);
    assert.equal(row.against, system.pairs?.against ?? '');
    assert.equal(row.judged, system.pairs?.verdict ?? '');
  }
});

test('an exploration is saved as in its report: the ranking, the effect of each choice, and the table', async () => {
  await explore.visit();
  const { rows: reported, marginals: worth, product } = explore.report;
  const of = (name) => reported.find((row) => row.name === name);
  const [ranking] = await files('#ranking .save button', '.csv'), [marginals] = await files('#marginals .save button', '.csv');
  assert.equal(ranking.length, reported.filter((row) => row.livelock === '' && row.slo_attainment !== null).length);
  for (const row of ranking) {
    const system = of(row.system);
    for (const key of ['slo_attainment', 'tbt_attainment', 'per_token_attainment', 'mean_e2e_all_s', 'longest_gap_all_s', 'throughput_tokens_per_s', 'refused'])
      checkNumber(row[key], system[key], drawn, `${row.system}: ${key}`);
    ['least', 'most'].forEach((end, e) => checkNumber(row[`slo_attainment_${end}`], system.interval.slo_attainment[e], drawn, `${row.system}: slo_attainment_${end}`));
    checkNumber(row.rank, system.rank, 0, row.system);
    for (const key of ['published', 'own', 'control', 'pareto']) assert.equal(flag(row[key]), system[key], `${row.system}: ${key}`);
    for (const { role } of product.roles) assert.equal(row[role], system.models?.[role] ?? '', `${row.system}: ${role}`);
  }
  for (const row of marginals) {
    const role = worth.find((one) => one.role === row.role), model = role.models.find((one) => one.model === row.policy);
    checkNumber(row.spread, role.spread, drawn, row.role);
    for (const key of ['combinations', 'best', 'mean', 'pairs', 'better', 'worse']) checkNumber(row[key], model[key], drawn, `${row.policy}: ${key}`);
    checkNumber(row.gain, model.pairs ? model.gain : null, drawn, row.policy);
    if (model.pairs) ['least', 'most'].forEach((end, e) => assert.ok(Math.abs(Number(row[`gain_${end}`]) - model.gain_interval[e]) < 1e-5, `${row.policy}: gain_${end}`));
  }
  assert.equal(marginals.length, product.roles.filter((role) => role.models.length > 1).reduce((sum, role) => sum + role.models.length, 0));
  const table = await rowsOf(explore, (row) => row);
  assert.equal(table.length, reported.length);
  for (const row of table) {
    const system = of(row.name);
    checkNumber(row.rank, system.rank, 0, row.name);
    for (const key of ['tbt_attainment', 'slo_attainment', 'goodput_requests_per_s', 'stall_share', 'times_preempted']) {
      checkNumber(row[key], system[key], whole * 1000, `${row.name}: ${key}`);
      ['least', 'most'].forEach((end, e) => checkNumber(row[`${key}_${end}`], system.interval[key][e], whole * 1000, `${row.name}: ${key}`));
    }
  }
});

const other = (folder) => pathToFileURL(join(process.env.SLUICE_REPORT, folder, 'report.html')).href;

test('a control that takes much longer has a time axis of its own, and the others share theirs', async () => {
  await page.visit(other('slow'), '#time svg');
  const cards = await page.read(`[...document.querySelectorAll('#time figure')].map(f => ({
    head: f.querySelector('figcaption').textContent,
    axis: [...f.querySelectorAll('svg > text.m')].map(t => t.textContent).join(' ') }))`);
  assert.equal(cards.length, 3);
  const [own, ...shared] = cards.sort((a, b) => b.head.includes('time axis') - a.head.includes('time axis'));
  assert.match(own.head, /OneAtATime, on a time axis [\d.]+ times as long/);
  shared.forEach((card) => assert.doesNotMatch(card.head, /time axis/));
  assert.equal(shared[0].axis, shared[1].axis);
  assert.notEqual(own.axis, shared[0].axis);
});

test('names are an axis: a marker for each, and no line between two', async () => {
  await page.visit(other('names'), '#plots svg');
  const shown = await page.read(`({
    pressed: [...document.querySelectorAll('#along [aria-pressed=true]')].map(b => b.textContent),
    texts: [...document.querySelectorAll('#plots svg text')].map(t => t.textContent),
    desc: document.querySelector('#plots svg desc').textContent,
    judged: [...document.querySelectorAll('th')].filter(h => h.textContent === 'judged').length })`);
  for (const name of ['a5000', 'a10']) assert.ok(shown.texts.includes(name), shown.texts.join(' '));
  assert.match(shown.desc, /VllmSwap: a5000: .*, a10: /);
  assert.equal(shown.judged, 3);
});
