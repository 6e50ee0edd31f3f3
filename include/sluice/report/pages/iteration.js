// SPDX-License-Identifier: Apache-2.0
// One iteration: its layers, the transfers that they wait for, and the places of every request's layers.
import {axisX, linear, linearTicks} from './axes.js';
import {at, emptied, node} from './dom.js';
import {percent, tidy, time} from './numbers.js';
import {redraw, widthOf} from './page.js';
import {firstSeed, seedHead} from './save.js';
import {
  box,
  colour,
  figure,
  hatched,
  legendOf,
  marker,
  picture,
  stroke,
  swatch,
  text,
  textWidth,
  tipped
} from './svg.js';
import {distinct, names, shown, slotOf} from './systems.js';

/// The system whose iteration is shown, and whether the reader chose it.
const looked = {
  name: null,
  byReader: false
};
export const iterationAddress = {
  name: 'iteration',
  say: () => looked.byReader ? looked.name : null,
  take(said) {
    looked.byReader = names.includes(said);
    looked.name = looked.byReader ? said : null;
  },
};

const mostRows = 24;
const layerName = layer => `layer ${layer + 1}`;
/// Returns the step between layers with a written number, by the room per layer.
const numberedEvery = room => [1, 2, 5, 10, 20, 50, 100].find(k => k * room >= textWidth('88') + 4) ?? 100;
const isNumbered = (layer, every) => layer === 0 || (layer + 1) % every === 0;
const isRequest = owner => typeof owner === 'number';
const ownerName = owner => isRequest(owner) ? 'r' + owner : owner === 'all' ? 'all together' : owner;
const waitOf = cause => cause === 'room'   ? {kind: 'grid', paint: 'var(--c3)'}
                        : cause === 'host' ? {kind: 'grid', paint: 'var(--c4)'}
                                           : {kind: 'diagonal', paint: 'var(--c1)'};

/// Returns a request's mark: the same colour and shape wherever it is in the picture.
function markOf(it, owner) {
  if (!isRequest(owner)) return {paint: 'var(--mute)', kind: null};
  const i = it.placed.findIndex(p => p[0] === owner);
  return {paint: colour([0, 4, 5, 2, 3, 1][i % 6]), kind: (i + Math.floor(i / 6)) % 6};
}
/// Returns the link's rows, grouped by the transfers' owner: first each request's, then those without a request.
function linkRows(it) {
  const rows = [];
  for (const owner of distinct([...it.placed.map(p => p[0]), 'weights', 'all'])) {
    const lanes = [], own = it.transfers.filter(t => t[0] === owner).sort((a, b) => a[2] - b[2]);
    for (const [, layer, from, to] of own) {
      if (to <= from || from >= it.duration) continue;
      let lane = lanes.find(l => l.end <= from + 1e-12);
      if (!lane) lanes.push(lane = {owner, list: []});
      lane.end = to;
      lane.list.push([layer, Math.max(0, from), Math.min(to, it.duration)]);
    }
    rows.push(...lanes);
  }
  return rows;
}

/// Returns the positions of the picture's parts.
function placesOf(it, width) {
  const rows = linkRows(it), lanes = rows.slice(0, mostRows), placed = it.placed.slice(0, mostRows);
  const left = 104, right = width - 12, top = 20, laneHeight = lanes.length > 8 ? 13 : 17, layerHeight = 30;
  const layerY = top + Math.max(1, lanes.length) * laneHeight + 12, gridY = layerY + layerHeight + 50;
  const eachLayer = (right - left) / Math.max(1, it.layers), cell = Math.min(placed.length > 8 ? 15 : 18, eachLayer);
  const height = placed.length ? gridY + placed.length * (cell + 2) + 22 : layerY + layerHeight + 28;
  return {
    rows,
    lanes,
    placed,
    left,
    right,
    top,
    laneHeight,
    layerHeight,
    layerY,
    gridY,
    cell,
    height,
    every: numberedEvery(eachLayer),
    x: linear(0, it.duration, left, right)
  };
}
/// Returns whether a box of this width has room for its layer's number. The number may cross the box's edges only if
/// the neighbours have no number.
function hasNumber(layer, width, every) {
  const needed = textWidth(String(layer + 1));
  return width > needed + 2 || (width > 7 && isNumbered(layer, every) && width * every > needed + 4);
}
function layerNumber(layer, x, y, style = null) {
  const label = text(x, y, String(layer + 1), 's', 'middle');
  if (style) label.setAttribute('style', style);
  label.setAttribute('pointer-events', 'none');
  return label;
}
function ownerLabel(it, owner, left, y) {
  const {paint, kind} = markOf(it, owner), name = text(left - 22, y + 4, ownerName(owner), 's', 'end');
  return kind === null ? [name] : [name, marker(kind, left - 12, y, 3.6, paint)];
}

function drawLink(svg, it, {rows, lanes, left, top, laneHeight, every, x}) {
  const whose = lanes.some(l => isRequest(l.owner)) ? 'a row for each request' : 'for all requests together';
  const cut = rows.length > mostRows ? `; the first ${mostRows} of ${rows.length} rows` : '';
  svg.append(text(left, 12, `the link: which layer is on its way, ${whose}${cut}`, 'm s'));
  if (lanes.length === 0) svg.append(text(left + 4, top + 12, 'nothing is transferred', 'm'));
  lanes.forEach(({owner, list}, l) => {
    const y = top + l * laneHeight, {paint} = markOf(it, owner);
    if (l === 0 || lanes[l - 1].owner !== owner) svg.append(...ownerLabel(it, owner, left, y + laneHeight / 2 - 1));
    for (const [layer, from, to] of list) {
      const isNext = layer >= it.layers, of = isNext ? layer - it.layers : layer, width = x(to) - x(from);
      const style = isNext ? {'stroke-width': 1.2, 'stroke-dasharray': '3 2'} : {'stroke-width': 0};
      const transfer = box(x(from), y, Math.max(0.8, width - 0.6), laneHeight - 3, isNext ? 'var(--card)' : paint,
                           {rx: 1.5, stroke: paint, ...style});
      svg.append(tipped(transfer,
                        `${ownerName(owner)}: transfer for ${layerName(of)}${isNext ? ' of the next token' : ''}`,
                        `${time(from)} to ${time(to)}: ${time(to - from)}`));
      if (hasNumber(of, width, every))
        svg.append(layerNumber(of, x(from) + width / 2, y + laneHeight / 2 + 2.5, isNext ? null : 'fill:var(--on)'));
    }
  });
}
function drawCompute(svg, it, {left, top, layerY, layerHeight, every, x}) {
  svg.append(text(left - 22, layerY + layerHeight / 2 + 4, 'compute', 'b', 'end'));
  for (const [layer, from, to, stall, cause] of it.compute) {
    const width = x(to) - x(from);
    if (stall > 0) {
      const {kind, paint} = waitOf(cause), begin = x(from - stall), wide = Math.max(1, x(from) - begin);
      const reason = cause === 'room'   ? 'room: the link stood idle meanwhile'
                     : cause === 'host' ? 'attention on the host'
                                        : 'the link: it was never idle';
      const wait = wide > 3 ? hatched(kind, begin, layerY, wide, layerHeight, paint)
                            : box(begin, layerY, wide, layerHeight, paint);
      svg.append(tipped(wait, `${layerName(layer)} waits ${time(stall)} for ${reason}`),
                 stroke(`M${x(from)} ${top}V${layerY}`, paint, 0.9, {'stroke-dasharray': '2 2'}));
    }
    const layerBox =
        box(x(from), layerY, Math.max(0.8, width - 0.6), layerHeight, layer % 2 ? 'var(--layer2)' : 'var(--layer)');
    svg.append(tipped(layerBox, `${layerName(layer)} computes ${time(from)} to ${time(to)}: ${time(to - from)}`));
    if (hasNumber(layer, width, every))
      svg.append(layerNumber(layer, x(from) + width / 2, layerY + layerHeight / 2 + 4));
  }
}
const placeTexts = {
  host: 'on the host, fetched in each iteration or attended there',
  rebuilt: 'K and V in neither memory, rebuilt each iteration',
  device: 'on the device',
};
function drawPlaces(svg, it, {placed, left, gridY, cell}) {
  const cut = it.placed.length > placed.length ? `; the first ${placed.length} of ${it.placed.length} requests` : '';
  svg.append(text(left, gridY - 10, `where each request's layers were, layer 1 at the left${cut}`, 'm s'));
  const every = numberedEvery(cell), numbersY = gridY + placed.length * (cell + 2) + 11;
  for (let layer = 0; layer < it.layers; ++layer)
    if (isNumbered(layer, every))
      svg.append(layerNumber(layer, left + (layer + 0.5) * cell, numbersY, 'fill:var(--mute)'));
  placed.forEach(([id, host, nowhere], r) => {
    const y = gridY + r * (cell + 2), {paint} = markOf(it, id), h = cell - 1, w = cell - 1.5;
    let strokes = '', dots = '';
    svg.append(...ownerLabel(it, id, left, y + cell / 2));
    for (let layer = 0; layer < it.layers; ++layer) {
      const place = host.includes(layer)      ? 'host'
                    : nowhere.includes(layer) ? 'rebuilt'
                                              : 'device',
            x = left + layer * cell;
      const isHere = place === 'device', edge = {stroke: isHere ? 'none' : paint};
      svg.append(tipped(box(x, y, w, h, isHere ? 'var(--layer)' : 'var(--card)', edge),
                        `r${id}, ${layerName(layer)}: ${placeTexts[place]}`));
      if (place === 'host') strokes += `M${x} ${y + h}L${x + w} ${y}`;
      if (place === 'rebuilt') dots += `M${x + w / 2} ${y + h / 2}h0`;
    }
    const round = {'stroke-linecap': 'round', 'pointer-events': 'none'};
    for (const [d, thick] of [[strokes, 2], [dots, 5]])
      if (d) svg.append(stroke(d, paint, Math.min(thick, cell / 3), round));
  });
}
function iterationChart(host, s) {
  const it = s.iteration, width = widthOf(host), places = placesOf(it, width);
  const waits = it.compute.filter(l => l[3] > 0)
                    .map(([layer, , , stall, cause]) =>
                             `${layerName(layer)} waits ${time(stall)} for ${cause === 'room' ? 'room' : 'the link'}`);
  const svg =
      picture(width, places.height, `Layers of iteration ${it.step} of ${s.name}`,
              `${it.layers} layers in ${time(it.duration)}, of which ${time(it.stall)} stalled: ${waits.join(', ')}`);
  axisX(svg, linearTicks(it.duration, 8), places.x, tidy(time), places.top, places.layerY + places.layerHeight);
  drawLink(svg, it, places);
  drawCompute(svg, it, places);
  if (places.placed.length) drawPlaces(svg, it, places);
  const share = percent(it.duration > 0 ? it.stall / it.duration : 0);
  const caption = [
    `${s.name}: iteration ${it.step}, at ${time(it.start)}`, `${it.decodes} decoding, ${it.tokens} tokens`,
    `${time(it.duration)}, of it ${time(it.stall)} (${share} %) stalled`, `the plan was bound by: ${it.binding}`
  ];
  host.append(figure(caption.join('; '), svg), iterationLegend(it, places));
}
/// Draws a legend with only the items in the picture.
function iterationLegend(it, {lanes, placed}) {
  const sign = (fill, edge, more = {}) => swatch(box(1, 1, 20, 10, fill, {stroke: edge, ...more}));
  const waitSign = cause => swatch(hatched(waitOf(cause).kind, 1, 1, 20, 10, waitOf(cause).paint));
  const waits = cause => it.compute.some(l => l[3] > 0 && l[4] === cause);
  const placeSign = shape => swatch(box(5, 0.5, 12, 11, 'var(--card)', {stroke: 'var(--fg)'}), shape);
  const entries =
      [[sign('var(--layer)', 'none'), 'a layer computes; in the rows of the requests: a layer on the device']];
  if (waits('link')) entries.push([waitSign('link'), 'waits: the link is too slow']);
  if (waits('room')) entries.push([waitSign('room'), 'waits: the link had no room, or no leave, to start earlier']);
  if (waits('host')) entries.push([waitSign('host'), 'waits: attention on the host takes longer']);
  if (lanes.length) {
    const whose = lanes.some(l => markOf(it, l.owner).kind !== null) ? ', in the colour of its request' : '';
    const returns = it.transfers.some(t => it.placed.some(p => p[0] === t[0] && !p[1].includes(t[1] % it.layers)));
    const staying = !placed.some(p => p[1].length) ? ': layers that come back to stay'
                    : returns ? '; where the row below has that layer on the device, it came back to stay'
                              : '';
    entries.push(
        [sign(markOf(it, lanes[0].owner).paint, 'none'), `transfer for the layer of that number${whose}${staying}`]);
  }
  if (it.transfers.some(t => t[1] >= it.layers))
    entries.push([sign('var(--card)', 'var(--mute)', {'stroke-dasharray': '3 2'}), 'for the next token']);
  if (placed.some(p => p[1].length))
    entries.push([placeSign(stroke('M5 11.5L17 0.5', 'var(--fg)', 2)), 'layer on the host']);
  if (placed.some(p => p[2].length)) entries.push([placeSign(marker(0, 11, 6, 2.5, 'var(--fg)')), 'layer rebuilt']);
  return legendOf(entries);
}

/// Returns the system with which the page opens: an instructive one that is in colour and has a row for each request.
function instructive(able) {
  const longest = list => [...list].sort((a, b) => b.iteration.stall - a.iteration.stall)[0];
  const coloured = able.filter(s => slotOf(s.name) >= 0 && s.iteration.transfers.length > 0);
  const byRequest = coloured.filter(s => s.iteration.transfers.some(t => isRequest(t[0])));
  return longest(byRequest) ?? longest(coloured) ?? longest(able);
}
export function iteration(host) {
  const able = shown().filter(s => s.iteration);
  if (!able.some(s => s.name === looked.name)) looked.name = instructive(able)?.name ?? null;
  const told = ({name, iteration: it}) => `${name}: ${time(it.stall)} stalled of ${time(it.duration)}`;
  emptied('pick').append(...able.map(s => node('option', {value: s.name}, told(s))));
  at('pick').parentElement.hidden = able.length < 2;
  if (looked.name === null) {
    host.append('No iteration was recorded.');
    return;
  }
  at('pick').value = looked.name;
  iterationChart(host, able.find(s => s.name === looked.name));
}
export const letPickIteration = () => at('pick').addEventListener('change', event => {
  looked.name = event.target.value;
  looked.byReader = true;
  redraw();
});
export function iterationCsv() {
  const s = shown().find(s => s.name === looked.name), {step, compute, transfers} = s.iteration;
  const ofLayer = ([layer, from, to, stall, cause]) => ['layer', '', layer, from, to, stall, cause];
  const ofTransfer = ([owner, layer, from, to]) => ['transfer', owner, layer, from, to, '', ''];
  return [
    [...seedHead, 'step', 'what', 'of', 'layer', 'start_s', 'end_s', 'stall_s', 'cause'],
    ...[...compute.map(ofLayer), ...transfers.map(ofTransfer)].map(row => [...firstSeed(s), step, ...row])
  ];
}
