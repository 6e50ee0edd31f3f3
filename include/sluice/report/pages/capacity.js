// SPDX-License-Identifier: Apache-2.0
// The page of capacities: the rate that each system sustains, and attainment over the rate.
import {addressed, addressSystems} from './address.js';
import {axisName, axisX, axisY, linear, linearTicks, logarithmic, logTicks} from './axes.js';
import {controlRow, systemControls, systemEntries} from './controls.js';
import {at, el, emptied} from './dom.js';
import {absent, digits, percent, plain, tidy} from './numbers.js';
import {button, openPage, paper, widthOf} from './page.js';
import {eachHead, eachOf, ends, endsOf, means, meansHead, runHead, runOf} from './save.js';
import {
  colour,
  dashes,
  figure,
  labelWidth,
  legendOf,
  marker,
  picture,
  polyline,
  rule,
  shortened,
  stroke,
  target,
  text,
  tipped
} from './svg.js';
import {axes, beside, cells, inOrder, isWide, valueText} from './sweep.js';
import {chosen, colourBest, data, isChosen, isKnown, manySeeds, names, slotOf, systems} from './systems.js';

/// The page opens with the first comparison in which some system has a capacity.
const openingCell = Math.max(0, cells.findIndex((_, i) => systems.some(s => s.cell === i && !absent(s.capacity))));
const view = {
  cell: openingCell
};
const rateText = v => absent(v) ? '–' : digits(v) + ' requests/s';
const cellText = cell => Object.entries(cell).map(([axis, value]) => `${axis} ${valueText(axis, value)}`).join(', ');
const inCell = cell => systems.filter(s => s.cell === cell && isChosen(s));
const byRank = list => [...list].sort((a, b) => a.rank - b.rank);
const paintOf = slot => slot >= 0 ? colour(slot) : 'var(--other)';
const dashOf = slot => ({'stroke-dasharray': slot < 0 ? null : dashes[slot] || null});
const intervalText = s => isKnown(s.interval) ? `95 % interval ${s.interval.map(digits).join(' to ')}` : '';

function chooseNames() {
  if (chosen.byReader) return;
  const ranking = byRank(inCell(view.cell)), named = list => list.map(s => s.name);
  colourBest(named(ranking.filter(s => !s.control)), named(ranking.filter(s => s.control)));
}
function controls() {
  controlRow('cells', cells.map((c, i) => button(cellText(c), i === view.cell, () => { view.cell = i; })));
  systemControls();
}
/// Returns the end of an axis: the largest end of an interval, but at most three times the highest capacity. With few
/// seeds an interval can be so wide that all capacities would coincide. Such a bar has no end in the picture, but its
/// text gives the end.
function farthest(list) {
  const most = Math.max(...list.map(s => s.capacity ?? 0)), ends = list.map(s => s.interval?.[1] ?? 0);
  return Math.min(Math.max(most, ...ends), most * 3) || 1;
}

/// Draws a dot and its interval for each system; a text if it has no capacity.
function ranking(host) {
  const rows = byRank(inCell(view.cell)), width = widthOf(host), top = 8, rowHeight = paper ? 16 : 20;
  const label = labelWidth(rows.map(s => s.name)) + 16, right = width - 170,
        height = top + rows.length * rowHeight + 40;
  const most = farthest(rows), x = linear(0, most * 1.03, label, right);
  const svg = picture(width, height, 'Capacity by system',
                      rows.map(s => `${s.name}: ${absent(s.capacity) ? s.remark : rateText(s.capacity)}`).join('; '));
  axisX(svg, linearTicks(most, 6), x, tidy(plain), top, height - 36);
  svg.append(axisName('requests/s', right, height - 4));
  rows.forEach((s, r) => {
    const y = top + r * rowHeight + rowHeight / 2, slot = slotOf(s.name);
    if (s.control && r > 0) svg.append(rule(0, y - rowHeight / 2, width, y - rowHeight / 2, 'a'));
    const row = tipped(el('g'), s.name, `capacity ${rateText(s.capacity)}`, intervalText(s), s.judged ?? '', s.remark);
    row.append(target(0, y - rowHeight / 2, width, rowHeight));
    if (slot >= 0) row.append(marker(slot, 6, y, 3.6, paintOf(slot)));
    const style = s.control ? 'm' : slot >= 0 ? 'b' : '';
    row.append(text(label - 8, y + 4, shortened(s.name, label - 24), style, 'end'));
    if (absent(s.capacity)) {
      row.append(text(label + 6, y + 4, s.remark, 'm s halo'));
    } else {
      row.append(stroke(`M${label} ${y}H${x(s.capacity)}`, 'var(--line)'));
      if (isKnown(s.interval))
        row.append(stroke(`M${x(s.interval[0])} ${y}H${Math.min(right, x(s.interval[1]))}`, 'var(--fg)', 1.4));
      row.append(marker(Math.max(0, slot), x(s.capacity), y, 4, paintOf(slot)),
                 text(right + 12, y + 4, s.shown + (s.doubted ? ' ?' : ''), 'num s'));
    }
    svg.append(row);
  });
  host.append(figure('', svg));
}

/// Draws one system's lines, one per seed; with markers if there is one seed and the system is in colour.
function drawProbes(svg, s, x, y) {
  const slot = slotOf(s.name), width = slot < 0 ? 0.8 : manySeeds ? 1 : 2;
  const look = {...dashOf(slot), 'stroke-opacity': slot >= 0 && manySeeds ? 0.55 : null};
  for (const {seed, probes} of s.seeds) {
    const known = probes.filter(p => !absent(p[1]));
    const line = stroke(polyline(known.map(p => [x(p[0]), y(p[1])])), paintOf(slot), width, look);
    svg.append(tipped(line, `${s.name}${manySeeds ? `, seed ${seed}` : ''}`));
    if (slot < 0 || manySeeds) continue;
    for (const [rate, attained, livelocked] of known)
      svg.append(tipped(marker(slot, x(rate), y(attained), 2.6, colour(slot), livelocked), s.name, rateText(rate),
                        `SLO attainment ${percent(attained)} %`, livelocked ? 'livelocked' : ''));
  }
}
/// Draws attainment over the rate, and its crossing of the share.
function curves(host) {
  const rows = inCell(view.cell), rates = rows.flatMap(s => s.seeds.flatMap(seed => seed.probes.map(p => p[0])));
  const least = Math.min(...rates), most = Math.max(...rates), width = widthOf(host), height = paper ? 300 : 400;
  if (!rates.length || !(least > 0)) return;
  const left = 52, right = width - 16, top = 12, bottom = height - 44;
  const x = logarithmic(least, most, left + 8, right - 8), y = linear(0, 1, bottom, top), line = y(data.share);
  const told = s => s.seeds[0].probes.map(p => `${digits(p[0])}: ${percent(p[1])} %`).join(', ');
  const svg = picture(width, height, 'SLO attainment against the arrival rate',
                      rows.map(s => `${s.name}: ${told(s)}`).join('; '));
  axisY(svg, [0, 0.25, 0.5, 0.75, 1], y, v => 100 * v + ' %', left, right);
  axisX(svg, logTicks(least, most, right - left), x, tidy(plain), top, bottom);
  svg.append(axisName('requests/s, logarithmic', right, height - 6),
             stroke(`M${left} ${line}H${right}`, 'var(--fg)', 1.4, {'stroke-dasharray': '4 3'}),
             text(left + 6, line + 14, `${tidy(digits)(100 * data.share)} %`, 'b s halo'));
  const coloured = rows.filter(s => slotOf(s.name) >= 0);
  for (const s of [...rows.filter(s => slotOf(s.name) < 0), ...coloured]) drawProbes(svg, s, x, y);
  for (const s of coloured.filter(s => !absent(s.capacity))) { // the capacities, over all lines
    const slot = slotOf(s.name), spot = tipped(el('g'), s.name, `capacity ${rateText(s.capacity)}`);
    if (isKnown(s.interval)) {
      const from = x(Math.max(least, s.interval[0])), to = x(Math.min(most, s.interval[1]));
      spot.append(stroke(`M${from} ${line}H${to}`, colour(slot), 3));
    }
    spot.append(marker(slot, x(s.capacity), line, 6, colour(slot)));
    svg.append(spot);
  }
  host.append(figure('', svg));
}

const swept = axes.filter(a => a.numbers && a.values.length > 1);
/// Returns each name's points along an axis, at the chosen cell's position on all other axes.
function linesAlong(axis) {
  const here = cells[view.cell], isAlong = c => axes.every(a => a === axis || c[a.name] === here[a.name]);
  const along = cells.map((c, i) => [c, i]).filter(([c]) => isAlong(c));
  const pointsOf = name => along.map(([c, i]) => [c[axis.name], inCell(i).find(s => s.name === name)]);
  const lines = names.map(name => [name, pointsOf(name).filter(p => p[1]).sort((a, b) => a[0] - b[0])]);
  return lines.filter(([, points]) => points.length);
}
/// Draws an arrow for a missing capacity: at the bottom if no rate meets the share, at the top if every rate does.
function arrow(px, isUp, top, bottom, fill, paint) {
  const py = isUp ? top + 5 : bottom - 5, tip = isUp ? -5 : 5;
  return el('path', {d: `M${px - 4} ${py - tip}H${px + 4}L${px} ${py + tip}Z`, fill, stroke: paint});
}
function drawLine(svg, axis, name, points, {x, y, top, bottom, most}) {
  const slot = slotOf(name), paint = paintOf(slot);
  const at = points.map(([v, s]) => absent(s.capacity) ? null : `${x(v).toFixed(1)} ${y(s.capacity).toFixed(1)}`);
  const d = at.map((place, i) => place && (i && at[i - 1] ? 'L' : 'M') + place).filter(Boolean).join('');
  svg.append(stroke(d, paint, slot < 0 ? 1 : 2.2, dashOf(slot))); // it has a gap where there is no capacity
  for (const [v, s] of points) {
    const spot =
        tipped(el('g'), name, `${axis.name} ${valueText(axis.name, v)}`, `capacity ${rateText(s.capacity)}`, s.remark);
    const px = x(v) + beside(slot, absent(s.capacity) ? 5 : 2);
    svg.append(spot);
    if (absent(s.capacity)) {
      spot.append(arrow(px, s.beyond === 'above', top, bottom, slot < 0 ? 'var(--bg)' : paint, paint));
      continue;
    }
    if (slot >= 0 && isKnown(s.interval))
      spot.append(stroke(`M${px} ${y(s.interval[0])}V${y(Math.min(most, s.interval[1]))}`, paint, 1.4));
    spot.append(slot < 0 ? el('circle', {cx: x(v), cy: y(s.capacity), r: 2, fill: paint})
                         : marker(slot, x(v), y(s.capacity), 3.8, paint));
  }
}
/// Draws the capacity over each swept number.
function against(host) {
  for (const axis of swept) {
    const lines = linesAlong(axis), width = widthOf(host), height = paper ? 240 : 320;
    const left = 58, right = width - 16, top = 12, bottom = height - 44;
    const found = lines.flatMap(([, points]) => points.map(p => p[1])).filter(s => !absent(s.capacity));
    const values = inOrder(axis.values), wide = isWide(values), most = farthest(found);
    const x = (wide ? logarithmic : linear)(values[0], values.at(-1), left + 10, right - 10),
          y = linear(0, most, bottom, top);
    const told = ([v, s]) => `${valueText(axis.name, v)}: ${absent(s.capacity) ? s.remark : digits(s.capacity)}`;
    const svg = picture(width, height, `Capacity against ${axis.name}`,
                        lines.map(([name, points]) => `${name}: ${points.map(told).join(', ')}`).join('; '));
    axisY(svg, linearTicks(most, 5), y, tidy(plain), left, right);
    axisX(svg, values, x, v => valueText(axis.name, v), top, bottom);
    svg.append(axisName(axis.name + (wide ? ', logarithmic' : ''), right, height - 6));
    const greyFirst = [...lines].sort((a, b) => (slotOf(a[0]) >= 0) - (slotOf(b[0]) >= 0));
    for (const [name, points] of greyFirst) drawLine(svg, axis, name, points, {x, y, top, bottom, most});
    host.append(figure(`Capacity, requests/s, against ${axis.name}`, svg));
  }
  host.parentElement.hidden = !host.children.length;
}

function draw() {
  chooseNames();
  controls();
  at('against').parentElement.hidden = false; // a hidden section has no width
  for (const [id, drawInto] of Object.entries({ranking, curves, against})) drawInto(emptied(id));
  const here = cellText(cells[view.cell]);
  document.querySelectorAll('.part').forEach(place => { place.textContent = here ? ` At ${here}.` : ''; });
  emptied('legend').append(legendOf(systemEntries(inCell(view.cell))));
}

const rateHead = [
  ...runHead, ...meansHead, 'requests_per_s', ...ends('requests_per_s'),
  ...(manySeeds ? ['median_requests_per_s'] : []), ...eachHead('requests_per_s'), 'remark'
];
const rateCells = s => [...runOf(s), ...means, s.mean, ...endsOf(s.interval), ...(manySeeds ? [s.middle] : []),
                        ...eachOf(s.seeds.map(seed => seed.capacity)), s.remark];
function probesCsv() {
  const cellsOf = (s, {seed, probes}) =>
      probes.map(([rate, met, stuck]) => [...runOf(s), seed, rate, met, stuck === 1]);
  return [
    [...runHead, 'seed', 'requests_per_s', 'slo_attainment', 'livelocked'],
    ...byRank(inCell(view.cell)).flatMap(s => s.seeds.flatMap(seed => cellsOf(s, seed)))
  ];
}
const againstCsv =
    (drawn, i) => [rateHead, ...linesAlong(swept[i]).flatMap(([, points]) => points.map(p => rateCells(p[1])))];

addressed.push({
  name: 'at',
  say: () => view.cell === openingCell ? null : cellText(cells[view.cell]),
  take(said) {
    const cell = cells.findIndex(c => cellText(c) === said);
    view.cell = cell >= 0 ? cell : openingCell;
  },
});
addressSystems();
const rankingCsv = () => [rateHead, ...byRank(inCell(view.cell)).map(rateCells)];
openPage({draw, csv: {ranking: rankingCsv, curves: probesCsv, against: againstCsv}});
