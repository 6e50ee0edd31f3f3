// SPDX-License-Identifier: Apache-2.0
// The script of report.html, of several seeds: intervals, a mark for each seed, and differences in pairs.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Stands before the charts, which draw intervals with it; draws nothing of one seed.
inline constexpr std::string_view html_script_seeds = R"js(
/// " ± 8.9" behind a mean; nothing where there is no interval, or no width.
function spread(s, key, show) {
  const limits = s.interval && s.interval[key];
  return !limits || absent(limits[0]) || limits[0] === limits[1] ? '' : ` ± ${show((limits[1] - limits[0]) / 2)}`;
}
/// A 95 % interval as a bar with ends, and a ring for each seed on it. White beneath: what is under it has hatches.
function seedMarks(values, limits, at, y, height) {
  const node = el('g', {}), there = values.filter(v => !absent(v));
  if (limits && !absent(limits[0])) {
    const x0 = at(limits[0]), x1 = at(limits[1]), h = Math.max(2.5, height / 2 - 2.5), d = `M${x0.toFixed(1)} ${y}H${x1.toFixed(1)}M${x0.toFixed(1)} ${y - h}v${2 * h}M${x1.toFixed(1)} ${y - h}v${2 * h}`;
    node.append(el('path', {d, stroke: 'var(--card)', 'stroke-width': 3.4, fill: 'none'}), el('path', {d, stroke: 'var(--fg)', 'stroke-width': 1.4, fill: 'none'}));
  }
  for (const v of there) node.append(el('circle', {cx: at(v).toFixed(1), cy: y, r: 1.9, fill: 'var(--card)', stroke: 'var(--fg)', 'stroke-width': 0.9}));
  return node;
}
const seedLegend = () => !manySeeds ? [] : [
  [swatch(svg => svg.append(el('path', {d: 'M2 6H20M2 2v8M20 2v8', stroke: 'var(--fg)', 'stroke-width': 1.4, fill: 'none'}))), `95 % interval of the mean over ${data.seeds.length} seeds`],
  [swatch(svg => svg.append(el('circle', {cx: 11, cy: 6, r: 2.4, fill: 'var(--card)', stroke: 'var(--fg)'}))), 'one seed']];

const judgedBy = {tbt_attainment: ['TBT attainment', 'points'], slo_attainment: ['SLO attainment', 'points'], mean_e2e_s: ['mean E2E', '%, less is better']};
const signed = v => (v < 0 ? '−' : '+') + digits(Math.abs(v));
/// Each system against the one that all are judged against: a row of rings, a seed each, around nothing at all.
function pairChart(host, key) {
  const rows = ranked(shown()).filter(s => s.pairs && !s.same && s.pairs[key] && !absent(s.pairs[key].mean));
  if (!rows.length) return;
  const against = rows[0].pairs.against, [name, unit] = judgedBy[key], width = widthOf(host), narrow = width < 520;
  const label = Math.min(narrow ? 112 : 230, labelWidth(rows.map(s => s.name)));
  const judgedOf = of => { // where there is little room the counts alone
    const there = of.each.filter(v => !absent(v)), wins = there.filter(v => key === 'mean_e2e_s' ? v < 0 : v > 0).length;
    return narrow ? `${of.tie ? 'tie ' : ''}${wins}/${there.length}` : of.judged;
  };
  const verdict = Math.min(190, 8 + Math.max(...rows.map(s => textWidth(judgedOf(s.pairs[key]))))), numbers = 52;
  const rowHeight = paper ? 15 : 19, top = 22, height = top + rows.length * rowHeight + 26, right = width - verdict - numbers;
  const all = rows.flatMap(s => s.pairs[key].each).filter(v => !absent(v)).sort((a, b) => a - b);
  const middle = f => all[Math.min(all.length - 1, Math.floor(f * all.length))];
  const low = Math.min(0, middle(0.01)), high = Math.max(0, middle(0.99)), room = (high - low) * 0.04 || 1; // one seed of one system shall not squeeze the others
  const x = linear(low - room, high + room, label, right - 8), clipped = v => x(Math.min(high + room, Math.max(low - room, v)));
  const svg = picture(width, height, `${name} against ${against}, seed by seed`, rows.map(s => `${s.name}: ${signed(s.pairs[key].mean)}, ${s.pairs[key].judged}`).join('; '));
  const step = linearTicks(high - low, right - label > 300 ? 6 : 3)[1] || 1, ticks = [];
  for (let t = Math.ceil((low - room) / step); t * step <= high + room; ++t) ticks.push(t * step);
  axisX(svg, ticks, x, v => v === 0 ? '0' : tidy(signed)(v), top, height - 22);
  svg.append(rule(x(0), top - 4, x(0), height - 22, 'a'), text(narrow ? 0 : label, 12, `${name}, ${unit}, less that of ${against}`, 'm s'));
  rows.forEach((s, r) => {
    const of = s.pairs[key], y = top + r * rowHeight + rowHeight / 2, slot = slotOf(s.name);
    const line = tipped(el('g', {}), `${s.name} less ${against}\n${name}: ${signed(of.mean)} ${unit}, 95 % interval ${absent(of.interval[0]) ? 'none' : `${signed(of.interval[0])} to ${signed(of.interval[1])}`}\n${of.judged}`);
    if (s.control) svg.append(rule(0, y - rowHeight / 2, width, y - rowHeight / 2, 'a'));
    line.append(el('rect', {x: 0, y: y - rowHeight / 2, width, height: rowHeight, fill: 'transparent'}));
    line.append(text(label - 8, y + 4, shortened(s.name, label - 10), s.control ? 'm' : slot >= 0 ? 'b' : '', 'end'));
    line.append(seedMarks(of.each, of.interval, clipped, y, rowHeight - 4));
    if (!absent(of.mean)) line.append(marker(3, clipped(of.mean), y, 3.4, of.tie ? 'var(--other)' : slot >= 0 ? colour(slot) : 'var(--fg)'));
    line.append(text(right + numbers - 10, y + 4, signed(of.mean), 'num s', 'end'), text(right + numbers, y + 4, judgedOf(of), of.tie ? 'm s' : 's'));
    svg.append(line);
  });
  host.append(figure('', svg));
}
function pairCharts() {
  const section = document.getElementById('pairs');
  section.hidden = !manySeeds;
  if (!manySeeds) return;
  const hosts = Object.keys(judgedBy).slice(0, 2).map(key => [key, document.createElement('div')]);
  document.getElementById('pair-charts').replaceChildren(...hosts.map(h => h[1]));
  for (const [key, host] of hosts) pairChart(host, key);
}
)js";

} // namespace sluice::detail
