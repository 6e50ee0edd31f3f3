// SPDX-License-Identifier: Apache-2.0
// Memory and queue over time: one card for each highlighted system. All cards have the same axes, except a control that
// takes much longer, which has its own time axis.
import {axisX, axisY, linear, linearTicks, multiples, timeLabel, timeTicks} from './axes.js';
import {at, el, node} from './dom.js';
import {bytes, count, percent, plain, tidy, time} from './numbers.js';
import {paper, redraw, widthOf} from './page.js';
import {firstSeed, seedHead} from './save.js';
import {box, colour, figure, legendOf, picture, rule, sample, stroke, swatch, target, text} from './svg.js';
import {highlighted, slotOf} from './systems.js';

/// The stretch of time that the cards show; null: the whole run.
let stretch = null;
export function showStretch(from) {
  stretch = from;
  redraw();
}
export const stretchAddress = {
  name: 'time',
  say: () => stretch && stretch.map(t => +t.toPrecision(6)).join('-'),
  take(said) {
    const read = (said ?? '').split('-').map(Number);
    stretch = read.length === 2 && read[0] >= 0 && read[1] > read[0] ? read : null;
  },
};

const timeRows = () => highlighted().filter(s => s.series.t.length > 0);
const wholeTime = rows => [Math.min(...rows.map(s => s.series.start)), Math.max(...rows.map(s => s.series.end))];
/// Returns the ranked systems among the rows, whose time axis all cards share; if there are none, all rows.
const ofOneAxis = rows => rows.some(s => !s.control) ? rows.filter(s => !s.control) : rows;
/// Returns the end of a card's time axis. A control serves one request at a time and may take ten times as long: on a
/// common axis all other systems would shrink to a sliver.
const endOf = (s, shared) => s.series.end > 2 * shared ? s.series.end : shared;
/// Returns the columns of a series within the stretch.
function columnsWithin(series) {
  if (!stretch) return series;
  const isInside = i => series.t[i] < stretch[1] && series.t[i] + series.width > stretch[0];
  const within = of => Array.isArray(of) ? of.filter((_, i) => isInside(i)) : of;
  return Object.fromEntries(Object.entries(series).map(([key, of]) => [key, within(of)]));
}
const mostOf = list => Math.max(0, ...list.filter(v => v !== null));

/// The positions of a card's parts, from top to bottom.
const card = {
  left: 62,
  top: 14,
  memoryTop: 16,
  memoryBottom: 112,
  queueTop: 142,
  queueBottom: 212,
  stallTop: 222,
  bottom: 240,
  height: 268
};

/// Returns a series as steps: pieces without a hole.
function piecesOf(times, values, step) {
  const pieces = [];
  let piece = null;
  times.forEach((t, i) => {
    const ends = [[t, values[i]], [t + step, values[i]]];
    if (values[i] === null)
      piece = null;
    else if (piece && Math.abs(piece.at(-1)[0] - t) < step * 0.01)
      piece.push(...ends);
    else
      pieces.push(piece = ends);
  });
  return pieces;
}
/// Draws columns of one series; `x` places times.
function seriesPen({t, width}, x) {
  const along = (piece, y) => piece.map(([t, v]) => `${x(t).toFixed(1)} ${y(v).toFixed(1)}`).join('L');
  return {
    line: (values, y, paint, strokeWidth, dash = null) =>
        stroke(piecesOf(t, values, width).map(p => 'M' + along(p, y)).join(''), paint, strokeWidth,
               {'stroke-dasharray': dash}),
    area(values, y, paint, opacity) {
      const shapeOf = p => `M${x(p[0][0])} ${y(0)}L${along(p, y)}L${x(p.at(-1)[0])} ${y(0)}z`;
      return el('path', {d: piecesOf(t, values, width).map(shapeOf).join(''), fill: paint, 'fill-opacity': opacity});
    },
  };
}
function stallBars({t, stall, width}, x) {
  const barOf = (from, i) => {
    const wide = Math.max(0.7, x(from + width) - x(from)).toFixed(2), high = (18 * Math.min(1, stall[i])).toFixed(1);
    return stall[i] > 0 ? `M${x(from).toFixed(1)} ${card.bottom}v-${high}h${wide}V${card.bottom}z` : '';
  };
  return el('path', {d: t.map(barOf).join(''), fill: 'var(--c1)'});
}
function timePicture(s, t, width) {
  const kv = `KV on the device ${percent(s.m.device_mean_share)} % of its capacity on average, ` +
             `${percent(s.m.device_peak_share)} % at most`;
  const queue = `at most ${count(mostOf(t.waiting_max))} requests waiting, ${count(mostOf(t.preempted_max))} preempted`;
  return picture(width, card.height, `Memory and queue of ${s.name} over time`,
                 `${kv}; ${queue}; ${percent(s.m.stall_share)} % of iteration time stalled.`);
}
/// Shows the numbers below the pointer; dragging across the card selects a stretch.
function timeTarget(svg, s, t, width, {from, end, right, unit}) {
  const {left} = card, spot = target(left, 10, right - left, 230), span = (end - from) / (right - left);
  const timeAt = x => from + (x - left) * span;
  const placeOf = event => {
    const bounds = svg.getBoundingClientRect();
    return (event.clientX - bounds.left) * width / bounds.width;
  };
  spot.addEventListener('mousemove', event => {
    const i = Math.max(0, t.t.findLastIndex(begin => begin <= timeAt(placeOf(event))));
    spot.dataset.tip = [
      `${s.name} at ${time(t.t[i])}`,
      `device ${unit(t.device[i])} (peak ${unit(t.device_max[i])} of ${unit(t.capacity)})`, `host ${unit(t.host[i])}`,
      `running ${plain(t.running[i])}, waiting up to ${count(t.waiting_max[i])}, preempted up to ${
          count(t.preempted_max[i])}`,
      `stalled ${percent(t.stall[i])} %, moved ${unit(t.moved[i])}`
    ].join('\n');
  });
  letStretch(svg, spot, placeOf, timeAt);
  return spot;
}
function letStretch(svg, spot, placeOf, timeAt) {
  let begin = null, mark = null;
  spot.style.cursor = 'crosshair';
  spot.addEventListener('pointerdown', event => {
    begin = placeOf(event);
    mark = box(begin, 10, 0, 230, 'var(--fg)', {'fill-opacity': 0.12, 'pointer-events': 'none'});
    svg.append(mark);
    spot.setPointerCapture(event.pointerId);
  });
  spot.addEventListener('pointermove', event => {
    if (begin === null) return;
    mark.setAttribute('x', Math.min(begin, placeOf(event)));
    mark.setAttribute('width', Math.abs(placeOf(event) - begin));
  });
  spot.addEventListener('pointerup', event => {
    const [a, b] = [begin, placeOf(event)].sort((x, y) => x - y), whole = wholeTime(timeRows());
    begin = null;
    mark.remove();
    if (b - a < 6) return; // a click
    const drawn = [Math.max(timeAt(a), whole[0]), Math.min(timeAt(b), whole[1])].map(t => Number(t.toPrecision(6)));
    if (drawn[1] > drawn[0]) showStretch(drawn);
  });
  spot.addEventListener('dblclick', () => showStretch(null));
}
function timeCard(s, width, {from, end, shared, memory, queue}) {
  const {left, top, memoryTop, memoryBottom, queueTop, queueBottom, stallTop, bottom} = card, right = width - 10;
  const t = columnsWithin(s.series), slot = slotOf(s.name), paint = colour(slot), unit = t.in_bytes ? bytes : count;
  const svg = timePicture(s, t, width), place = linear(from, end, left, right);
  const x = v => Math.min(right, Math.max(left, place(v))), pen = seriesPen(t, x);
  const high = linear(0, memory, memoryBottom, memoryTop), queued = linear(0, queue, queueBottom, queueTop);
  axisY(svg, linearTicks(memory, 3), high, tidy(unit), left, right);
  axisX(svg, multiples(timeTicks(end - from, 6)[1] || 1, from, end * 1.0001), x, timeLabel(end - from), top, bottom);
  axisY(svg, linearTicks(queue, 2).filter(Number.isInteger), queued, count, left, right);
  svg.append(text(left - 7, 9, 'KV', 'm s', 'end'), text(left - 7, 135, 'requests', 'm s', 'end'),
             pen.area(t.device, high, paint, 0.28), pen.line(t.device_max, high, paint, 1.4),
             pen.line(t.host, high, 'var(--fg)', 1.3, '2 2'),
             stroke(`M${left} ${high(t.capacity)}H${right}`, 'var(--mute)', 1, {'stroke-dasharray': '7 3'}),
             pen.area(t.waiting_max, queued, 'var(--other)', 0.45), pen.line(t.waiting_max, queued, 'var(--mute)', 0.8),
             pen.line(t.running, queued, paint, 1.8), pen.line(t.preempted_max, queued, 'var(--fg)', 1.5, '2 2'),
             stallBars(t, x), rule(left, bottom, right, bottom, 'a'), text(left - 7, 236, 'stall', 'm s', 'end'),
             rule(left, stallTop, right, stallTop));
  svg.append(timeTarget(svg, s, t, width, {from, end, right, unit}));
  const sign = sample(slot, 26);
  sign.style.cssText = 'display:inline-block;vertical-align:-1px;margin-right:4px';
  const longer = end > shared ? `, on a time axis ${plain(end / shared)} times as long` : '';
  const made = figure(node('span', {}, sign, ' ' + s.name + longer), svg);
  made.className = 'keep';
  return made;
}
export function timeCards(host) {
  const rows = timeRows(), gap = 28;
  at('whole').hidden = !stretch;
  if (rows.length === 0) {
    host.append('No iteration was recorded.');
    return;
  }
  const whole = widthOf(host), fitting = Math.max(1, Math.min(rows.length, 3, Math.floor((whole + gap) / 420)));
  const columns = paper ? 3 : fitting, width = Math.floor((whole - gap * (columns - 1)) / columns);
  host.style.gridTemplateColumns = `repeat(${columns},1fr)`;
  const [from, shared] = stretch ?? wholeTime(ofOneAxis(rows));
  const memoryOf = t => Math.max(t.capacity, mostOf(t.device_max), mostOf(t.host));
  const queueOf = t => Math.max(mostOf(t.waiting_max), mostOf(t.running), mostOf(t.preempted_max));
  const memory = Math.max(...rows.map(s => memoryOf(s.series))) || 1;
  const queue = Math.max(1, ...rows.map(s => queueOf(s.series)));
  const end = s => stretch ? shared : endOf(s, shared);
  host.append(...rows.map(s => timeCard(s, width, {from, end: end(s), shared, memory, queue})));
}
export function timeLegend() {
  const line = (paint, width, dash = null) => swatch(stroke('M0 6h22', paint, width, {'stroke-dasharray': dash}));
  const area = (y, height, paint, opacity, edge) =>
      swatch(box(0, y, 22, height, paint, {'fill-opacity': opacity}), stroke(`M0 ${y}h22`, ...edge));
  return legendOf([
    [area(2, 9, colour(0), 0.28, [colour(0), 1.4]), 'KV on the device: mean, and peak as a line'],
    [line('var(--mute)', 1.4, '7 3'), 'capacity'],
    [line('var(--fg)', 1.4, '2 2'), 'above: KV on the host; below: preempted'],
    [line(colour(0), 1.8), 'running'],
    [area(1, 10, 'var(--other)', 0.45, ['var(--mute)', 1]), 'waiting, at most'],
    [swatch(box(0, 2, 22, 9, 'var(--c1)')), 'share of time stalled (0 to 100 %)'],
  ]);
}
export function timeCsv(drawn, i) {
  const s = timeRows()[i], t = columnsWithin(s.series), columns = Object.keys(t).filter(key => Array.isArray(t[key]));
  return [
    [...seedHead, ...columns.map(c => c === 't' ? 'time_s' : c)],
    ...t.t.map((_, k) => [...firstSeed(s), ...columns.map(c => t[c][k])])
  ];
}
