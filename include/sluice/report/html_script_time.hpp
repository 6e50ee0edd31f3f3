// SPDX-License-Identifier: Apache-2.0
// The script of report.html, third part: memory and queue over time, one iteration's layers, and the page itself.
#pragma once

#include <string_view>

namespace sluice::detail {

inline constexpr std::string_view html_script_time = R"js(
// Memory and queue over time: one card for each highlighted system, all on the same axes ----------------------------------
function timeCards(host) {
  const rows = timeRows();
  if (rows.length === 0) {
    host.append('No iteration was recorded.');
    return;
  }
  const whole = widthOf(host), columns = paper ? 3 : Math.max(1, Math.min(rows.length, 3, Math.floor((whole + 28) / 420)));
  host.style.gridTemplateColumns = `repeat(${columns},1fr)`;
  const width = Math.floor((whole - 28 * (columns - 1)) / columns), left = 62, right = width - 10;
  const [from, end] = chosen.zoom ?? wholeTime(rows);
  const most = list => Math.max(0, ...list.filter(v => v !== null));
  const memory = Math.max(...rows.map(s => Math.max(s.series.capacity, most(s.series.device_max), most(s.series.host)))) || 1;
  const queue = Math.max(1, ...rows.map(s => Math.max(most(s.series.waiting_max), most(s.series.running), most(s.series.preempted_max))));
  for (const s of rows) {
    const t = zoomed(s.series), height = 268, slot = slotOf(s.name);
    const svg = picture(width, height, `Memory and queue of ${s.name} over time`, `KV on the device ${percent(s.m.device_mean_share)} % of its capacity on average, ${percent(s.m.device_peak_share)} % at most; at most ${count(most(t.waiting_max))} requests waiting, ${count(most(t.preempted_max))} preempted; ${percent(s.m.stall_share)} % of iteration time stalled.`);
    const along = linear(from, end, left, right), at = v => Math.min(right, Math.max(left, along(v))), high = linear(0, memory, 112, 16), queued = linear(0, queue, 212, 142);
    const unit = t.in_bytes ? bytes : count;
    axisY(svg, linearTicks(memory, 3), high, tidy(unit), left, right);
    axisX(svg, ticksBetween(from, end, 6), at, tidy(time), 14, 240);
    axisY(svg, linearTicks(queue, 2).filter(Number.isInteger), queued, count, left, right);
    svg.append(text(left - 7, 9, 'KV', 'm s', 'end'), text(left - 7, 135, 'requests', 'm s', 'end'));
    const paint = colour(Math.max(0, slot));
    svg.append(el('path', {d: area(t.t, t.device, at, high, t.width), fill: paint, 'fill-opacity': 0.28}));
    svg.append(line(t.t, t.device_max, at, high, paint, 1.4, '', t.width), line(t.t, t.host, at, high, 'var(--fg)', 1.3, '2 2', t.width));
    svg.append(el('path', {d: `M${left} ${high(t.capacity)}H${right}`, stroke: 'var(--mute)', 'stroke-dasharray': '7 3'}));
    svg.append(el('path', {d: area(t.t, t.waiting_max, at, queued, t.width), fill: 'var(--other)', 'fill-opacity': 0.45}),
               line(t.t, t.waiting_max, at, queued, 'var(--mute)', 0.8, '', t.width));
    svg.append(line(t.t, t.running, at, queued, paint, 1.8, '', t.width), line(t.t, t.preempted_max, at, queued, 'var(--fg)', 1.5, '2 2', t.width));
    const stalled = t.t.map((x, i) => t.stall[i] > 0 ? `M${at(x).toFixed(1)} 240v${(-18 * Math.min(1, t.stall[i])).toFixed(1)}h${Math.max(0.7, at(x + t.width) - at(x)).toFixed(2)}V240z` : '').join('');
    svg.append(el('path', {d: stalled, fill: 'var(--c1)'}));
    svg.append(rule(left, 240, right, 240, 'a'), text(left - 7, 236, 'stall', 'm s', 'end'), rule(left, 222, right, 222));
    const spot = el('rect', {x: left, y: 10, width: right - left, height: 230, fill: 'transparent'});
    spot.addEventListener('mousemove', event => {
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * width / box.width;
      const wanted = from + (x - left) / (right - left) * (end - from);
      let i = 0;
      while (i + 1 < t.t.length && t.t[i + 1] <= wanted) ++i;
      spot.dataset.tip = `${s.name} at ${time(t.t[i])}\ndevice ${unit(t.device[i])} (peak ${unit(t.device_max[i])} of ${unit(t.capacity)})\nhost ${unit(t.host[i])}\nrunning ${plain(t.running[i])}, waiting up to ${count(t.waiting_max[i])}, preempted up to ${count(t.preempted_max[i])}\nstalled ${percent(t.stall[i])} %, moved ${unit(t.moved[i])}`;
    });
    svg.append(spot);
    zoomable(svg, spot, x => from + (x - left) / (right - left) * (end - from), width);
    const head = document.createElement('span');
    head.append(sample(Math.max(0, slot), 26), ' ' + s.name);
    head.firstChild.style.cssText = 'display:inline-block;vertical-align:-1px;margin-right:4px';
    const card = figure(head, svg);
    card.className = 'keep';
    host.append(card);
  }
}
function runs(times, values, step) { // pieces without a hole
  const pieces = [];
  let piece = null;
  times.forEach((t, i) => {
    if (values[i] === null) piece = null;
    else if (piece && Math.abs(piece[piece.length - 1][0] - t) < step * 0.01) piece.push([t, values[i]], [t + step, values[i]]);
    else pieces.push(piece = [[t, values[i]], [t + step, values[i]]]);
  });
  return pieces;
}
const points = (piece, at, up) => piece.map(([t, v]) => `${at(t).toFixed(1)} ${up(v).toFixed(1)}`).join('L');
const line = (times, values, at, up, stroke, width, dash, step) =>
  el('path', {d: runs(times, values, step).map(p => 'M' + points(p, at, up)).join(''), stroke, 'stroke-width': width, 'stroke-dasharray': dash || null, fill: 'none'});
const area = (times, values, at, up, step) =>
  runs(times, values, step).map(p => `M${at(p[0][0])} ${up(0)}L${points(p, at, up)}L${at(p[p.length - 1][0])} ${up(0)}z`).join('');
function timeLegend() {
  const stroke = (paint, dash, width) => swatch(svg => svg.append(el('path', {d: 'M0 6h22', stroke: paint, 'stroke-dasharray': dash || null, 'stroke-width': width})));
  return legendOf([
    [swatch(svg => svg.append(el('rect', {y: 2, width: 22, height: 9, fill: colour(0), 'fill-opacity': 0.28}), el('path', {d: 'M0 2h22', stroke: colour(0), 'stroke-width': 1.4}))), 'KV on the device: mean, and peak as a line'],
    [stroke('var(--mute)', '7 3', 1.4), 'capacity'], [stroke('var(--fg)', '2 2', 1.4), 'above: KV on the host; below: preempted'],
    [stroke(colour(0), '', 1.8), 'running'], [swatch(svg => svg.append(el('rect', {y: 1, width: 22, height: 10, fill: 'var(--other)', 'fill-opacity': 0.45}), el('path', {d: 'M0 1h22', stroke: 'var(--mute)'}))), 'waiting, at most'],
    [swatch(svg => svg.append(el('rect', {y: 2, width: 22, height: 9, fill: 'var(--c1)'}))), 'share of time stalled (0 to 100 %)']]);
}

// One iteration: layers, the transfers that they wait for, and where every request's layers were -------------------------
const layerName = l => `layer ${l + 1}`;
/// Every how manieth layer has its number written, where each has so much room.
const numberedEvery = room => [1, 2, 5, 10, 20, 50, 100].find(k => k * room >= textWidth('88') + 4) ?? 100;
const isNumbered = (l, every) => l === 0 || (l + 1) % every === 0;
/// A request's mark: the same colour and shape wherever it is in the picture, and its name beside it.
const requestMark = i => ({paint: colour([0, 4, 5, 2, 3, 1][i % 6]), kind: (i + Math.floor(i / 6)) % 6});

/// The link's rows, grouped by whose the transfers are: those of one request first, then what is nobody's own.
function linkRows(it) {
  const owners = distinct([...it.placed.map(p => p[0]), 'weights', 'all']), rows = [];
  for (const owner of owners) {
    const lanes = [];
    for (const [of, layer, from, to] of it.transfers.filter(t => t[0] === owner).sort((a, b) => a[2] - b[2])) {
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
function iterationChart(host, s) {
  const it = s.iteration, width = widthOf(host), left = 104, right = width - 12, most = 24;
  const all = linkRows(it), lanes = all.slice(0, most), placed = it.placed.slice(0, most);
  const markOf = owner => owner === 'all' || owner === 'weights' ? {paint: 'var(--mute)', kind: null} : requestMark(it.placed.findIndex(p => p[0] === owner));
  const nameOf = owner => owner === 'all' ? 'all together' : owner === 'weights' ? 'weights' : 'r' + owner;
  const laneHeight = lanes.length > 8 ? 13 : 17, top = 20, layerY = top + Math.max(1, lanes.length) * laneHeight + 12, layerH = 30;
  const gridY = layerY + layerH + 50, cell = Math.min(placed.length > 8 ? 15 : 18, (right - left) / Math.max(1, it.layers));
  const height = placed.length ? gridY + placed.length * (cell + 2) + 22 : layerY + layerH + 28;
  const svg = picture(width, height, `Layers of iteration ${it.step} of ${s.name}`, `${it.layers} layers in ${time(it.duration)}, of which ${time(it.stall)} stalled: ` + it.compute.filter(l => l[3] > 0).map(l => `${layerName(l[0])} waits ${time(l[3])} for ${l[4] === 'room' ? 'room' : 'the link'}`).join(', '));
  const at = linear(0, it.duration, left, right), every = numberedEvery((right - left) / Math.max(1, it.layers));
  // Over its edges only where the neighbours go without.
  const hasNumber = (layer, w) => w > textWidth(String(layer + 1)) + 2 || (w > 7 && isNumbered(layer, every) && w * every > textWidth(String(layer + 1)) + 4);
  const small = (x, y, content, style) => {
    const label = text(x, y, content, 's', 'middle');
    if (style) label.setAttribute('style', style);
    label.setAttribute('pointer-events', 'none');
    return label;
  };
  const ownerLabel = (owner, y) => {
    const {paint, kind} = markOf(owner);
    svg.append(text(left - 22, y + 4, nameOf(owner), 's', 'end'));
    if (kind !== null) svg.append(marker(kind, left - 12, y, 3.6, paint));
  };
  axisX(svg, linearTicks(it.duration, 8), at, tidy(time), top, layerY + layerH);
  svg.append(text(left, 12, `the link: which layer is on its way, ${lanes.some(l => typeof l.owner === 'number') ? 'a row for each request' : 'for all requests together'}${all.length > most ? `; the first ${most} of ${all.length} rows` : ''}`, 'm s'));
  svg.append(text(left - 22, layerY + layerH / 2 + 4, 'compute', 'b', 'end'));
  if (lanes.length === 0) svg.append(text(left + 4, top + 12, 'nothing is transferred', 'm'));
  lanes.forEach(({owner, list}, l) => {
    const y = top + l * laneHeight, {paint} = markOf(owner);
    if (l === 0 || lanes[l - 1].owner !== owner) ownerLabel(owner, y + laneHeight / 2 - 1);
    for (const [layer, from, to] of list) {
      const next = layer >= it.layers, index = next ? layer - it.layers : layer, w = at(to) - at(from);
      svg.append(tipped(el('rect', {x: at(from), y, width: Math.max(0.8, w - 0.6), height: laneHeight - 3, rx: 1.5, fill: next ? 'var(--card)' : paint, stroke: paint, 'stroke-width': next ? 1.2 : 0, 'stroke-dasharray': next ? '3 2' : null}),
        `${nameOf(owner)}: transfer for ${layerName(index)}${next ? ' of the next token' : ''}\n${time(from)} to ${time(to)}: ${time(to - from)}`));
      if (hasNumber(index, w))
        svg.append(small(at(from) + w / 2, y + laneHeight / 2 + 2.5, String(index + 1), next ? '' : 'fill:var(--on)'));
    }
  });
  for (const [layer, from, to, stall, cause] of it.compute) {
    const w = at(to) - at(from), kind = cause === 'room' ? 'grid' : 'diagonal', paint = cause === 'room' ? 'var(--c3)' : 'var(--c1)';
    if (stall > 0) {
      const x = at(from - stall), width = Math.max(1, at(from) - x);
      svg.append(tipped(width > 3 ? hatched(kind, x, layerY, width, layerH, paint) : el('rect', {x, y: layerY, width, height: layerH, fill: paint}),
        `${layerName(layer)} waits ${time(stall)} for ${cause === 'room' ? 'room: the link stood idle meanwhile' : 'the link: it was never idle'}`));
      svg.append(el('path', {d: `M${at(from)} ${top}V${layerY}`, stroke: paint, 'stroke-dasharray': '2 2', 'stroke-width': 0.9}));
    }
    svg.append(tipped(el('rect', {x: at(from), y: layerY, width: Math.max(0.8, w - 0.6), height: layerH, fill: layer % 2 ? 'var(--layer2)' : 'var(--layer)'}),
      `${layerName(layer)} computes ${time(from)} to ${time(to)}: ${time(to - from)}`));
    if (hasNumber(layer, w)) svg.append(small(at(from) + w / 2, layerY + layerH / 2 + 4, String(layer + 1)));
  }
  if (placed.length) {
    svg.append(text(left, gridY - 10, `where each request's layers were, layer 1 at the left${it.placed.length > placed.length ? `; the first ${placed.length} of ${it.placed.length} requests` : ''}`, 'm s'));
    const ticks = numberedEvery(cell);
    for (let l = 0; l < it.layers; ++l)
      if (isNumbered(l, ticks)) svg.append(small(left + (l + 0.5) * cell, gridY + placed.length * (cell + 2) + 11, String(l + 1), 'fill:var(--mute)'));
    placed.forEach(([id, host, nowhere], r) => {
      const y = gridY + r * (cell + 2), {paint} = requestMark(r), h = cell - 1, w = cell - 1.5;
      let strokes = '', dots = '';
      ownerLabel(id, y + cell / 2);
      for (let l = 0; l < it.layers; ++l) {
        const where = host.includes(l) ? 'host' : nowhere.includes(l) ? 'rebuilt' : 'device', x = left + l * cell;
        svg.append(tipped(el('rect', {x, y, width: w, height: h, fill: where === 'device' ? 'var(--layer)' : 'var(--card)', stroke: where === 'device' ? 'none' : paint}),
          `r${id}, ${layerName(l)}: ${where === 'host' ? 'on the host, fetched each iteration' : where === 'rebuilt' ? 'in neither memory, recomputed' : 'on the device'}`));
        if (where === 'host') strokes += `M${x} ${y + h}L${x + w} ${y}`;
        if (where === 'rebuilt') dots += `M${x + w / 2} ${y + h / 2}h0`;
      }
      for (const [d, thick] of [[strokes, 2], [dots, 5]])
        if (d) svg.append(el('path', {d, stroke: paint, 'stroke-width': Math.min(thick, cell / 3), 'stroke-linecap': 'round', fill: 'none', 'pointer-events': 'none'}));
    });
  }
  host.append(figure(`${s.name}: iteration ${it.step}, at ${time(it.start)}; ${it.decodes} decoding, ${it.tokens} tokens; ${time(it.duration)}, of it ${time(it.stall)} (${percent(it.duration > 0 ? it.stall / it.duration : 0)} %) stalled; the plan was bound by: ${it.binding}`, svg));
  const box = (fill, stroke, extra) => swatch(g => g.append(el('rect', {x: 1, y: 1, width: 20, height: 10, fill, stroke, ...extra})));
  const waits = (kind, paint) => swatch(g => g.append(hatched(kind, 1, 1, 20, 10, paint)));
  const used = cause => it.compute.some(l => l[3] > 0 && (l[4] === 'room') === (cause === 'room'));
  const entries = [[box('var(--layer)', 'none'), 'a layer computes; in the rows of the requests: a layer on the device']];
  if (used('link')) entries.push([waits('diagonal', 'var(--c1)'), 'waits: the link is too slow']);
  if (used('room')) entries.push([waits('grid', 'var(--c3)'), 'waits: the link had no room, or no leave, to start earlier']);
  const returns = it.transfers.some(t => it.placed.some(p => p[0] === t[0] && !p[1].includes(t[1] % it.layers)));
  const staying = !placed.some(p => p[1].length) ? ': layers that come back to stay' : returns ? '; where the row below has that layer on the device, it came back to stay' : '';
  if (lanes.length) entries.push([box(markOf(lanes[0].owner).paint, 'none'), 'transfer for the layer of that number' + (lanes.some(l => markOf(l.owner).kind !== null) ? ', in the colour of its request' : '') + staying]);
  if (it.transfers.some(x => x[1] >= it.layers)) entries.push([box('var(--card)', 'var(--mute)', {'stroke-dasharray': '3 2'}), 'for the next token']);
  if (placed.some(p => p[1].length)) entries.push([swatch(g => g.append(el('rect', {x: 5, y: 0.5, width: 12, height: 11, fill: 'var(--card)', stroke: 'var(--fg)'}), el('path', {d: 'M5 11.5L17 0.5', stroke: 'var(--fg)', 'stroke-width': 2}))), 'layer on the host']);
  if (placed.some(p => p[2].length)) entries.push([swatch(g => g.append(el('rect', {x: 5, y: 0.5, width: 12, height: 11, fill: 'var(--card)', stroke: 'var(--fg)'}), marker(0, 11, 6, 2.5, 'var(--fg)'))), 'layer recomputed']);
  host.append(legendOf(entries));
}

// The page ----------------------------------------------------------------------------------------------------------
function iterationControl() {
  const able = shown().filter(s => s.iteration);
  const longest = list => [...list].sort((a, b) => b.iteration.stall - a.iteration.stall)[0];
  if (!able.some(s => s.name === chosen.iteration)) { // one to learn from: in colour, and with a row for each request
    const coloured = able.filter(s => slotOf(s.name) >= 0 && s.iteration.transfers.length > 0);
    const first = longest(coloured.filter(s => s.iteration.transfers.some(t => typeof t[0] === 'number'))) ?? longest(coloured) ?? longest(able);
    chosen.iteration = first ? first.name : null;
  }
  at('pick').replaceChildren(...able.map(s => {
    const option = document.createElement('option');
    option.value = s.name;
    option.selected = s.name === chosen.iteration;
    option.append(`${s.name}: ${time(s.iteration.stall)} stalled of ${time(s.iteration.duration)}`);
    return option;
  }));
  at('pick').parentElement.hidden = able.length < 2;
  return able.find(s => s.name === chosen.iteration);
}
function draw() {
  pictures = 0;
  choose();
  systemControls(x => `${scaleName(x)} (${time(systems.find(s => s.scale === x).slo)})`);
  const fresh = id => { at(id).replaceChildren(); return at(id); };
  const part = `${scales.length > 1 ? `SLO ${scaleName(chosen.scale)}, ` : ''}${time((shown()[0] || {}).slo)} a token${deposits.length > 1 ? (chosen.deposit ? ', with token deposit' : ', without deposit') : ''}`;
  document.querySelectorAll('.seed').forEach(node => { node.textContent = manySeeds ? ` Of seed ${data.seeds[0]}, the first of ${data.seeds.length}.` : ''; });
  document.querySelectorAll('.part').forEach(node => { node.textContent = part; });
  fresh('attainment-legend').append(attainmentLegend());
  const panels = fresh('attainment');
  const hosts = deposits.map(() => panels.appendChild(document.createElement('div')));
  deposits.forEach((d, i) => attainmentCharts(hosts[i], d));
  pairCharts();
  costChart(fresh('costs'));
  fresh('cdf-legend').append(highlightedLegend(true));
  const cdfs = ['ttft', 'tbt', 'e2e'].map(() => document.createElement('div'));
  fresh('cdf').append(...cdfs);
  const one = shown()[0] || {};
  cdfChart(cdfs[0], 'time to first token (TTFT)', 'ttft', one.slo_ttft);
  cdfChart(cdfs[1], 'time between tokens (TBT)', 'tbt', one.slo);
  cdfChart(cdfs[2], 'arrival to last token (E2E)', 'e2e', 0);
  at('whole').hidden = !chosen.zoom;
  fresh('time-legend').append(timeLegend());
  timeCards(fresh('time'));
  whyCharts();
  const chosenIteration = iterationControl();
  if (chosenIteration) iterationChart(fresh('iteration'), chosenIteration);
  else fresh('iteration').append('No iteration was recorded.');
  dressFigures();
  remember();
}
at('whole').addEventListener('click', () => { chosen.zoom = null; draw(); });
at('pick').addEventListener('change', event => { chosen.iteration = event.target.value; chosen.picked = true; draw(); });

opens();
)js";

} // namespace sluice::detail
