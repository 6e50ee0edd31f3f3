// SPDX-License-Identifier: Apache-2.0
// The script of report.html, second part: attainment, costs and latency distributions.
#pragma once

#include <string_view>

namespace sluice::detail {

inline constexpr std::string_view html_script_charts = R"js(
const sameAs = s => `same as ${s.same}`;

// Attainment: a bar for each SLO scale, the per-token kind as a diamond on it --------------------------------------------
function attainmentCharts(host, deposit) {
  const rows = systems.filter(s => s.deposit === deposit);
  const mean = list => list.reduce((sum, s) => sum + (s.m.tbt_attainment ?? 0), 0) / list.length;
  const groups = distinct(rows.map(s => s.name)).map(name => rows.filter(s => s.name === name).sort((a, b) => a.scale - b.scale));
  const same = g => g.every(s => s.same === g[0].same) ? g[0].same : ''; // at every scale
  groups.sort((a, b) => (a[0].control - b[0].control) || (a.some(s => s.livelocked) - b.some(s => s.livelocked)) || mean(b) - mean(a));
  const ordered = groups.filter(g => !same(g)).flatMap(g => [g, ...groups.filter(d => same(d) === g[0].name)]);
  const bar = scales.length > 1 ? 11 : 14, gap = paper ? 6 : 9, most = first => !paper ? Infinity : first ? 240 : 690;
  const heightOf = g => (same(g) ? 11 : g.length * bar) + gap;
  const parts = [[]]; // a page of paper ends
  for (const g of ordered) {
    if (parts.at(-1).length && parts.at(-1).reduce((sum, o) => sum + heightOf(o), heightOf(g)) > most(parts.length === 1)) parts.push([]);
    parts.at(-1).push(g);
  }
  const head = deposits.length > 1 || deposit ? (deposit ? 'With token deposit' : 'Without deposit') : '';
  const width = widthOf(host, deposits.length), label = labelWidth(ordered.map(g => g[0].name));
  parts.forEach((part, i) => host.append(figure(head + (i > 0 ? ', continued' : ''), attainmentChart(part, same, deposit, width, label, bar, gap))));
}
function attainmentChart(groups, same, deposit, width, label, bar, gap) {
  const right = width - 104, top = 22;
  const height = top + groups.reduce((sum, g) => sum + (same(g) ? 11 : g.length * bar) + gap, 0) + (groups.some(g => g[0].control) ? 8 : 0) + 20;
  const title = `TBT attainment ${deposit ? 'with' : 'without'} token deposit, by system and SLO scale`;
  const svg = picture(width, height, title, groups.map(g => g[0].name + ': ' + g.map(s => `scale ${s.scale}: ${percent(s.m.tbt_attainment)} % (per token ${percent(s.m.per_token_attainment)} %)`).join(', ')).join('; '));
  const at = linear(0, 1, label, right);
  axisX(svg, right - label > 220 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1], at, v => 100 * v + ' %', top, height - 20);
  svg.append(text(right + 46, 14, 'TBT', 'm s', 'end'), text(right + 102, 14, 'per token', 'm s', 'end'));
  let y = top + 4;
  for (const group of groups) {
    if (group[0].control && group !== groups[0]) {
      svg.append(rule(0, y - 1, width, y - 1, 'a'));
      y += 7;
    }
    const middle = y + (same(group) ? 11 : group.length * bar) / 2 + 4;
    const name = text(label - 8, middle, shortened(group[0].name, label - 10), group[0].control || same(group) ? 'm' : 'b', 'end');
    if (group[0].control) name.setAttribute('font-style', 'italic');
    svg.append(tipped(name, group[0].name));
    if (same(group)) {
      svg.append(text(label + 6, middle, sameAs(group[0]), 'm s halo'));
      y += 11 + gap;
      continue;
    }
    for (const s of group) {
      const v = s.m.tbt_attainment, p = s.m.per_token_attainment, i = scales.indexOf(s.scale);
      const row = tipped(el('g', {}), `${s.name}, SLO scale ${s.scale} (${time(s.slo)})\nTBT attainment ${percent(v)} %${spread(s, 'tbt_attainment', percent)}\nper token ${percent(p)} %\n${count(s.m.deadlines_missed)} deadlines missed; longest gap ${time(s.m.longest_gap_s)}`);
      row.append(el('rect', {x: label, y, width: width - label, height: bar, fill: 'transparent'}));
      if (!absent(v)) {
        if (at(v) > label) row.append(scaleBar(i, label, y + 1, at(v) - label, bar - 2));
        if (!absent(p)) row.append(el('path', {d: `M${at(Math.min(v, p))} ${y + bar / 2}H${at(Math.max(v, p))}`, stroke: 'var(--fg)', 'stroke-width': 1, 'stroke-dasharray': '1.5 2'}));
      }
      if (!absent(p)) row.append(marker(3, at(p), y + bar / 2, 3.2, 'var(--fg)', true));
      if (s.each) row.append(seedMarks(s.each.tbt_attainment, s.interval.tbt_attainment, v => at(Math.min(1, Math.max(0, v))), y + bar / 2, bar));
      row.append(text(right + 46, y + bar / 2 + 4, percent(v), 'num s', 'end'), text(right + 102, y + bar / 2 + 4, percent(p), 'num s m', 'end'));
      svg.append(row);
      y += bar;
    }
    y += gap;
  }
  return svg;
}
function attainmentLegend() {
  const entries = scales.map((x, i) => [
    swatch(svg => svg.append(scaleBar(i, 1, 1, 20, 10))),
    `TBT attainment, SLO ${scaleName(x)} (${tidy(time)(systems.find(s => s.scale === x).slo)} a token)`]);
  entries.push([swatch(svg => svg.append(marker(3, 11, 6, 4, 'var(--fg)', true))), 'per-token attainment'], ...seedLegend());
  return legendOf(entries);
}

// Costs: one small chart a number, the systems as rows ---------------------------------------------------------------
const costs = [
  ['P99 TBT', 'lower is better', m => m.p99_tbt_s, time], ['P99 TTFT', 'lower is better', m => m.p99_ttft_s, time],
  ['mean E2E', 'lower is better', m => m.mean_e2e_s, time], ['longest gap', 'lower is better', m => m.longest_gap_s, time],
  ['tokens/s', 'higher is better', m => m.throughput_tokens_per_s, plain],
  ['stalled', 'share of iterations', m => m.stall_share, v => percent(v) + ' %'], ['moved', 'both ways', m => m.bytes_moved, bytes],
  ['device KV', 'mean, of capacity', m => m.device_mean_share, v => percent(v) + ' %'],
  ['times preempted', '', m => m.times_preempted, count], ['planning', 'engine clock', m => m.planning_s, time]];
for (const cost of costs) cost.push(Object.keys((systems[0] || {m: {}}).m).find(key => cost[2]({[key]: 1}) === 1)); // the number's name, for its interval
function costChart(host) {
  const rows = ranked(shown());
  const width = widthOf(host), label = labelWidth(rows.map(s => s.name)) + 16;
  const columns = paper ? costs.length : Math.max(1, Math.min(5, Math.floor((width - label) / 150)));
  const rowHeight = paper ? 14 : 17, head = 34;
  for (let first = 0; first < costs.length; first += columns) {
    const part = costs.slice(first, first + columns), cell = (width - label) / columns;
    const height = head + rows.length * rowHeight + 6;
    const svg = picture(width, height, part.map(c => c[0]).join(', ') + ' by system',
                        rows.map(s => s.name + ': ' + part.map(c => `${c[0]} ${c[3](c[2](s.m))}`).join(', ')).join('; '));
    rows.forEach((s, r) => {
      const y = head + r * rowHeight;
      if (rows.length > 14 && r % 2) svg.append(el('rect', {x: 0, y, width, height: rowHeight, fill: 'var(--grid)', 'fill-opacity': 0.45}));
      if (s.control && r > 0) svg.append(rule(0, y, width, y, 'a'));
      const slot = slotOf(s.name);
      if (slot >= 0) svg.append(marker(slot, 6, y + rowHeight / 2, 3.6, colour(slot)));
      svg.append(tipped(text(label - 10, y + rowHeight / 2 + 4, shortened(s.name, label - 26), s.control || s.same ? 'm' : slot >= 0 ? 'b' : '', 'end'), s.name));
      if (s.same) svg.append(text(label + 7, y + rowHeight / 2 + 4, sameAs(s), 'm s'));
    });
    part.forEach((cost, c) => costColumn(svg, cost, rows, label + c * cell, cell, head, rowHeight));
    host.append(figure('', svg));
  }
}
function costColumn(svg, [name, hint, of, show, key], rows, x, cell, head, rowHeight) {
  svg.append(text(x, 12, name, 'b'), text(x, 26, hint, 'm s'));
  const values = rows.map(s => of(s.m)).filter(v => !absent(v));
  const positive = values.filter(v => v > 0), most = Math.max(...positive, 0), least = Math.min(...positive);
  const numbers = Math.max(30, ...rows.map(s => textWidth(show(of(s.m))))), room = cell - numbers - 22;
  const wide = name !== 'stalled' && most / least > 40; // a bar would hide all but the largest: a dot on a logarithmic scale instead
  const at = wide ? logarithmic(least / 1.3, most, 4, room) : linear(0, most || 1, 0, room);
  if (wide) svg.append(text(x + textWidth(name, true) + 6, 12, 'log', 'm s'));
  svg.append(rule(x, head, x, head + rows.length * rowHeight, 'a'));
  rows.forEach((s, r) => {
    if (s.same) return;
    const v = of(s.m), y = head + r * rowHeight, slot = slotOf(s.name), paint = slot >= 0 ? colour(slot) : 'var(--other)';
    const limits = s.interval && s.interval[key];
    const group = tipped(el('g', {}), `${s.name}\n${name}: ${show(v)}${spread(s, key, show)}`);
    group.append(el('rect', {x, y, width: cell - 8, height: rowHeight, fill: 'transparent'}));
    let end = x;
    if (!absent(v) && v > 0) {
      end = x + at(v);
      if (wide) group.append(el('path', {d: `M${x} ${y + rowHeight / 2}H${end}`, stroke: 'var(--line)'}), marker(0, end, y + rowHeight / 2, 3.6, paint));
      else group.append(el('rect', {x, y: y + 4, width: Math.max(1, end - x), height: rowHeight - 8, fill: paint}));
      if (limits && !absent(limits[0])) {
        const most = Math.min(x + room, x + at(Math.max(limits[1], 0))), least = Math.max(x, Math.min(end, x + at(Math.max(limits[0], wide ? 1e-12 : 0))));
        group.append(el('path', {d: `M${least} ${y + rowHeight / 2}H${most}`, stroke: 'var(--fg)', 'stroke-width': 1.2}));
        end = Math.max(end, most);
      }
    }
    group.append(text(end + 7, y + rowHeight / 2 + 4, show(v), 'num s'));
    svg.append(group);
  });
}

// Distribution functions: the highlighted systems in colour, the others behind them in grey ------------------------------
function cdfChart(host, caption, key, slo) {
  const rows = shown().filter(s => !s.same || slotOf(s.name) >= 0), width = widthOf(host, 3), height = paper ? 220 : 270, left = 42, right = width - 14, top = 12, bottom = height - 40;
  const all = rows.flatMap(s => s.cdf[key]);
  if (all.length === 0) {
    host.append(figure(caption, 'No request got that far.'));
    return;
  }
  const positive = all.filter(p => p[0] > 0).map(p => p[0]).sort((a, b) => a - b);
  const least = positive[Math.floor(positive.length / 200)] ?? 1e-3, ends = rows.filter(s => s.cdf[key].length).map(s => (s.cdf[key].find(p => p[1] >= 0.999) || s.cdf[key][s.cdf[key].length - 1])[0]);
  const most = Math.max(...ends) || 1; // to P99.9: one gap of an hour would squeeze all the others
  const wide = most / least > 12;
  const at = wide ? logarithmic(least, most, left, right) : linear(0, most, left, right);
  const up = linear(0, 1, bottom, top);
  const svg = picture(width, height, `Distribution of ${caption}`, rows.map(s => `${s.name}: median ${time(s.m[`p50_${key}_s`])}, P99 ${time(s.m[`p99_${key}_s`])}`).join('; '));
  axisY(svg, [0, 0.25, 0.5, 0.75, 1], up, v => 100 * v + '%', left, right);
  axisX(svg, wide ? logTicks(least, most, right - left) : timeTicks(most, 4), at, wide ? logTime : tidy(time), top, bottom);
  svg.append(text(right, height - 6, wide ? 'logarithmic, to P99.9' : 'to P99.9', 'm s', 'end'));
  const path = s => {
    let d = `M${at(s.cdf[key][0][0])} ${bottom}`;
    for (const [v, f] of s.cdf[key]) if (v <= most) d += `H${at(v).toFixed(1)}V${up(f).toFixed(1)}`; // a step: no value lies between two
    return d + `H${right}`;
  };
  const line = (s, attributes) => tipped(el('path', {d: path(s), fill: 'none', ...attributes}),
    `${s.name}\nP50 ${time(s.m[`p50_${key}_s`])}, P95 ${time(s.m[`p95_${key}_s`])}, P99 ${time(s.m[`p99_${key}_s`])}`);
  for (const s of rows) if (slotOf(s.name) < 0 && s.cdf[key].length) svg.append(line(s, {stroke: 'var(--other)', 'stroke-width': 1}));
  for (const s of [...highlighted()].reverse()) {
    const slot = slotOf(s.name), curve = s.cdf[key];
    if (!curve.length) continue;
    svg.append(line(s, {stroke: colour(slot), 'stroke-width': 2.2, 'stroke-dasharray': dashes[slot] || null}));
    // Markers at fractions of each system's own, so that they do not sit on one another.
    for (const base of [0.15, 0.45, 0.75]) {
      const point = curve.find(p => p[1] >= base + 0.04 * slot) || curve[curve.length - 1];
      if (point[0] <= most) svg.append(marker(slot, at(point[0]), up(point[1]), 3.6, colour(slot)));
    }
  }
  if (slo > 0 && slo >= (wide ? least : 0) && slo <= most) {
    const late = at(slo) > (left + right) / 2;
    svg.append(el('path', {d: `M${at(slo)} ${top}V${bottom}`, stroke: 'var(--fg)', 'stroke-width': 1.4, 'stroke-dasharray': '4 3', 'pointer-events': 'none'}),
               text(at(slo) + (late ? -6 : 6), bottom - 6, 'SLO ' + tidy(time)(slo), 'b s halo', late ? 'end' : 'start'));
  }
  host.append(figure(caption, svg));
}
function highlightedLegend(others) {
  const also = s => shown().filter(d => d.same === s.name && slotOf(d.name) < 0).map(d => d.name).join(', ');
  const entries = highlighted().map(s => [sample(slotOf(s.name)), s.name + (s.control ? ' (control)' : also(s) ? ` (the same: ${also(s)})` : '')]);
  if (others && shown().some(s => !s.same && slotOf(s.name) < 0))
    entries.push([swatch(svg => svg.append(el('path', {d: 'M0 6h22', stroke: 'var(--other)', 'stroke-width': 1.2}))), 'all others']);
  return legendOf(entries);
}
)js";

} // namespace sluice::detail
