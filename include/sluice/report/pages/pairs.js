// SPDX-License-Identifier: Apache-2.0
// Each system's differences from the reference: a row of rings, one per seed, around zero.
import {axisX, linear, linearTicks, multiples} from './axes.js';
import {at, el, emptied, node} from './dom.js';
import {absent, signed, tidy} from './numbers.js';
import {paper, widthOf} from './page.js';
import {eachHead, eachOf, means, meansHead, runHead, runOf} from './save.js';
import {seedMarks} from './seeds.js';
import {colour, figure, labelWidth, marker, picture, rule, shortened, target, text, textWidth, tipped} from './svg.js';
import {isKnown, manySeeds, ranked, shown, slotOf} from './systems.js';

const judgedFigures = {
  slo_attainment: {name: 'SLO attainment', unit: 'points'},
  tbt_attainment: {name: 'TBT attainment', unit: 'points'},
};

/// Returns the verdict; with little room, only the counts of seeds.
function verdictOf(pair, narrow) {
  if (!narrow) return pair.judged;
  const known = pair.each.filter(v => !absent(v)), wins = known.filter(v => v > 0).length;
  return `${pair.tie ? 'tie ' : ''}${wins}/${known.length}`;
}
function pairRow(s, key, {x, y, width, label, right, rowHeight, narrow, numbers}) {
  const pair = s.pairs[key], {name, unit} = judgedFigures[key], {against} = s.pairs, slot = slotOf(s.name);
  const interval = isKnown(pair.interval) ? pair.interval.map(signed).join(' to ') : 'none';
  const row = tipped(el('g'), `${s.name} less ${against}`,
                     `${name}: ${signed(pair.mean)} ${unit}, 95 % interval ${interval}`, pair.judged);
  row.append(target(0, y - rowHeight / 2, width, rowHeight),
             text(label - 8, y + 4, shortened(s.name, label - 10),
                  s.control   ? 'm'
                  : slot >= 0 ? 'b'
                              : '',
                  'end'),
             seedMarks(pair.each, pair.interval, x, y, rowHeight - 4));
  const paint = pair.tie ? 'var(--other)' : slot >= 0 ? colour(slot) : 'var(--fg)';
  row.append(marker(3, x(pair.mean), y, 3.4, paint),
             text(right + numbers - 10, y + 4, signed(pair.mean), 'num s', 'end'),
             text(right + numbers, y + 4, verdictOf(pair, narrow), pair.tie ? 'm s' : 's'));
  return row;
}
function pairChart(host, key) {
  const rows = ranked(shown()).filter(s => s.pairs && !s.same && s.pairs[key] && !absent(s.pairs[key].mean));
  if (!rows.length) return;
  const {name, unit} = judgedFigures[key], {against} = rows[0].pairs, width = widthOf(host), narrow = width < 520;
  const label = Math.min(narrow ? 112 : 230, labelWidth(rows.map(s => s.name))), numbers = 52;
  const verdicts = rows.map(s => verdictOf(s.pairs[key], narrow));
  const right = width - Math.min(190, 8 + Math.max(...verdicts.map(v => textWidth(v)))) - numbers;
  const rowHeight = paper ? 15 : 19, top = 22, height = top + rows.length * rowHeight + 26;

  // The axis spans from the first to the last percentile of the seeds, so that one seed of one system does not squeeze
  // the others.
  const all = rows.flatMap(s => s.pairs[key].each).filter(v => !absent(v)).sort((a, b) => a - b);
  const quantile = f => all[Math.min(all.length - 1, Math.floor(f * all.length))];
  const low = Math.min(0, quantile(0.01)), high = Math.max(0, quantile(0.99)), room = (high - low) * 0.04 || 1;
  const place = linear(low - room, high + room, label, right - 8);
  const x = v => place(Math.min(high + room, Math.max(low - room, v)));

  const svg = picture(width, height, `${name} against ${against}, seed by seed`,
                      rows.map(s => `${s.name}: ${signed(s.pairs[key].mean)}, ${s.pairs[key].judged}`).join('; '));
  const step = linearTicks(high - low, right - label > 300 ? 6 : 3)[1] || 1;
  axisX(svg, multiples(step, low - room, high + room), place, v => v === 0 ? '0' : tidy(signed)(v), top, height - 22);
  svg.append(rule(place(0), top - 4, place(0), height - 22, 'a'),
             text(narrow ? 0 : label, 12, `${name}, ${unit}, less that of ${against}`, 'm s'));
  rows.forEach((s, r) => {
    const y = top + r * rowHeight + rowHeight / 2;
    if (s.control) svg.append(rule(0, y - rowHeight / 2, width, y - rowHeight / 2, 'a'));
    svg.append(pairRow(s, key, {x, y, width, label, right, rowHeight, narrow, numbers}));
  });
  host.append(figure('', svg));
}

export function pairCharts() {
  at('pairs').hidden = !manySeeds;
  if (!manySeeds) return;
  const keys = Object.keys(judgedFigures), parent = emptied('pair-charts');
  const hosts = keys.map(() => parent.appendChild(node('div'))); // create all first, so that each has its width
  keys.forEach((key, i) => pairChart(hosts[i], key));
}
export function pairCsv() {
  const rows = shown().filter(s => s.pairs).flatMap(s => {
    const judged = Object.entries(s.pairs).filter(([, pair]) => pair.interval);
    return judged.map(([key, pair]) => [...runOf(s), ...means, s.pairs.against, key, pair.mean, ...pair.interval,
                                        pair.judged, ...eachOf(pair.each)]);
  });
  return [
    [
      ...runHead, ...meansHead, 'against', 'figure', 'mean', 'mean_least', 'mean_most', 'judged',
      ...eachHead('difference')
    ],
    ...rows
  ];
}
