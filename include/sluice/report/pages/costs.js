// SPDX-License-Identifier: Apache-2.0
// Costs: one small chart for each figure, with the systems as rows.
import {linear, logarithmic} from './axes.js';
import {el} from './dom.js';
import {absent, bytes, count, percentText, plain, time} from './numbers.js';
import {paper, widthOf} from './page.js';
import {ends, endsOf, means, meansHead, runHead, runOf} from './save.js';
import {spread} from './seeds.js';
import {
  box,
  colour,
  figure,
  labelWidth,
  marker,
  picture,
  rule,
  shortened,
  stroke,
  target,
  text,
  textWidth,
  tipped
} from './svg.js';
import {isKnown, ranked, shown, slotOf} from './systems.js';

const costs = [
  {key: 'p99_tbt_s', name: 'P99 TBT', hint: 'lower is better', show: time},
  {key: 'p99_ttft_s', name: 'P99 TTFT', hint: 'lower is better', show: time},
  {key: 'mean_e2e_all_s', name: 'mean E2E', hint: 'of all requests', show: time},
  {key: 'longest_gap_all_s', name: 'longest gap', hint: 'of all requests', show: time},
  {key: 'throughput_tokens_per_s', name: 'tokens/s', hint: 'higher is better', show: plain},
  {key: 'stall_share', name: 'stalled', hint: 'share of iterations', show: percentText},
  {key: 'bytes_moved', name: 'moved', hint: 'both ways', show: bytes},
  {key: 'device_mean_share', name: 'device KV', hint: 'mean, of capacity', show: percentText},
  {key: 'times_preempted', name: 'times preempted', hint: '', show: count},
  {key: 'planning_s', name: 'planning', hint: 'engine clock', show: time},
];

export function costCharts(host) {
  const rows = ranked(shown()), width = widthOf(host), label = labelWidth(rows.map(s => s.name)) + 16;
  const columns = paper ? costs.length : Math.max(1, Math.min(5, Math.floor((width - label) / 150)));
  for (let first = 0; first < costs.length; first += columns)
    host.append(figure('', costChart(costs.slice(first, first + columns), rows, width, label)));
}
/// Draws some figures side by side, behind one column of names.
function costChart(part, rows, width, label) {
  const rowHeight = paper ? 14 : 17, head = 34, height = head + rows.length * rowHeight + 6;
  const cell = (width - label) / part.length;
  const told = s => part.map(c => `${c.name} ${c.show(s.m[c.key])}`).join(', ');
  const svg = picture(width, height, part.map(c => c.name).join(', ') + ' by system',
                      rows.map(s => `${s.name}: ${told(s)}`).join('; '));
  rows.forEach((s, r) => {
    const y = head + r * rowHeight, middle = y + rowHeight / 2, slot = slotOf(s.name);
    if (rows.length > 14 && r % 2) svg.append(box(0, y, width, rowHeight, 'var(--grid)', {'fill-opacity': 0.45}));
    if (s.control && r > 0) svg.append(rule(0, y, width, y, 'a'));
    if (slot >= 0) svg.append(marker(slot, 6, middle, 3.6, colour(slot)));
    const style = s.control || s.same ? 'm' : slot >= 0 ? 'b' : '';
    svg.append(tipped(text(label - 10, middle + 4, shortened(s.name, label - 26), style, 'end'), s.name));
    if (s.same) svg.append(text(label + 7, middle + 4, `same as ${s.same}`, 'm s'));
  });
  part.forEach((cost, c) => costColumn(svg, cost, rows, {x: label + c * cell, cell, head, rowHeight}));
  return svg;
}
function costColumn(svg, {key, name, hint, show}, rows, {x, cell, head, rowHeight}) {
  const positive = rows.map(s => s.m[key]).filter(v => !absent(v) && v > 0);
  const most = Math.max(...positive, 0), least = Math.min(...positive);
  const numbers = Math.max(30, ...rows.map(s => textWidth(show(s.m[key])))), room = cell - numbers - 22;
  // Draws dots on a logarithmic scale if only the largest bars would be visible.
  const wide = name !== 'stalled' && most / least > 40;
  const place = wide ? logarithmic(least / 1.3, most, 4, room) : linear(0, most || 1, 0, room);
  svg.append(text(x, 12, name, 'b'), text(x, 26, hint, 'm s'));
  if (wide) svg.append(text(x + textWidth(name, true) + 6, 12, 'log', 'm s'));
  svg.append(rule(x, head, x, head + rows.length * rowHeight, 'a'));
  rows.forEach((s, r) => {
    if (s.same) return;
    const v = s.m[key], y = head + r * rowHeight, middle = y + rowHeight / 2, slot = slotOf(s.name);
    const paint = slot >= 0 ? colour(slot) : 'var(--other)', interval = s.interval?.[key];
    const row = tipped(el('g'), s.name, `${name}: ${show(v)}${spread(s, key, show)}`);
    row.append(target(x, y, cell - 8, rowHeight));
    let end = x;
    if (!absent(v) && v > 0) {
      end = x + place(v);
      if (wide)
        row.append(stroke(`M${x} ${middle}H${end}`, 'var(--line)'), marker(0, end, middle, 3.6, paint));
      else
        row.append(box(x, y + 4, Math.max(1, end - x), rowHeight - 8, paint));
      if (isKnown(interval)) {
        const from = Math.max(x, Math.min(end, x + place(Math.max(interval[0], wide ? 1e-12 : 0))));
        const to = Math.min(x + room, x + place(Math.max(interval[1], 0)));
        row.append(stroke(`M${from} ${middle}H${to}`, 'var(--fg)', 1.2));
        end = Math.max(end, to);
      }
    }
    row.append(text(end + 7, middle + 4, show(v), 'num s'));
    svg.append(row);
  });
}
export function costCsv() {
  const cells = s => costs.flatMap(({key}) => [s.m[key], ...endsOf(s.interval?.[key])]);
  return [
    [...runHead, ...meansHead, ...costs.flatMap(({key}) => [key, ...ends(key)])],
    ...ranked(shown()).map(s => [...runOf(s), ...means, ...cells(s)])
  ];
}
