// SPDX-License-Identifier: Apache-2.0
// The script of a grid's page: any figure against any swept number, a line a system.
#pragma once

#include <string_view>

namespace compared {

/// Stands behind the scripts that every page of results has (report/html_page.hpp).
inline constexpr std::string_view grid_script = R"js(
const axes = data.axes, cells = data.cells, figures = data.figures;
const numeric = axes.filter(a => a.numbers);
const shows = {share: v => percent(v) + ' %', time, plain};
const view = {figure: figures[0].key, x: numeric[0].name, panel: null, fixed: {}};
const axisNamed = name => axes.find(a => a.name === name);
const shownOf = (name, v) => { const a = axisNamed(name); return a.shown ? a.shown[a.values.indexOf(v)] : String(v); };
const others = () => axes.filter(a => a.name !== view.x);
/// The second axis by panels, the first value of all further ones.
function settle() {
  if (view.panel === view.x || (view.panel !== null && !axisNamed(view.panel))) view.panel = null;
  if (view.panel === null && others().length) view.panel = others()[0].name;
  for (const a of others()) if (!(a.name in view.fixed)) view.fixed[a.name] = a.values[0];
}
/// In colour, until the reader chooses: the best in the mean over all cells, and the control that they are read by.
function chooseSystems() {
  if (chosen.byReader) return;
  const mean = name => { const of = systems.filter(s => s.name === name && isChosen(s)); return of.reduce((sum, s) => sum + (s.livelocked ? 0 : s.m.tbt_attainment ?? 0), 0) / (of.length || 1); };
  const there = names.filter(n => systems.some(s => s.name === n && isChosen(s))), isControl = n => systems.some(s => s.name === n && s.control);
  const best = there.filter(n => !isControl(n)).sort((a, b) => mean(b) - mean(a)), control = there.filter(isControl).slice(0, 1);
  colourOnly([...best.slice(0, maxHighlighted - control.length), ...control]);
}
addressed.push(
  ['figure', () => view.figure === figures[0].key ? null : view.figure, said => { view.figure = oneOf(figures.map(f => f.key), said, figures[0].key); }],
  ['against', () => view.x === numeric[0].name ? null : view.x, said => { view.x = oneOf(numeric.map(a => a.name), said, numeric[0].name); }],
  ['panels', () => view.panel === null || view.panel === others()[0].name ? null : view.panel, said => { view.panel = oneOf(axes.map(a => a.name), said, null); }],
  ...axes.map(a => [`at.${a.name}`, () => (view.fixed[a.name] ?? a.values[0]) === a.values[0] ? null : view.fixed[a.name],
                    said => { view.fixed[a.name] = oneOf(a.values, said, a.values[0]); }]));
addressSystems();
function controls() {
  controlRow('figures', figures.map(f => button(f.name, f.key === view.figure, () => { view.figure = f.key; })));
  controlRow('along', numeric.map(a => button(a.name, a.name === view.x, () => { view.x = a.name; })));
  controlRow('panels', others().map(a => button(a.name, a.name === view.panel, () => { view.panel = a.name; })));
  const rest = others().filter(a => a.name !== view.panel);
  controlRow('fixed', rest.flatMap(a => [Object.assign(document.createElement('span'), {textContent: a.name, className: 'sub'}), ...a.values.map(v => button(shownOf(a.name, v), view.fixed[a.name] === v, () => { view.fixed[a.name] = v; }))]));
  systemControls();
}
const figureOf = () => figures.find(f => f.key === view.figure);
const panels = () => view.panel === null ? [null] : axisNamed(view.panel).values;
/// The points of one system in one panel, along the axis.
function pointsOf(name, panel) {
  const list = [];
  for (const s of systems) {
    if (s.name !== name || !isChosen(s)) continue;
    const place = cells[s.cell];
    if (panel !== null && place[view.panel] !== panel) continue;
    if (others().some(a => a.name !== view.panel && place[a.name] !== view.fixed[a.name])) continue;
    const v = s.m[view.figure];
    if (!absent(v)) list.push({x: place[view.x], v, s, limits: s.interval && s.interval[view.figure]});
  }
  return list.sort((a, b) => a.x - b.x);
}
function panelChart(host, panel, range, columns) {
  const width = widthOf(host, columns), height = paper ? 230 : 320, left = 58, right = width - 16, top = 14, bottom = height - 44;
  const figureShown = figureOf(), show = shows[figureShown.unit], values = axisNamed(view.x).values;
  const least = Math.min(...values), most = Math.max(...values), wide = least > 0 && most / least > 6;
  const x = wide ? logarithmic(least, most, left + 10, right - 10) : linear(least, most, left + 10, right - 10);
  const y = range.log ? logarithmic(range.least, range.most, bottom, top) : linear(0, range.most, bottom, top);
  const name = `${figureShown.name} against ${view.x}` + (panel === null ? '' : `, ${view.panel} ${shownOf(view.panel, panel)}`);
  const lines = names.map(n => [n, pointsOf(n, panel)]).filter(l => l[1].length);
  const svg = picture(width, height, name, lines.map(([n, ps]) => `${n}: ${ps.map(p => `${shownOf(view.x, p.x)}: ${show(p.v)}`).join(', ')}`).join('; '));
  axisY(svg, range.log ? logTicks(range.least, range.most, bottom - top) : linearTicks(range.most, 5), y, tidy(show), left, right);
  axisX(svg, [...values].sort((a, b) => a - b), x, v => shownOf(view.x, v), top, bottom);
  svg.append(text(right, height - 8, view.x + (wide ? ', logarithmic' : ''), 'm s', 'end'));
  const told = (n, p) => `${n}${p.s.control ? ' (control)' : ''}\n${view.x} ${shownOf(view.x, p.x)}${panel === null ? '' : `, ${view.panel} ${shownOf(view.panel, panel)}`}\n${figureShown.name} ${show(p.v)}` +
    (p.limits && !absent(p.limits[0]) ? `\n95 % interval ${show(p.limits[0])} to ${show(p.limits[1])}` : '') + (p.s.livelocked ? '\nlivelocked: of what had been served' : '');
  const clipped = v => Math.min(bottom, Math.max(top, y(v)));
  const line = (n, points, slot) => {
    const paint = slot < 0 ? 'var(--other)' : colour(slot), off = slot < 0 ? 0 : (slot - 2.5) * 2; // bars of neighbours side by side
    const d = points.map((p, i) => `${i ? 'L' : 'M'}${x(p.x).toFixed(1)} ${clipped(p.v).toFixed(1)}`).join('');
    svg.append(tipped(el('path', {d, fill: 'none', stroke: paint, 'stroke-width': slot < 0 ? 1 : 2.2, 'stroke-dasharray': slot < 0 ? null : dashes[slot] || null}), n));
    for (const p of points) {
      const spot = tipped(el('g', {}), told(n, p));
      if (slot >= 0 && p.limits && !absent(p.limits[0]) && p.limits[0] !== p.limits[1]) {
        const px = (x(p.x) + off).toFixed(1), y0 = clipped(p.limits[0]).toFixed(1), y1 = clipped(p.limits[1]).toFixed(1);
        spot.append(el('path', {d: `M${px} ${y0}V${y1}M${px - 3} ${y0}h6M${px - 3} ${y1}h6`, stroke: paint, 'stroke-width': 1.3, fill: 'none'}));
      }
      spot.append(slot < 0 ? el('circle', {cx: x(p.x), cy: clipped(p.v), r: 2, fill: paint}) : marker(slot, x(p.x), clipped(p.v), 3.8, paint, p.s.livelocked));
      svg.append(spot);
    }
  };
  for (const [n, points] of lines) if (slotOf(n) < 0) line(n, points, -1);
  for (const [n, points] of [...lines].reverse()) if (slotOf(n) >= 0) line(n, points, slotOf(n));
  host.append(figure(panel === null ? figureShown.name : `${view.panel} ${shownOf(view.panel, panel)}`, svg));
}
const exports_ = {
  plots(figure, i) {
    const key = view.figure;
    return [[...runHead, ...meansHead, key, ...ends(key), 'livelocked'],
            ...names.flatMap(n => pointsOf(n, panels()[i])).map(({s}) => [...shownRun(s), ...means, s.m[key], ...endsOf(s.interval?.[key]), s.livelocked])];
  }
};
function draw() {
  pictures = 0;
  settle();
  chooseSystems();
  controls();
  const drawn = panels(), host = at('plots');
  const all = names.flatMap(n => drawn.flatMap(p => pointsOf(n, p))), shown = all.flatMap(p => slotOf(p.s.name) >= 0 && p.limits && !absent(p.limits[1]) ? [p.v, p.limits[1]] : [p.v]);
  const positive = all.map(p => p.v).filter(v => v > 0), share = figureOf().unit === 'share';
  const range = {least: Math.min(...positive) / 1.2, most: share ? 1 : (Math.max(...shown, 0) || 1), log: false};
  range.log = !share && positive.length > 0 && range.most / range.least > 40;
  host.className = drawn.length > 2 ? 'three' : drawn.length > 1 ? 'two' : '';
  host.replaceChildren();
  const hosts = drawn.map(() => host.appendChild(document.createElement('div'))); // all there, so that each has its width
  drawn.forEach((p, i) => panelChart(hosts[i], p, range, Math.min(3, drawn.length)));
  const entries = chosen.names.filter(n => systems.some(s => s.name === n && isChosen(s))).map(n => [sample(slotOf(n)), n + (systems.some(s => s.name === n && s.control) ? ' (control)' : '')]);
  if (systems.some(s => isChosen(s) && slotOf(s.name) < 0)) entries.push([swatch(svg => svg.append(el('path', {d: 'M0 6h22', stroke: 'var(--other)', 'stroke-width': 1.2}))), 'all others']);
  if (manySeeds) entries.push([swatch(svg => svg.append(el('path', {d: 'M11 1V11M8 1h6M8 11h6', stroke: 'var(--fg)', 'stroke-width': 1.4, fill: 'none'}))), `95 % interval of the mean over ${data.seeds.length} seeds`]);
  at('legend').replaceChildren(legendOf(entries));
  at('what').textContent = `${figureOf().name}${figureOf().hint ? ', ' + figureOf().hint : ''}, against ${view.x}${range.log ? '; both scales of a panel are those of all, upwards logarithmic' : ''}.`;
  dressFigures();
  remember();
}
opens();
)js";

} // namespace compared
