// SPDX-License-Identifier: Apache-2.0
// The script of explore.html: a ranking as a picture, and what each choice of a model is worth.
#pragma once

#include <string_view>

namespace explored {

/// Stands behind the scripts that every page of results has (report/html_page.hpp). A model has the colour, marker and
/// place that its role's list gives it.
inline constexpr std::string_view page_script = R"js(
const roles = data.roles;
const rows = systems; // all that were run: engines of the product, published systems, the control
const engines = rows.filter(r => !r.published), published = rows.filter(r => r.published && !r.control), control = rows.find(r => r.control);
const rowOf = new Map(engines.map(r => [r.number, r]));
const measures = {
  throughput: {label: 'throughput, tokens/s', of: r => r.m.throughput_tokens_per_s, show: plain, more: true},
  e2e: {label: 'mean E2E', of: r => r.m.mean_e2e_s, show: time, log: true},
  gap: {label: 'longest gap', of: r => r.m.longest_gap_s, show: time, log: true},
};
/// Where the best all serve what arrives, throughput tells nothing: then what users wait.
const best = rows.filter(r => r.rank > 0).slice(0, 30), rates = best.map(measures.throughput.of);
const opening = {role: data.marginals.length ? data.marginals[0].role : 0, x: Math.max(...rates) < 1.05 * Math.min(...rates) ? 'e2e' : 'throughput', all: true};
const view = {...opening};
addressed.push(
  ['colour', () => view.role === opening.role ? null : roles[view.role].role, said => {
    const chosen = data.marginals.find(g => roles[g.role].role === said);
    view.role = chosen ? chosen.role : opening.role;
  }],
  ['right', () => view.x === opening.x ? null : view.x, said => { view.x = oneOf(Object.keys(measures), said, opening.x); }],
  ['shown', () => view.all ? null : 'best', said => { view.all = said !== 'best'; }]);
const shape = i => i % 6;
const told = r => `${r.rank ? `${r.rank}. ` : ''}${r.name}${r.control ? ' (control)' : ''}${r.livelocked ? ' (livelocked)' : ''}${r.same ? `\nsame figures as ${r.same}` : ''}\nTBT attainment ${percent(r.m.tbt_attainment)} %${r.interval && !absent(r.interval[0]) ? ` (95 % interval ${percent(r.interval[0])} to ${percent(r.interval[1])})` : ''}, per token ${percent(r.m.per_token_attainment)} %\n` +
  `mean E2E ${time(r.m.mean_e2e_s)}, longest gap ${time(r.m.longest_gap_s)}\n${plain(r.m.throughput_tokens_per_s)} tokens/s${r.m.refused ? `, ${digits(r.m.refused)} refused` : ''}${r.judged ? `\n${r.judged}` : ''}`;

const dot = m => swatch(svg => svg.append(marker(shape(m), 11, 6, 4, colour(shape(m)))));
function controls() {
  controlRow('roles', data.marginals.map(g => button(roles[g.role].role, view.role === g.role, () => { view.role = g.role; })));
  controlRow('axes', Object.keys(measures).map(x => button(measures[x].label, view.x === x, () => { view.x = x; })));
  controlRow('shown', [button('all', view.all, () => { view.all = true; }), button('the best 30', !view.all, () => { view.all = false; })]);
}
/// Who is drawn such that nobody drawn is better in both.
function front(drawn, {of, more}) {
  const sorted = drawn.filter(r => !r.control).sort((a, b) => (more ? of(b) - of(a) : of(a) - of(b)) || b.m.tbt_attainment - a.m.tbt_attainment);
  let most = -1;
  return sorted.filter(r => r.m.tbt_attainment > most && ((most = r.m.tbt_attainment), true));
}

// The ranking: attainment up, what it is paid with to the right ---------------------------------------------------------
const drawnRows = () => (view.all ? rows : best).filter(r => !absent(measures[view.x].of(r)) && !absent(r.m.tbt_attainment));
function scatter(host) {
  const {label, of, show, log} = measures[view.x], width = widthOf(host), height = paper ? 380 : 460;
  const left = 54, right = width - 18, top = 14, bottom = height - 44;
  const drawn = drawnRows();
  if (!drawn.length) { host.append('Nobody was given a token.'); return; }
  const values = drawn.map(of).filter(v => v > 0), most = Math.max(...values) * 1.03, least = Math.min(...values) * 0.97;
  const wide = log && most / least > 3;
  const x = wide ? logarithmic(least / 1.03, most, left, right) : linear(most / least < 2 ? least : 0, most, left, right);
  const low = Math.min(...drawn.map(r => r.m.tbt_attainment)), high = Math.max(...drawn.map(r => r.m.tbt_attainment));
  const room = Math.max(0.01, (high - low) * 0.06), y = linear(Math.max(0, low - room), Math.min(1.005, high + room), bottom, top);
  const svg = picture(width, height, `TBT attainment against ${label}`, drawn.slice(0, 12).map(r => `${r.name}: ${percent(r.m.tbt_attainment)} %, ${show(of(r))}`).join('; '));
  const span = Math.min(1.005, high + room) - Math.max(0, low - room), step = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2].find(s => span / s <= 8) || 0.25;
  const ticks = [];
  for (let t = Math.ceil(Math.max(0, low - room) / step); t * step <= Math.min(1, high + room); ++t) ticks.push(t * step);
  axisY(svg, ticks, y, v => tidy(digits)(Math.round(v * 1e4) / 100) + '%', left, right);
  const from = most / least < 2 ? least : 0, stride = linearTicks(most - from, 6)[1] ?? 1, marks = [];
  for (let t = Math.ceil(from / stride - 1e-9); t * stride <= most; ++t) marks.push(t * stride);
  axisX(svg, wide ? logTicks(least, most, right - left) : marks, x, wide ? logTime : tidy(show), top, bottom);
  svg.append(text(right, height - 6, label + (wide ? ', logarithmic' : ''), 'm s', 'end'), text(left, 10, 'TBT attainment', 'm s'));
  const edge = front(drawn, measures[view.x]);
  if (edge.length > 1)
    svg.append(el('path', {d: 'M' + edge.map(r => [x(of(r)).toFixed(1), y(r.m.tbt_attainment).toFixed(1)]).map(([px, py], i) => i ? `H${px}V${py}` : `${px} ${py}`).join(''),
                           fill: 'none', stroke: 'var(--mute)', 'stroke-width': 1.2, 'stroke-dasharray': '5 3'}));
  for (const r of drawn) // of several seeds: the interval of the mean, faint, as a hundred of them cross
    if (r.interval && !absent(r.interval[0]) && r.interval[0] < r.interval[1])
      svg.append(el('path', {d: `M${x(of(r)).toFixed(1)} ${Math.min(bottom, y(r.interval[0])).toFixed(1)}V${Math.max(top, y(r.interval[1])).toFixed(1)}`, stroke: r.published || r.control ? 'var(--fg)' : colour(shape(r.models[view.role])), 'stroke-width': 1, 'stroke-opacity': view.all ? 0.22 : 0.5}));
  const places = [];
  const free = box => !places.some(p => box[0] < p[2] && p[0] < box[2] && box[1] < p[3] && p[1] < box[3]);
  for (const r of [...drawn].reverse()) { // the best on top
    if (r.published) continue;
    const m = r.models[view.role];
    places.push([x(of(r)) - 3, y(r.m.tbt_attainment) - 3, x(of(r)) + 3, y(r.m.tbt_attainment) + 3]);
    svg.append(tipped(el('g', {opacity: 0.88}, marker(shape(m), x(of(r)), y(r.m.tbt_attainment), 4.4, colour(shape(m)))), told(r)));
  }
  for (const r of [...published, ...(control ? [control] : [])].filter(r => drawn.includes(r))) {
    const px = x(of(r)), py = y(r.m.tbt_attainment);
    places.push([px - 5, py - 5, px + 5, py + 5]);
    svg.append(tipped(el('path', {d: `M${px - 6} ${py}h12M${px} ${py - 6}v12`, stroke: 'var(--fg)', 'stroke-width': r.control ? 3 : 1.6, fill: 'none'}), told(r)));
  }
  for (const r of [...published, ...(control ? [control] : [])].filter(r => drawn.includes(r) && !(r.same && published.some(p => p.name === r.same)))) { // names where there is room
    const px = x(of(r)), py = y(r.m.tbt_attainment), name = r.name + (r.control ? ' (control)' : ''), w = textWidth(name);
    for (const [dx, dy, end] of [[9, 4, false], [-9, 4, true], [7, -9, false], [-7, -9, true], [7, 17, false], [-7, 17, true]]) {
      const x0 = end ? px + dx - w : px + dx, box = [x0, py + dy - 11, x0 + w, py + dy + 3];
      if (x0 < left || x0 + w > right || py + dy > bottom || !free(box)) continue;
      places.push(box);
      svg.append(tipped(text(px + dx, py + dy, name, 's halo', end ? 'end' : 'start'), told(r)));
      break;
    }
  }
  host.append(figure('', svg));
}
function scatterLegend() {
  const entries = roles[view.role].models.map((name, m) => [dot(m), name]);
  entries.push([swatch(svg => svg.append(el('path', {d: 'M5 6h12M11 0v12', stroke: 'var(--fg)', 'stroke-width': 1.6, fill: 'none'}))), 'published system']);
  entries.push([swatch(svg => svg.append(el('path', {d: 'M0 6h22', stroke: 'var(--mute)', 'stroke-width': 1.2, 'stroke-dasharray': '5 3', fill: 'none'}))), 'nobody is better in both']);
  return legendOf(entries);
}

// What each choice is worth: every combination that works as a mark, the mean as a line ----------------------------------
function marginals(host) {
  const all = data.originals.filter(o => o !== null).map(o => rowOf.get(o).m.tbt_attainment).filter(v => !absent(v));
  if (!all.length) return;
  const width = widthOf(host), names = roles.flatMap(r => r.models), label = labelWidth(names) + 14, numbers = width < 520 ? 92 : Math.min(330, width * 0.36);
  const row = 24, gap = 16, head = 22, low = Math.min(...all), high = Math.max(...all), room = Math.max(0.004, (high - low) * 0.03);
  const height = head + data.marginals.reduce((sum, g) => sum + roles[g.role].models.length * row + gap + 16, 0) + 24;
  const x = linear(low - room, high + room, label, width - numbers - 14);
  const svg = picture(width, height, 'TBT attainment by model of each role',
    data.marginals.map(g => `${roles[g.role].role}: ` + g.models.map((m, i) => `${roles[g.role].models[i]} mean ${percent(m.mean)} %`).join(', ')).join('; '));
  const halves = data.marginals.some(g => g.models.some(m => !absent(m.half))), narrow = width < 520; // where there is little room the gains alone
  const columns = (narrow ? [1, 1, 1, 1] : halves ? [0.12, 0.27, 0.58, 1] : [0.16, 0.36, 0.6, 1]).map(f => width - numbers + f * numbers), hasRoom = i => !narrow || i === 2;
  ['best', 'mean', 'all else equal', 'better, worse'].forEach((name, i) => hasRoom(i) && svg.append(text(columns[i], 12, name, 'm s', 'end')));
  const step = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2].find(s => (high - low) / s <= Math.max(2, (width - numbers - label) / 90)) || 0.25, ticks = [];
  for (let t = Math.ceil((low - room) / step); t * step <= high + room; ++t) ticks.push(t * step);
  axisX(svg, ticks, x, v => tidy(digits)(Math.round(v * 1e4) / 100) + '%', head, height - 22);
  let y = head;
  for (const g of data.marginals) {
    const choices = roles[g.role], stride = roles.slice(g.role + 1).reduce((n, r) => n * r.models.length, 1);
    svg.append(el('rect', {x: 0, y: y + 1, width, height: 17, fill: 'var(--soft)'}),
               text(4, y + 14, choices.role, 'b'), text(12 + textWidth(choices.role, true), y + 14, `the choice moves it by ${digits(100 * g.spread)} points`, 'm s'));
    y += 18;
    g.models.forEach((m, i) => {
      svg.append(text(label - 12, y + row / 2 + 4, choices.models[i], '', 'end'));
      let d = '';
      data.originals.forEach((o, number) => {
        if (o === null || Math.floor(number / stride) % choices.models.length !== i) return;
        const v = rowOf.get(o).m.tbt_attainment;
        if (!absent(v)) d += `M${x(v).toFixed(1)} ${y + 6}v${row - 12}`;
      });
      svg.append(el('path', {d, stroke: colour(shape(i)), 'stroke-width': 1.3, 'stroke-opacity': 0.55, fill: 'none'}));
      if (!absent(m.mean)) svg.append(tipped(marker(shape(i), x(m.mean), y + row / 2, 5, colour(shape(i))), `${choices.models[i]}\nmean of ${m.combinations} combinations: ${percent(m.mean)} %\nbest: ${percent(m.best)} %`));
      const cells = [percent(m.best), percent(m.mean), m.pairs ? (m.gain >= 0 ? '+' : '−') + (absent(m.half) ? digits(Math.abs(100 * m.gain)) : `${Math.abs(100 * m.gain).toFixed(1)} ± ${(100 * m.half).toFixed(1)}`) : i === 0 ? 'reference' : '–', m.pairs ? `${m.better}, ${m.worse} of ${m.pairs}` : ''];
      cells.forEach((cell, c) => hasRoom(c) && svg.append(text(columns[c], y + row / 2 + 4, cell, 'num', 'end')));
      y += row;
    });
    y += gap - 2;
  }
  host.append(figure('', svg));
}

const exports_ = {
  ranking() {
    const figures = Object.keys(rows[0].m).filter(key => key !== 'tbt_attainment');
    return [[...runHead, ...meansHead, 'rank', 'published', 'control', 'pareto', ...roles.map(r => r.role), 'tbt_attainment', ...ends('tbt_attainment'), ...figures],
            ...drawnRows().map(r => [...shownRun(r), ...means, r.control ? null : r.rank, r.published, r.control, r.pareto, ...roles.map((role, i) => r.models ? role.models[r.models[i]] : null),
                                     r.m.tbt_attainment, ...endsOf(r.interval), ...figures.map(key => r.m[key])])];
  },
  marginals() {
    return [['role', 'spread', 'model', 'combinations', ...meansHead, 'best', 'mean', 'pairs', 'gain', ...ends('gain'), 'better', 'worse'],
            ...data.marginals.flatMap(g => g.models.map((m, i) => [roles[g.role].role, g.spread, roles[g.role].models[i], m.combinations, ...means, m.best, m.mean, m.pairs,
                                                                   m.pairs ? m.gain : null, ...endsOf(absent(m.half) ? null : [m.gain - m.half, m.gain + m.half]), m.better, m.worse]))];
  }
};
function draw() {
  pictures = 0;
  controls();
  const fresh = id => { at(id).replaceChildren(); return at(id); };
  fresh('legend').append(scatterLegend());
  scatter(fresh('ranking'));
  marginals(fresh('marginals'));
  dressFigures();
  remember();
}
opens();
)js";

} // namespace explored
