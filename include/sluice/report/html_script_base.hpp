// SPDX-License-Identifier: Apache-2.0
// The script of report.html, first part: data, selection, numbers, SVG and axes.
#pragma once

#include <string_view>

namespace sluice::detail {

/// No library: the page must work from a mail attachment, without a network, in ten years.
inline constexpr std::string_view html_script_base = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const systems = data.systems;
const distinct = list => [...new Set(list)];
const scales = distinct(systems.map(s => s.scale)).sort((a, b) => a - b);
const deposits = distinct(systems.map(s => s.deposit)).sort();
const names = distinct(systems.map(s => s.name));
const maxHighlighted = 6;
const dashes = ['', '7 3', '2 3', '10 3 2 3', '14 4', '5 2 1 2'];

const chosen = {
  scale: scales.includes(1.5) ? 1.5 : scales[0],
  deposit: deposits[0],
  names: [],
  byReader: false, // whether the names are the reader's choice
  iteration: null,
  picked: false, // whether that is too
  zoom: null     // a stretch of time, or all
};
const isChosen = s => s.scale === chosen.scale && s.deposit === chosen.deposit;
const shown = () => systems.filter(isChosen);
const highlighted = () => chosen.names.map(n => shown().find(s => s.name === n)).filter(Boolean);
/// What a livelocked engine served before is no attainment of the workload.
const attained = s => s.livelocked ? -1 : s.m.tbt_attainment ?? -1;
/// The best first, the control last, and what repeats another right behind it.
function ranked(list) {
  const sorted = [...list].sort((a, b) => (a.control - b.control) || (attained(b) - attained(a)));
  return sorted.filter(s => !s.same).flatMap(s => [s, ...sorted.filter(d => d.same === s.name)]);
}
/// In colour, until the reader chooses: the best of those that fetch layers while they run, the best of those that do
/// not (in a crowd of one kind the other would vanish), and the control that they are read by. Never the same figures
/// twice, and variants, which are called after what they vary, only where there is nothing else. Whoever is in colour
/// keeps it from view to view.
function choose() {
  if (chosen.byReader) return;
  const able = ranked(shown()).filter(s => !s.same), control = able.filter(s => s.control).slice(0, 1);
  const varies = s => able.some(o => o !== s && s.name.startsWith(o.name));
  const rivals = [...able.filter(s => !varies(s)), ...able.filter(varies)].filter(s => !s.control);
  const fetches = s => s.iteration !== null && s.iteration.transfers.length > 0;
  const fetching = rivals.filter(fetches), others = rivals.filter(s => !fetches(s));
  const room = maxHighlighted - control.length, half = Math.max(Math.ceil(room / 2), room - others.length);
  const picked = [...fetching.slice(0, half), ...others.slice(0, room - Math.min(half, fetching.length))];
  const wanted = [...able.filter(s => picked.includes(s)), ...control].map(s => s.name);
  colourOnly(wanted);
}
function colourOnly(wanted) {
  const fresh = wanted.filter(n => !chosen.names.includes(n));
  chosen.names = [...chosen.names.map(n => wanted.includes(n) ? n : fresh.shift()).filter(Boolean), ...fresh];
}
const slotOf = name => chosen.names.indexOf(name);
const colour = i => `var(--c${i})`;

// Numbers as people read them ---------------------------------------------------------------------------------------
const absent = v => v === null || v === undefined || Number.isNaN(v);
function digits(v) {
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (a >= 100) return v.toFixed(0);
  if (a >= 10) return v.toFixed(1);
  if (a >= 1) return v.toFixed(2);
  if (a >= 0.1) return v.toFixed(3);
  return a >= 0.0005 ? v.toFixed(4) : v.toExponential(1);
}
function time(v) {
  if (absent(v)) return '–';
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (a < 1e-3) return digits(v * 1e6) + ' µs';
  if (a < 1) return digits(v * 1e3) + ' ms';
  if (a < 600) return digits(v) + ' s';
  return a < 7200 ? digits(v / 60) + ' min' : digits(v / 3600) + ' h';
}
function percent(v) {
  if (absent(v)) return '–';
  const t = (100 * v).toFixed(1);
  if (t === '100.0' && v < 1) return '>99.9';
  return t === '0.0' && v > 0 ? '<0.1' : t;
}
function bytes(v) {
  if (absent(v)) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let u = 0;
  while (Math.abs(v) >= 1000 && u < 5) { v /= 1000; ++u; }
  return digits(v) + ' ' + units[u];
}
const plain = v => absent(v) ? '–' : Math.abs(v) >= 1e5 ? digits(v / 1e3) + 'k' : digits(v);
const count = v => absent(v) ? '–' : v >= 1e6 ? digits(v / 1e6) + 'M' : String(Math.round(v));

/// The same without zeros at the end: what labels of an axis need.
const tidy = show => v => show(v).replace(/(\.\d*?)0+(?!\d)/, '$1').replace(/\.(?!\d)/, '');

// SVG ---------------------------------------------------------------------------------------------------------------
const svgNamespace = 'http://www.w3.org/2000/svg';
function el(tag, attributes, ...children) {
  const node = document.createElementNS(svgNamespace, tag);
  for (const key in attributes) if (attributes[key] !== null) node.setAttribute(key, attributes[key]);
  for (const child of children.flat()) if (child !== null) node.append(child);
  return node;
}
const text = (x, y, content, kind = '', anchor = 'start') =>
  el('text', {x, y, class: kind || null, 'text-anchor': anchor}, content);
const rule = (x1, y1, x2, y2, kind = 'g') => el('line', {x1, y1, x2, y2, class: kind});
let pictures = 0;
/// A picture with a name and a description for those who cannot see it.
function picture(width, height, title, description) {
  const id = 'p' + ++pictures;
  return el('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-labelledby': `${id}t ${id}d`},
            el('title', {id: id + 't'}, title), el('desc', {id: id + 'd'}, description));
}
const ruler = document.createElement('canvas').getContext('2d');
function textWidth(content, bold = false) {
  ruler.font = (bold ? '600 ' : '') + '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, "DejaVu Sans", sans-serif';
  return ruler.measureText(content).width;
}
const labelWidth = list => Math.min(230, Math.ceil(Math.max(0, ...list.map(n => textWidth(n, true)))) + 12);
/// As much of a name as there is room for.
function shortened(name, room) {
  if (textWidth(name, true) <= room) return name;
  let end = name.length - 1;
  while (end > 1 && textWidth(name.slice(0, end) + '…', true) > room) --end;
  return name.slice(0, end) + '…';
}

/// A rectangle with a hatch, which tells bars apart on grey paper. One path of plain strokes, cut at the edges here:
/// SVG patterns and clips become megabytes in a PDF.
function hatched(kind, x, y, w, h, paint) {
  const fill = kind === '' ? paint : 'var(--card)', node = el('g', {}, el('rect', {x, y, width: w, height: h, fill, stroke: paint, 'stroke-width': 1}));
  const step = 5, at = v => v.toFixed(1);
  let d = '', width = 1.3;
  if (kind === 'diagonal' || kind === 'back')
    for (let c = step; c < w + h; c += step) { // from the left or lower edge to the right or upper one
      const a = Math.max(0, c - h), b = Math.min(c, w);
      d += kind === 'diagonal' ? `M${at(x + a)} ${at(y + c - a)}L${at(x + b)} ${at(y + c - b)}`
                               : `M${at(x + a)} ${at(y + a - c + h)}L${at(x + b)} ${at(y + b - c + h)}`;
    }
  if (kind === 'dots') {
    width = 2.6;
    for (let i = step / 2; i < w - 1; i += step) for (let j = Math.min(step, h) / 2; j < h; j += step) d += `M${at(x + i)} ${at(y + j)}h0`;
  }
  if (kind === 'lines' || kind === 'grid') for (let j = step / 2; j < h; j += step) d += `M${at(x)} ${at(y + j)}h${at(w)}`;
  if (kind === 'grid') for (let i = step / 2; i < w; i += step) d += `M${at(x + i)} ${at(y)}v${at(h)}`;
  if (d) node.append(el('path', {d, stroke: paint, 'stroke-width': kind === 'grid' ? 1 : width, 'stroke-linecap': kind === 'dots' ? 'round' : null, fill: 'none'}));
  return node;
}
const scaleHatches = ['', 'diagonal', 'dots', 'lines', 'grid', 'back'];
const scaleBar = (i, x, y, w, h) => hatched(scaleHatches[i % 6], x, y, w, h, colour(i % 6));

function marker(kind, x, y, r, paint, hollow = false) {
  const style = {fill: hollow ? 'var(--card)' : paint, stroke: paint, 'stroke-width': hollow ? 1.6 : 1};
  const d = [null, `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`, `M${x} ${y - 1.2 * r}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`,
             `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
             `M${x} ${y + 1.2 * r}l${1.2 * r} ${-2.1 * r}h${-2.4 * r}z`,
             `M${x - r} ${y - r}l${2 * r} ${2 * r}M${x + r} ${y - r}l${-2 * r} ${2 * r}`][kind % 6];
  if (kind % 6 === 0) return el('circle', {cx: x, cy: y, r, ...style});
  return el('path', {d, ...style, 'stroke-width': kind % 6 === 5 ? 2 : style['stroke-width']});
}
/// The sample of a highlighted system: its line, dash and marker.
function sample(slot, width = 30) {
  const svg = el('svg', {width, height: 12, viewBox: `0 0 ${width} 12`, 'aria-hidden': 'true'});
  svg.append(el('path', {d: `M0 6h${width}`, stroke: colour(slot), 'stroke-width': 2.2, 'stroke-dasharray': dashes[slot] || null, fill: 'none'}),
             marker(slot, width / 2, 6, 3.4, colour(slot)));
  return svg;
}
function legendOf(entries) {
  const list = document.createElement('ul');
  list.className = 'legend';
  for (const [icon, label] of entries) {
    const item = document.createElement('li');
    item.append(icon, label);
    list.append(item);
  }
  return list;
}
function swatch(build) {
  const svg = el('svg', {width: 22, height: 12, viewBox: '0 0 22 12', 'aria-hidden': 'true'});
  build(svg);
  return svg;
}
function figure(caption, ...content) {
  const node = document.createElement('figure');
  if (caption) {
    const head = document.createElement('figcaption');
    head.append(caption);
    node.append(head);
  }
  node.append(...content);
  return node;
}

// Scales and axes ---------------------------------------------------------------------------------------------------
const linear = (d0, d1, r0, r1) => v => r0 + (v - d0) / (d1 - d0 || 1) * (r1 - r0);
const logarithmic = (d0, d1, r0, r1) => {
  const a = Math.log(d0), b = Math.log(d1);
  return v => r0 + (Math.log(Math.max(v, d0)) - a) / (b - a || 1) * (r1 - r0);
};
function linearTicks(max, wanted = 4) {
  if (!(max > 0)) return [0];
  const raw = max / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const ticks = [];
  for (let i = 0; i * step <= max * 1.0001; ++i) ticks.push(i * step);
  return ticks;
}
/// Whole minutes or hours where times are that long.
function timeTicks(max, wanted) {
  const unit = max >= 7200 ? 3600 : max >= 600 ? 60 : 1;
  return linearTicks(max / unit, wanted).map(t => t * unit);
}
/// Seconds throughout, as powers of ten of them are not round in minutes.
const logTime = v => v < 1 ? tidy(time)(v) : tidy(digits)(v) + ' s';
/// Few enough that their labels do not touch: powers of ten, with 2 and 5 between where there is room.
function logTicks(min, max, room) {
  const between = marks => {
    const ticks = [];
    for (let p = Math.floor(Math.log10(min)); p <= Math.ceil(Math.log10(max)); ++p)
      for (const m of marks) if (m * 10 ** p >= min * 0.999 && m * 10 ** p <= max * 1.001) ticks.push(m * 10 ** p);
    return ticks;
  };
  for (const marks of [[1, 2, 5], [1, 3], [1]]) if (between(marks).length * 46 <= room) return between(marks);
  return between([1]).filter((_, i) => i % Math.ceil(between([1]).length * 46 / room) === 0);
}
/// Vertical grid with labels under it, those left out that would touch the one before.
function axisX(svg, ticks, at, label, top, bottom) {
  let last = -1e9;
  for (const t of ticks) {
    const x = at(t), content = label(t), half = textWidth(content) / 2;
    svg.append(rule(x, top, x, bottom));
    if (x - half < last + 8) continue;
    svg.append(text(x, bottom + 15, content, 'm', 'middle'));
    last = x + half;
  }
}
function axisY(svg, ticks, at, label, left, right) {
  for (const t of ticks)
    svg.append(rule(left, at(t), right, at(t)), text(left - 7, at(t) + 4, label(t), 'm', 'end'));
}

// Tooltips ----------------------------------------------------------------------------------------------------------
const tip = document.getElementById('tip');
const tipped = (node, content) => { node.dataset.tip = content; return node; };
function placeTip(x, y) {
  tip.style.left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = (y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18) + 'px';
}
document.addEventListener('mousemove', event => {
  const over = event.target.closest && event.target.closest('[data-tip]');
  tip.style.opacity = over ? 1 : 0;
  if (!over) return;
  tip.textContent = over.dataset.tip;
  placeTip(event.clientX, event.clientY);
});
)js";

} // namespace sluice::detail
