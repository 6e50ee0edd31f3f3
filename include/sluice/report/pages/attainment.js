// SPDX-License-Identifier: Apache-2.0
// Attainment: a bar for each SLO scale, of the share of requests that kept their whole SLO, with a diamond for TBT
// attainment. Where requests have no SLO as a whole, the bar is TBT attainment and the diamond per-token attainment.
import {axisX, linear} from './axes.js';
import {at, el, node} from './dom.js';
import {absent, count, percent, tidy, time} from './numbers.js';
import {paper, widthOf} from './page.js';
import {eachHead, eachOf, ends, endsOf, means, meansHead, runHead, runOf} from './save.js';
import {seedEntries, seedMarks, spread} from './seeds.js';
import {
  colour,
  figure,
  hatched,
  labelWidth,
  legendOf,
  marker,
  picture,
  rule,
  shortened,
  stroke,
  swatch,
  target,
  text,
  tipped
} from './svg.js';
import {deposits, distinct, labelOf, scaleName, scales, sloText, systems} from './systems.js';

const scaleHatches = ['', 'diagonal', 'dots', 'lines', 'grid', 'back'];
const scaleBar = (i, x, y, w, h) => hatched(scaleHatches[i % 6], x, y, w, h, colour(i % 6));
const shortRow = 11; // a row that repeats another
const figures = [
  {key: 'slo_attainment', name: 'SLO attainment', head: 'SLO', room: 46},
  {key: 'tbt_attainment', name: 'TBT attainment', head: 'TBT', room: 46},
  {key: 'per_token_attainment', name: 'per-token attainment', head: 'per token', room: 68},
].slice(systems.every(s => absent(s.m.slo_attainment)) ? 1 : 0);
const [main, second] = figures;
const columnEnds = figures.map((_, i) => figures.slice(0, i + 1).reduce((sum, f) => sum + f.room, 0));
const numbersWidth = columnEnds.at(-1) + 2;

/// Returns the name of the system that a system duplicates at every scale, or ''.
const repeated = group => group.every(s => s.same === group[0].same) ? group[0].same : '';
/// Returns the rows of each system, the best first, each followed by its duplicates.
function attainmentGroups(deposit) {
  const rows = systems.filter(s => s.deposit === deposit);
  const groups =
      distinct(rows.map(s => s.name)).map(name => rows.filter(s => s.name === name).sort((a, b) => a.scale - b.scale));
  const mean = (list, key) => list.reduce((sum, s) => sum + (s.m[key] ?? 0), 0) / list.length;
  const better = (a, b) =>
      mean(b, main.key) - mean(a, main.key) || mean(b, 'goodput_requests_per_s') - mean(a, 'goodput_requests_per_s');
  const stuck = list => list.some(s => s.livelocked);
  groups.sort((a, b) => (a[0].control - b[0].control) || (stuck(a) - stuck(b)) || better(a, b));
  return groups.filter(g => !repeated(g)).flatMap(g => [g, ...groups.filter(d => repeated(d) === g[0].name)]);
}
/// Groups of rows that fit a sheet of paper; on a screen a single group.
function sheetsOf(groups, heightOf) {
  const sheets = [[]];
  for (const group of groups) {
    const room = !paper ? Infinity : sheets.length === 1 ? 240 : 690, last = sheets.at(-1);
    if (last.length && last.reduce((sum, g) => sum + heightOf(g), heightOf(group)) > room)
      sheets.push([group]);
    else
      last.push(group);
  }
  return sheets;
}
function attainmentCharts(host, deposit) {
  const groups = attainmentGroups(deposit);
  const bar = scales.length > 1 ? 11 : 14, gap = paper ? 6 : 9;
  const heightOf = g => (repeated(g) ? shortRow : g.length * bar) + gap;
  const name = !deposit ? 'Without deposit' : 'With token deposit', head = deposits.length > 1 || deposit ? name : '';
  const width = widthOf(host, deposits.length), label = labelWidth(groups.map(g => labelOf(g[0])));
  sheetsOf(groups, heightOf).forEach((sheet, i) => {
    const caption = head + (i > 0 ? ', continued' : '');
    host.append(figure(caption, attainmentChart(sheet, deposit, {width, label, bar, gap, heightOf})));
  });
}
function attainmentChart(groups, deposit, {width, label, bar, gap, heightOf}) {
  const right = width - numbersWidth, top = 22;
  const height = top + groups.reduce((sum, g) => sum + heightOf(g), 0) + (groups.some(g => g[0].control) ? 8 : 0) + 20;
  const told = s => `scale ${s.scale}: ${figures.map(f => `${f.head} ${percent(s.m[f.key])} %`).join(', ')}`;
  const svg =
      picture(width, height, `${main.name} ${deposit ? 'with' : 'without'} token deposit, by system and SLO scale`,
              groups.map(g => `${g[0].name}: ${g.map(told).join(', ')}`).join('; '));
  const x = linear(0, 1, label, right), ticks = right - label > 220 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1];
  axisX(svg, ticks, x, v => 100 * v + ' %', top, height - 20);
  svg.append(...figures.map((f, i) => text(right + columnEnds[i], 14, f.head, 'm s', 'end')));
  let y = top + 4;
  for (const group of groups) {
    const {control, same} = group[0], name = labelOf(group[0]), rows = repeated(group) ? [] : group;
    if (control && group !== groups[0]) {
      svg.append(rule(0, y - 1, width, y - 1, 'a'));
      y += 7;
    }
    const middle = y + (heightOf(group) - gap) / 2 + 4;
    const words = text(label - 8, middle, shortened(name, label - 10), control || !rows.length ? 'm' : 'b', 'end');
    if (control) words.setAttribute('font-style', 'italic');
    svg.append(tipped(words, name));
    if (!rows.length) svg.append(text(label + 6, middle, `same as ${same}`, 'm s halo'));
    rows.forEach((s, i) => svg.append(attainmentRow(s, x, y + i * bar, bar, label, right, width)));
    y += heightOf(group);
  }
  return svg;
}
/// Draws one bar with its diamond, its seeds and its numbers.
function attainmentRow(s, x, y, bar, label, right, width) {
  const attained = s.m[main.key], beside = s.m[second.key], middle = y + bar / 2;
  const row =
      tipped(el('g'), `${labelOf(s)}, SLO scale ${s.scale} (${time(s.slo)})`,
             ...figures.map(f => `${f.name} ${percent(s.m[f.key])} %${spread(s, f.key, percent)}`),
             `${count(s.m.deadlines_missed)} deadlines missed; longest gap of all ${time(s.m.longest_gap_all_s)}`);
  row.append(target(label, y, width - label, bar));
  if (!absent(attained)) {
    const end = x(attained);
    if (end > label) row.append(scaleBar(scales.indexOf(s.scale), label, y + 1, end - label, bar - 2));
    const [from, to] = [attained, beside].sort((a, b) => a - b).map(x);
    if (!absent(beside)) row.append(stroke(`M${from} ${middle}H${to}`, 'var(--fg)', 1, {'stroke-dasharray': '1.5 2'}));
  }
  if (!absent(beside)) row.append(marker(3, x(beside), middle, 3.2, 'var(--fg)', true));
  const clipped = v => x(Math.min(1, Math.max(0, v)));
  if (s.each) row.append(seedMarks(s.each[main.key], s.interval[main.key], clipped, middle, bar));
  row.append(...figures.map(
      (f, i) => text(right + columnEnds[i], middle + 4, percent(s.m[f.key]), i > 0 ? 'num s m' : 'num s', 'end')));
  return row;
}

export const attainmentLegend = () => legendOf([
  ...scales.map(
      (x, i) => [swatch(scaleBar(i, 1, 1, 20, 10)),
                 `${main.name}, SLO ${scaleName(x)} (${sloText(systems.find(s => s.scale === x), tidy(time))})`]),
  [swatch(marker(3, 11, 6, 4, 'var(--fg)', true)), second.name],
  ...seedEntries(),
]);
export function attainment(host) {
  const hosts = deposits.map(() => host.appendChild(node('div'))); // create all at once, so that each has its final
                                                                   // width
  deposits.forEach((deposit, i) => attainmentCharts(hosts[i], deposit));
}
export function attainmentCsv(drawn) {
  const place = [...at('attainment').children].findIndex(host => host.contains(drawn));
  const rows = systems.filter(s => deposits.length < 2 || s.deposit === deposits[place]);
  const cells =
      (s, key) => [s.m[key], ...endsOf(s.interval?.[key]), ...(key === main.key ? eachOf(s.each?.[key]) : [])];
  const heads = key => [key, ...ends(key), ...(key === main.key ? eachHead(key) : [])];
  return [
    [...runHead, ...meansHead, ...figures.flatMap(f => heads(f.key))],
    ...rows.map(s => [...runOf(s), ...means, ...figures.flatMap(f => cells(s, f.key))])
  ];
}
