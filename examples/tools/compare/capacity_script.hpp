// SPDX-License-Identifier: Apache-2.0
// The script of a page of capacities: who bears which rate, and how attainment falls on the way there.
#pragma once

#include <string_view>

namespace compared {

/// Stands behind the scripts that every page of results has (report/html_page.hpp).
inline constexpr std::string_view capacity_script = R"js(
const axes = data.axes, cells = data.cells, share = data.share;
const openingCell = Math.max(0, cells.findIndex((c, i) => systems.some(s => s.cell === i && !absent(s.capacity)))); // not where nobody has one
const view = {cell: openingCell};
const rate = v => absent(v) ? '–' : digits(v) + ' requests/s';
const inCell = cell => systems.filter(s => s.cell === cell && isChosen(s));
const byCapacity = list => [...list].sort((a, b) => a.rank - b.rank);
function chooseSystems() {
  if (chosen.byReader) return;
  const ranked = byCapacity(inCell(view.cell)), control = ranked.filter(s => s.control).slice(0, 1);
  colourOnly([...ranked.filter(s => !s.control).slice(0, maxHighlighted - control.length), ...control].map(s => s.name));
}
const shownOf = (name, v) => { const a = axes.find(a => a.name === name); return a && a.shown ? a.shown[a.values.indexOf(v)] : String(v); };
const nameOfCell = cell => Object.entries(cell).map(([axis, value]) => `${axis} ${shownOf(axis, value)}`).join(', ');
addressed.push(['at', () => view.cell === openingCell ? null : nameOfCell(cells[view.cell]), said => {
  const cell = cells.findIndex(c => nameOfCell(c) === said);
  view.cell = cell >= 0 ? cell : openingCell;
}]);
addressSystems();
function controls() {
  controlRow('cells', cells.map((c, i) => button(nameOfCell(c), i === view.cell, () => { view.cell = i; })));
  systemControls();
}
/// How far an axis goes: to the ends of intervals, but not where few seeds leave them so far out that capacities lie on one spot. A
/// bar that goes on has no end in the picture; the text says where it is.
const farthest = systems => {
  const most = Math.max(...systems.map(s => s.capacity ?? 0));
  return Math.min(Math.max(most, ...systems.map(s => (s.interval || [])[1] ?? 0)), most * 3) || 1;
};
/// A dot and its interval for each system; words where there is no capacity.
function ranking(host) {
  const rows = byCapacity(inCell(view.cell)), width = widthOf(host), label = labelWidth(rows.map(s => s.name)) + 16, right = width - 170, top = 8, rowHeight = paper ? 16 : 20;
  const height = top + rows.length * rowHeight + 40, most = farthest(rows), x = linear(0, most * 1.03, label, right);
  const svg = picture(width, height, 'Capacity by system', rows.map(s => `${s.name}: ${absent(s.capacity) ? s.remark : rate(s.capacity)}`).join('; '));
  axisX(svg, linearTicks(most, 6), x, tidy(plain), top, height - 36);
  svg.append(text(right, height - 4, 'requests/s', 'm s', 'end'));
  rows.forEach((s, r) => {
    const y = top + r * rowHeight + rowHeight / 2, slot = slotOf(s.name), paint = slot >= 0 ? colour(slot) : 'var(--other)';
    const group = tipped(el('g', {}), `${s.name}\ncapacity ${rate(s.capacity)}${s.interval && !absent(s.interval[0]) ? `\n95 % interval ${digits(s.interval[0])} to ${digits(s.interval[1])}` : ''}${s.judged ? '\n' + s.judged : ''}${s.remark ? '\n' + s.remark : ''}`);
    if (s.control && r > 0) svg.append(rule(0, y - rowHeight / 2, width, y - rowHeight / 2, 'a'));
    group.append(el('rect', {x: 0, y: y - rowHeight / 2, width, height: rowHeight, fill: 'transparent'}));
    if (slot >= 0) group.append(marker(slot, 6, y, 3.6, paint));
    group.append(text(label - 8, y + 4, shortened(s.name, label - 24), s.control ? 'm' : slot >= 0 ? 'b' : '', 'end'));
    if (!absent(s.capacity)) {
      group.append(el('path', {d: `M${label} ${y}H${x(s.capacity)}`, stroke: 'var(--line)'}));
      if (s.interval && !absent(s.interval[0])) group.append(el('path', {d: `M${x(s.interval[0])} ${y}H${Math.min(right, x(s.interval[1]))}`, stroke: 'var(--fg)', 'stroke-width': 1.4}));
      group.append(marker(slot < 0 ? 0 : slot, x(s.capacity), y, 4, paint), text(right + 12, y + 4, s.shown + (s.doubted ? ' ?' : ''), 'num s'));
    } else group.append(text(label + 6, y + 4, s.remark, 'm s halo'));
    svg.append(group);
  });
  host.append(figure('', svg));
}
/// Attainment against the rate: of each system a line a seed, and where the share is crossed.
function curves(host) {
  const rows = inCell(view.cell), width = widthOf(host), height = paper ? 300 : 400, left = 52, right = width - 16, top = 12, bottom = height - 44;
  const points = rows.flatMap(s => s.seeds.flatMap(p => p.probes)), least = Math.min(...points.map(p => p[0])), most = Math.max(...points.map(p => p[0]));
  if (!points.length || !(least > 0)) return;
  const x = logarithmic(least, most, left + 8, right - 8), y = linear(0, 1, bottom, top);
  const svg = picture(width, height, 'SLO attainment against the arrival rate', rows.map(s => `${s.name}: ${s.seeds[0].probes.map(p => `${digits(p[0])}: ${percent(p[1])} %`).join(', ')}`).join('; '));
  axisY(svg, [0, 0.25, 0.5, 0.75, 1], y, v => 100 * v + ' %', left, right);
  axisX(svg, logTicks(least, most, right - left), x, tidy(plain), top, bottom);
  svg.append(text(right, height - 6, 'requests/s, logarithmic', 'm s', 'end'));
  svg.append(el('path', {d: `M${left} ${y(share)}H${right}`, stroke: 'var(--fg)', 'stroke-width': 1.4, 'stroke-dasharray': '4 3'}), text(left + 6, y(share) + 14, `${tidy(digits)(100 * share)} %`, 'b s halo'));
  const lines = (s, slot) => {
    for (const seed of s.seeds) {
      const there = seed.probes.filter(p => !absent(p[1])), d = there.map((p, i) => `${i ? 'L' : 'M'}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join('');
      svg.append(tipped(el('path', {d, fill: 'none', stroke: slot < 0 ? 'var(--other)' : colour(slot), 'stroke-width': slot < 0 ? 0.8 : manySeeds ? 1 : 2, 'stroke-opacity': slot >= 0 && manySeeds ? 0.55 : 1, 'stroke-dasharray': slot < 0 ? null : dashes[slot] || null}), `${s.name}${manySeeds ? `, seed ${seed.seed}` : ''}`));
      if (slot >= 0 && !manySeeds) for (const p of there) svg.append(tipped(marker(slot, x(p[0]), y(p[1]), 2.6, colour(slot), p[2]), `${s.name}\n${rate(p[0])}\nSLO attainment ${percent(p[1])} %${p[2] ? '\nlivelocked' : ''}`));
    }
  };
  for (const s of rows) if (slotOf(s.name) < 0) lines(s, -1);
  for (const s of rows) if (slotOf(s.name) >= 0) lines(s, slotOf(s.name));
  for (const s of rows) { // the points found, over all lines
    const slot = slotOf(s.name);
    if (slot < 0 || absent(s.capacity)) continue;
    const spot = tipped(el('g', {}), `${s.name}\ncapacity ${rate(s.capacity)}`);
    if (s.interval && !absent(s.interval[0])) spot.append(el('path', {d: `M${x(Math.max(least, s.interval[0]))} ${y(share)}H${x(Math.min(most, s.interval[1]))}`, stroke: colour(slot), 'stroke-width': 3}));
    spot.append(marker(slot, x(s.capacity), y(share), 6, colour(slot)));
    svg.append(spot);
  }
  host.append(figure('', svg));
}
/// The capacity against each swept number, at the chosen cell's place on all other axes.
const swept = axes.filter(a => a.numbers && a.values.length > 1);
function linesAlong(axis) {
  const here = cells[view.cell], along = cells.map((c, i) => [c, i]).filter(([c]) => axes.every(a => a === axis || c[a.name] === here[a.name]));
  return names.map(n => [n, along.map(([c, i]) => [c[axis.name], inCell(i).find(s => s.name === n)]).filter(p => p[1]).sort((a, b) => a[0] - b[0])]).filter(l => l[1].length);
}
function against(host) {
  for (const axis of swept) {
    const lines = linesAlong(axis);
    const width = widthOf(host), height = paper ? 240 : 320, left = 58, right = width - 16, top = 12, bottom = height - 44, of = lines.flatMap(l => l[1].map(p => p[1]).filter(s => !absent(s.capacity)));
    const low = Math.min(...axis.values), high = Math.max(...axis.values), wide = low > 0 && high / low > 6, most = farthest(of);
    const x = (wide ? logarithmic : linear)(low, high, left + 10, right - 10), y = linear(0, most, bottom, top);
    const svg = picture(width, height, `Capacity against ${axis.name}`, lines.map(([n, ps]) => `${n}: ${ps.map(p => `${shownOf(axis.name, p[0])}: ${absent(p[1].capacity) ? p[1].remark : digits(p[1].capacity)}`).join(', ')}`).join('; '));
    axisY(svg, linearTicks(most, 5), y, tidy(plain), left, right);
    axisX(svg, [...axis.values].sort((a, b) => a - b), x, v => shownOf(axis.name, v), top, bottom);
    svg.append(text(right, height - 6, axis.name + (wide ? ', logarithmic' : ''), 'm s', 'end'));
    for (const [n, ps] of [...lines].sort((a, b) => (slotOf(a[0]) >= 0) - (slotOf(b[0]) >= 0))) {
      const slot = slotOf(n), paint = slot < 0 ? 'var(--other)' : colour(slot);
      // No line to where there is none.
      const d = ps.map((p, i) => absent(p[1].capacity) ? '' : `${i && !absent(ps[i - 1][1].capacity) ? 'L' : 'M'}${x(p[0]).toFixed(1)} ${y(p[1].capacity).toFixed(1)}`).join('');
      svg.append(el('path', {d, fill: 'none', stroke: paint, 'stroke-width': slot < 0 ? 1 : 2.2, 'stroke-dasharray': slot < 0 ? null : dashes[slot] || null}));
      for (const [v, s] of ps) {
        const spot = tipped(el('g', {}), `${n}\n${axis.name} ${shownOf(axis.name, v)}\ncapacity ${rate(s.capacity)}${s.remark ? '\n' + s.remark : ''}`), px = x(v) + (slot < 0 ? 0 : (slot - 2.5) * (absent(s.capacity) ? 5 : 2));
        if (absent(s.capacity)) { // an arrow at the foot: no rate; at the head: every rate
          const up = s.beyond === 'above', py = up ? top + 5 : bottom - 5, tip = up ? -5 : 5;
          spot.append(el('path', {d: `M${px - 4} ${py - tip}H${px + 4}L${px} ${py + tip}Z`, fill: slot < 0 ? 'var(--bg)' : paint, stroke: paint}));
          svg.append(spot);
          continue;
        }
        if (slot >= 0 && s.interval && !absent(s.interval[0])) spot.append(el('path', {d: `M${px} ${y(s.interval[0])}V${y(Math.min(most, s.interval[1]))}`, stroke: paint, 'stroke-width': 1.4}));
        spot.append(slot < 0 ? el('circle', {cx: x(v), cy: y(s.capacity), r: 2, fill: paint}) : marker(slot, x(v), y(s.capacity), 3.8, paint));
        svg.append(spot);
      }
    }
    host.append(figure(`Capacity, requests/s, against ${axis.name}`, svg));
  }
  host.parentElement.hidden = !host.children.length;
}
const capacityHead = [...runHead, ...meansHead, 'requests_per_s', ...ends('requests_per_s'), ...(manySeeds ? ['median_requests_per_s'] : []), ...eachHead('requests_per_s'), 'remark'];
const capacityRow = s => [...shownRun(s), ...means, s.mean, ...endsOf(s.interval), ...(manySeeds ? [s.middle] : []), ...eachOf(s.seeds.map(seed => seed.capacity)), s.remark];
const exports_ = {
  ranking: () => [capacityHead, ...byCapacity(inCell(view.cell)).map(capacityRow)],
  curves: () => [[...runHead, 'seed', 'requests_per_s', 'slo_attainment', 'livelocked'],
                 ...byCapacity(inCell(view.cell)).flatMap(s => s.seeds.flatMap(seed => seed.probes.map(([at, met, livelocked]) => [...shownRun(s), seed.seed, at, met, livelocked === 1])))],
  against: (figure, i) => [capacityHead, ...linesAlong(swept[i]).flatMap(([, points]) => points.map(p => capacityRow(p[1])))]
};
function draw() {
  pictures = 0;
  chooseSystems();
  controls();
  for (const [id, act] of [['ranking', ranking], ['curves', curves], ['against', against]]) { const host = at(id); host.parentElement.hidden = false; host.replaceChildren(); act(host); }
  document.querySelectorAll('.part').forEach(node => { node.textContent = nameOfCell(cells[view.cell]) ? ` At ${nameOfCell(cells[view.cell])}.` : ''; });
  const entries = chosen.names.filter(n => inCell(view.cell).some(s => s.name === n)).map(n => [sample(slotOf(n)), n + (systems.some(s => s.name === n && s.control) ? ' (control)' : '')]);
  if (inCell(view.cell).some(s => slotOf(s.name) < 0)) entries.push([swatch(svg => svg.append(el('path', {d: 'M0 6h22', stroke: 'var(--other)', 'stroke-width': 1.2}))), 'all others']);
  at('legend').replaceChildren(legendOf(entries));
  dressFigures();
  remember();
}
opens();
)js";

} // namespace compared
