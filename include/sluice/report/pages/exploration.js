// SPDX-License-Identifier: Apache-2.0
// The page of an exploration: a ranking as a picture, and the gain of each choice of a policy. A policy's colour,
// marker and position follow from its position in its role's list.
import {addressed, choiceOf} from './address.js';
import {axisName, axisX, axisY, linear, linearTicks, logarithmic, logTicks, multiples, seconds} from './axes.js';
import {controlRow} from './controls.js';
import {el, emptied} from './dom.js';
import {absent, digits, percent, plain, tidy, time} from './numbers.js';
import {button, openPage, paper, widthOf} from './page.js';
import {ends, endsOf, means, meansHead, runHead, runOf} from './save.js';
import {
  box,
  colour,
  cross,
  figure,
  labelWidth,
  legendOf,
  marker,
  picture,
  stroke,
  swatch,
  text,
  textWidth,
  tipped
} from './svg.js';
import {data, isKnown, labelOf, systems} from './systems.js';

const roles = data.roles;
const isEngine = r => !r.published && !r.own; // part of the product, not a system or the control
const rowOf = new Map(systems.filter(isEngine).map(r => [r.number, r]));
/// The systems in their order, then the control.
const landmarks = [...systems.filter(r => !isEngine(r) && !r.control), ...systems.filter(r => r.control).slice(0, 1)];
const ownNames = systems.filter(r => r.own).map(r => r.name);
const attained = r => r.m.slo_attainment;
const measures = {
  throughput: {label: 'throughput, tokens/s', of: r => r.m.throughput_tokens_per_s, show: plain, more: true},
  e2e: {label: 'mean E2E of all', of: r => r.m.mean_e2e_all_s, show: time, log: true},
  gap: {label: 'longest gap of all', of: r => r.m.longest_gap_all_s, show: time, log: true},
};

const best = systems.filter(r => r.rank > 0).slice(0, 30), rates = best.map(measures.throughput.of);
/// If the best systems all serve every request that arrives, their throughput is the same, so the page opens with the
/// mean E2E.
const isServed = Math.max(...rates) < 1.05 * Math.min(...rates);
const opening = {
  role: data.marginals[0]?.role ?? 0,
  x: isServed ? 'e2e' : 'throughput',
  all: true
};
const view = {...opening};

const mark = (model, x, y, r) => marker(model % 6, x, y, r, colour(model % 6));
const modelOf = r => r.models[view.role];
function tipLines(r) {
  const interval = isKnown(r.interval) ? ` (95 % interval ${r.interval.map(percent).join(' to ')})` : '';
  const refused = r.m.refused ? `, ${digits(r.m.refused)} refused` : '';
  return [
    `${r.rank ? `${r.rank}. ` : ''}${labelOf(r)}${r.livelocked ? ' (livelocked)' : ''}`,
    r.same ? `same figures as ${r.same}` : '', `SLO attainment ${percent(attained(r))} %${interval}`,
    `TBT attainment ${percent(r.m.tbt_attainment)} %, per token ${percent(r.m.per_token_attainment)} %`,
    `mean E2E of all ${time(r.m.mean_e2e_all_s)}, longest gap of all ${time(r.m.longest_gap_all_s)}`,
    `${plain(r.m.throughput_tokens_per_s)} tokens/s${refused}`, r.judged ?? ''
  ];
}
function controls() {
  const worth = data.marginals.map(g => g.role);
  controlRow('roles', worth.map(role => button(roles[role].role, view.role === role, () => { view.role = role; })));
  const axes = Object.keys(measures);
  controlRow('axes', axes.map(x => button(measures[x].label, view.x === x, () => { view.x = x; })));
  controlRow('shown', [
    button('all', view.all, () => { view.all = true; }), button('the best 30', !view.all, () => { view.all = false; })
  ]);
}

// The ranking: attainment upwards, cost to the right
const isDrawn = r => !absent(measures[view.x].of(r)) && !absent(attained(r));
const drawnRows = () => (view.all ? systems : best).filter(isDrawn);
/// Returns the Pareto front: the rows for which no drawn row is better in both.
function frontOf(drawn) {
  const {of, more} = measures[view.x], order = more ? (a, b) => of(b) - of(a) : (a, b) => of(a) - of(b);
  const sorted = drawn.filter(r => !r.control).sort((a, b) => order(a, b) || attained(b) - attained(a));
  const front = [];
  for (const r of sorted)
    if (!front.length || attained(r) > attained(front.at(-1))) front.push(r);
  return front;
}
const percentTick = v => tidy(digits)(Math.round(v * 1e4) / 100) + '%';
/// Draws the picture's axes; returns a function from a row to its position.
function scatterAxes(svg, drawn, {left, right, top, bottom}) {
  const {label, of, show, log} = measures[view.x], values = drawn.map(of).filter(v => v > 0);
  const most = Math.max(...values) * 1.03, least = Math.min(...values) * 0.97, from = most / least < 2 ? least : 0;
  const wide = log && most / least > 3;
  const x = wide ? logarithmic(least / 1.03, most, left, right) : linear(from, most, left, right);
  const low = Math.min(...drawn.map(attained)), high = Math.max(...drawn.map(attained));
  const room = Math.max(0.01, (high - low) * 0.06), foot = Math.max(0, low - room), head = Math.min(1.005, high + room);
  const y = linear(foot, head, bottom, top);
  const step = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2].find(s => (head - foot) / s <= 8) || 0.25;
  axisY(svg, multiples(step, foot, Math.min(1, high + room)), y, percentTick, left, right);
  const ticks = wide ? logTicks(least, most, right - left) : multiples(linearTicks(most - from, 6)[1] ?? 1, from, most);
  axisX(svg, ticks, x, wide ? seconds : tidy(show), top, bottom);
  svg.append(axisName(label + (wide ? ', logarithmic' : ''), right, bottom + 38),
             text(left, 10, 'SLO attainment', 'm s'));
  return r => [x(of(r)), y(attained(r)), y];
}
/// Writes names where they cover nothing. `taken`: the boxes of all drawn items.
function nameLandmarks(svg, drawn, placeOf, taken, {left, right, bottom}) {
  const isFree = ([x0, y0, x1, y1]) => !taken.some(t => x0 < t[2] && t[0] < x1 && y0 < t[3] && t[1] < y1);
  const spots = [[9, 4, false], [-9, 4, true], [7, -9, false], [-7, -9, true], [7, 17, false], [-7, 17, true]];
  for (const r of drawn) {
    if (r.same && landmarks.some(o => !o.control && o.name === r.same)) continue;
    const [px, py] = placeOf(r), name = labelOf(r), width = textWidth(name);
    for (const [dx, dy, isLeft] of spots) {
      const x0 = isLeft ? px + dx - width : px + dx, covered = [x0, py + dy - 11, x0 + width, py + dy + 3];
      if (x0 < left || x0 + width > right || py + dy > bottom || !isFree(covered)) continue;
      taken.push(covered);
      svg.append(tipped(text(px + dx, py + dy, name, 's halo', isLeft ? 'end' : 'start'), ...tipLines(r)));
      break;
    }
  }
}
function scatter(host) {
  const drawn = drawnRows(), width = widthOf(host), height = paper ? 380 : 460;
  if (!drawn.length) {
    host.append('No engine delivered a token.');
    return;
  }
  const {label, of, show} = measures[view.x], frame = {left: 54, right: width - 18, top: 14, bottom: height - 44};
  const told = drawn.slice(0, 12).map(r => `${r.name}: ${percent(attained(r))} %, ${show(of(r))}`);
  const svg = picture(width, height, `SLO attainment against ${label}`, told.join('; '));
  const placeOf = scatterAxes(svg, drawn, frame);
  const front = frontOf(drawn).map(r => placeOf(r).slice(0, 2).map(v => v.toFixed(1)));
  const steps = front.map(([px, py], i) => i ? `H${px}V${py}` : `M${px} ${py}`).join('');
  if (front.length > 1) svg.append(stroke(steps, 'var(--mute)', 1.2, {'stroke-dasharray': '5 3'}));
  for (const r of drawn) { // with several seeds: the interval of the mean, faint, since a hundred of them cross
    if (!isKnown(r.interval) || !(r.interval[0] < r.interval[1])) continue;
    const [px, , y] = placeOf(r), paint = isEngine(r) && !r.control ? colour(modelOf(r) % 6) : 'var(--fg)';
    const from = Math.min(frame.bottom, y(r.interval[0])), to = Math.max(frame.top, y(r.interval[1]));
    const d = `M${px.toFixed(1)} ${from.toFixed(1)}V${to.toFixed(1)}`;
    svg.append(stroke(d, paint, 1, {'stroke-opacity': view.all ? 0.22 : 0.5}));
  }
  const taken = [[10, 0, 10 + textWidth('SLO attainment'), 14]]; // the axis's name
  const take = (px, py, r) => taken.push([px - r, py - r, px + r, py + r]);
  for (const r of drawn.filter(isEngine).reverse()) { // the best on top
    const [px, py] = placeOf(r);
    take(px, py, 3);
    svg.append(tipped(el('g', {opacity: 0.88}, mark(modelOf(r), px, py, 4.4)), ...tipLines(r)));
  }
  const known = landmarks.filter(r => drawn.includes(r));
  for (const r of known) {
    const [px, py] = placeOf(r);
    take(px, py, 5);
    svg.append(tipped(cross(px, py, 6, r.control ? 3 : 1.6), ...tipLines(r)));
  }
  nameLandmarks(svg, known, placeOf, taken, frame);
  host.append(figure('', svg));
}
const scatterLegend = () => legendOf([
  ...roles[view.role].models.map((name, model) => [swatch(mark(model, 11, 6, 4)), name]),
  [swatch(cross(11, 6, 6, 1.6)), ['published system', ...ownNames].join(' or ')],
  [swatch(stroke('M0 6h22', 'var(--mute)', 1.2, {'stroke-dasharray': '5 3'})), 'nobody is better in both'],
]);

// The gain of each choice: every valid combination as a stroke, the mean as a marker
/// The difference to the role's first policy, all else equal.
function gainText(m, i) {
  if (!m.pairs) return i === 0 ? 'reference' : '–';
  const points = share => (share >= 0 ? '+' : '−') + Math.abs(100 * share).toFixed(1);
  return m.interval ? `${points(m.gain)} (${m.interval.map(points).join(' to ')})` : points(m.gain);
}
/// Attainments of the combinations that have this policy in this role. Combinations count the last role first.
function attainmentsWith(role, model) {
  const stride = roles.slice(role + 1).reduce((n, r) => n * r.models.length, 1);
  const has = number => Math.floor(number / stride) % roles[role].models.length === model;
  const originals = data.originals.filter((original, number) => original !== null && has(number));
  return originals.map(original => attained(rowOf.get(original))).filter(v => !absent(v));
}
function modelRow(svg, role, model, m, {x, y, row, label, columns}) {
  const name = roles[role].models[model], base = y + row / 2 + 4;
  svg.append(text(label - 12, base, name, '', 'end'));
  const strokes = attainmentsWith(role, model).map(v => `M${x(v).toFixed(1)} ${y + 6}v${row - 12}`).join('');
  svg.append(stroke(strokes, colour(model % 6), 1.3, {'stroke-opacity': 0.55}));
  if (!absent(m.mean))
    svg.append(tipped(mark(model, x(m.mean), y + row / 2, 5), name,
                      `mean of ${m.combinations} combinations: ${percent(m.mean)} %`, `best: ${percent(m.best)} %`));
  const judged = m.pairs ? `${m.better}, ${m.worse} of ${m.pairs}` : '';
  const cells = [percent(m.best), percent(m.mean), gainText(m, model), judged];
  for (const [i, right] of columns) svg.append(text(right, base, cells[i], 'num', 'end'));
}
/// Returns the columns of numbers: [which, where]. With little room, only the gains.
function numberColumns(width, numbers) {
  if (width < 520) return [[2, width]];
  const intervals = data.marginals.some(g => g.models.some(m => m.interval));
  const places = intervals ? [0.1, 0.24, 0.66, 1] : [0.16, 0.36, 0.6, 1];
  return places.map((f, i) => [i, width - numbers + f * numbers]);
}
function marginals(host) {
  const originals = data.originals.filter(o => o !== null);
  const all = originals.map(o => attained(rowOf.get(o))).filter(v => !absent(v));
  if (!all.length) return;
  const width = widthOf(host), numbers = width < 520 ? 92 : Math.min(330, width * 0.36), row = 24, gap = 16, head = 22;
  const label = labelWidth(roles.flatMap(r => r.models)) + 14, columns = numberColumns(width, numbers);
  const low = Math.min(...all), high = Math.max(...all), room = Math.max(0.004, (high - low) * 0.03);
  const height = head + data.marginals.reduce((sum, g) => sum + roles[g.role].models.length * row + gap + 16, 0) + 24;
  const x = linear(low - room, high + room, label, width - numbers - 14);
  const told = g => g.models.map((m, i) => `${roles[g.role].models[i]} mean ${percent(m.mean)} %`).join(', ');
  const svg = picture(width, height, 'SLO attainment by policy of each role',
                      data.marginals.map(g => `${roles[g.role].role}: ${told(g)}`).join('; '));
  const heads = ['best', 'mean', 'all else equal', 'better, worse'];
  for (const [i, right] of columns) svg.append(text(right, 12, heads[i], 'm s', 'end'));
  const fitting = Math.max(2, (width - numbers - label) / 90);
  const step = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2].find(s => (high - low) / s <= fitting) || 0.25;
  axisX(svg, multiples(step, low - room, high + room), x, percentTick, head, height - 22);
  let y = head;
  for (const g of data.marginals) {
    const {role} = roles[g.role], spread = `the choice moves it by ${digits(100 * g.spread)} points`;
    svg.append(box(0, y + 1, width, 17, 'var(--soft)'), text(4, y + 14, role, 'b'),
               text(12 + textWidth(role, true), y + 14, spread, 'm s'));
    y += 18;
    g.models.forEach((m, model) => modelRow(svg, g.role, model, m, {x, y: y + model * row, row, label, columns}));
    y += g.models.length * row + gap - 2;
  }
  host.append(figure('', svg));
}

function draw() {
  controls();
  emptied('legend').append(scatterLegend());
  scatter(emptied('ranking'));
  marginals(emptied('marginals'));
}
function rankingCsv() {
  const figures = Object.keys(systems[0].m).filter(key => key !== 'slo_attainment');
  const modelsOf = r => roles.map((role, i) => r.models ? role.models[r.models[i]] : null);
  const cellsOf = r => [r.control ? null : r.rank, r.published, r.own, r.control, r.pareto, ...modelsOf(r), attained(r),
                        ...endsOf(r.interval), ...figures.map(key => r.m[key])];
  return [
    [
      ...runHead, ...meansHead, 'rank', 'published', 'own', 'control', 'pareto', ...roles.map(r => r.role),
      'slo_attainment', ...ends('slo_attainment'), ...figures
    ],
    ...drawnRows().map(r => [...runOf(r), ...means, ...cellsOf(r)])
  ];
}
function marginalsCsv() {
  const cellsOf = ({role, spread}, m,
                   i) => [roles[role].role, spread, roles[role].models[i], m.combinations, ...means, m.best, m.mean,
                          m.pairs, m.pairs ? m.gain : null, ...endsOf(m.interval ?? null), m.better, m.worse];
  return [
    [
      'role', 'spread', 'policy', 'combinations', ...meansHead, 'best', 'mean', 'pairs', 'gain', ...ends('gain'),
      'better', 'worse'
    ],
    ...data.marginals.flatMap(g => g.models.map((m, i) => cellsOf(g, m, i)))
  ];
}

addressed.push({
  name: 'colour',
  say: () => view.role === opening.role ? null : roles[view.role].role,
  take: said => { view.role = data.marginals.find(g => roles[g.role].role === said)?.role ?? opening.role; },
},
               choiceOf('right', view, 'x', Object.keys(measures), opening.x), {
                 name: 'shown',
                 say: () => view.all ? null : 'best',
                 take: said => { view.all = said !== 'best'; },
               });
openPage({draw, csv: {ranking: rankingCsv, marginals: marginalsCsv}});
