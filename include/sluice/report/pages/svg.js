// SPDX-License-Identifier: Apache-2.0
// Elements of a page's pictures: texts, lines, hatches, markers, legends, tooltips.
import {at, el, node} from './dom.js';

export const colour = slot => `var(--c${slot})`;
/// A hatch for each colour, so that nothing on a page differs only by colour.
export const dashes = ['', '7 3', '2 3', '10 3 2 3', '14 4', '5 2 1 2'];

let pictures = 0;
/// Pictures are numbered within one drawing of the page.
export function restartPictures() { pictures = 0; }
/// Makes a picture with a name and a description for screen readers.
export function picture(width, height, title, description) {
  const id = 'p' + ++pictures;
  return el('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-labelledby': `${id}t ${id}d`},
            el('title', {id: id + 't'}, title), el('desc', {id: id + 'd'}, description));
}

export const text = (x, y, content, kind = '', anchor = 'start') =>
    el('text', {x, y, class: kind || null, 'text-anchor': anchor}, content);
export const rule = (x1, y1, x2, y2, kind = 'g') => el('line', {x1, y1, x2, y2, class: kind});
/// Makes a path that is not filled. `more`: further attributes.
export const stroke = (d, paint, width = 1, more = {}) =>
    el('path', {d, fill: 'none', stroke: paint, 'stroke-width': width, ...more});
export const box = (x, y, width, height, fill, more = {}) => el('rect', {x, y, width, height, fill, ...more});
/// Makes an invisible area for the pointer.
export const target = (x, y, width, height) => box(x, y, width, height, 'transparent');
/// Makes a line with markers at each point.
export const polyline = points => points.map(([x, y], i) => `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');

const fontFamily = 'system-ui, -apple-system, "Segoe UI", Roboto, Arial, "DejaVu Sans", sans-serif';
const ruler = document.createElement('canvas').getContext('2d');
export function textWidth(content, bold = false) {
  ruler.font = `${bold ? '600 ' : ''}12px ${fontFamily}`;
  return ruler.measureText(content).width;
}
export const labelWidth = list => Math.min(230, Math.ceil(Math.max(0, ...list.map(n => textWidth(n, true)))) + 12);
/// Returns a name, shortened to the available room.
export function shortened(name, room) {
  if (textWidth(name, true) <= room) return name;
  let end = name.length - 1;
  while (end > 1 && textWidth(name.slice(0, end) + '…', true) > room) --end;
  return name.slice(0, end) + '…';
}

/// Makes strokes from the left or lower edge to the right or upper one ("diagonal"), or mirrored ("back").
function slanted(kind, x, y, w, h, step) {
  let d = '';
  for (let c = step; c < w + h; c += step) {
    const from = Math.max(0, c - h), to = Math.min(c, w);
    const [y0, y1] = kind === 'diagonal' ? [y + c - from, y + c - to] : [y + from - c + h, y + to - c + h];
    d += `M${(x + from).toFixed(1)} ${y0.toFixed(1)}L${(x + to).toFixed(1)} ${y1.toFixed(1)}`;
  }
  return d;
}
/// Makes a rectangle with a hatch, which distinguishes bars in greyscale prints. It is one path of plain strokes,
/// clipped at the edges here, since SVG patterns and clip paths become megabytes in a PDF.
export function hatched(kind, x, y, w, h, paint) {
  const made = el('g', {}, box(x, y, w, h, kind === '' ? paint : 'var(--card)', {stroke: paint, 'stroke-width': 1}));
  const step = 5, short = v => v.toFixed(1);
  let d = '';
  if (kind === 'diagonal' || kind === 'back') d = slanted(kind, x, y, w, h, step);
  if (kind === 'dots')
    for (let i = step / 2; i < w - 1; i += step)
      for (let j = Math.min(step, h) / 2; j < h; j += step) d += `M${short(x + i)} ${short(y + j)}h0`;
  if (kind === 'lines' || kind === 'grid')
    for (let j = step / 2; j < h; j += step) d += `M${short(x)} ${short(y + j)}h${short(w)}`;
  if (kind === 'grid')
    for (let i = step / 2; i < w; i += step) d += `M${short(x + i)} ${short(y)}v${short(h)}`;
  const width = {dots: 2.6, grid: 1}[kind] ?? 1.3;
  if (d) made.append(stroke(d, paint, width, {'stroke-linecap': kind === 'dots' ? 'round' : null}));
  return made;
}

/// Makes a circle, square, triangle, diamond, inverted triangle, or cross.
export function marker(kind, x, y, r, paint, hollow = false) {
  const style = {fill: hollow ? 'var(--card)' : paint, stroke: paint, 'stroke-width': hollow ? 1.6 : 1};
  const across = 2 * r, half = 1.2 * r, tall = 2.1 * r, wide = 2.4 * r, edge = 1.3 * r;
  const shapes = [
    null,
    `M${x - r} ${y - r}h${across}v${across}h-${across}z`,
    `M${x} ${y - half}l${half} ${tall}h-${wide}z`,
    `M${x} ${y - edge}l${edge} ${edge}l-${edge} ${edge}l-${edge} -${edge}z`,
    `M${x} ${y + half}l${half} -${tall}h-${wide}z`,
    `M${x - r} ${y - r}l${across} ${across}M${x + r} ${y - r}l-${across} ${across}`,
  ];
  if (kind % 6 === 0) return el('circle', {cx: x, cy: y, r, ...style});
  return el('path', {d: shapes[kind % 6], ...style, 'stroke-width': kind % 6 === 5 ? 2 : style['stroke-width']});
}
export const cross = (x, y, r, width) => stroke(`M${x - r} ${y}h${2 * r}M${x} ${y - r}v${2 * r}`, 'var(--fg)', width);

/// Draws the line, dash and marker of a highlighted system.
export function sample(slot, width = 30) {
  const dash = {'stroke-dasharray': dashes[slot] || null};
  return el('svg', {width, height: 12, viewBox: `0 0 ${width} 12`, 'aria-hidden': 'true'},
            stroke(`M0 6h${width}`, colour(slot), 2.2, dash), marker(slot, width / 2, 6, 3.4, colour(slot)));
}
/// Draws a legend's symbol for anything else.
export const swatch = (...shapes) =>
    el('svg', {width: 22, height: 12, viewBox: '0 0 22 12', 'aria-hidden': 'true'}, ...shapes);
/// `entries`: pairs of a symbol and its label.
export const legendOf = entries =>
    node('ul', {class: 'legend'}, ...entries.map(([icon, label]) => node('li', {}, icon, label)));

export const figure = (caption, ...content) =>
    node('figure', {}, caption ? node('figcaption', {}, caption) : null, ...content);

// Tooltips: the text of the innermost node below the pointer that has one.
export function tipped(made, ...lines) {
  made.dataset.tip = lines.filter(line => line !== '').join('\n');
  return made;
}
function placeTip(tip, x, y) {
  const above = y + 18 + tip.offsetHeight > innerHeight;
  tip.style.left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = (above ? y - tip.offsetHeight - 10 : y + 18) + 'px';
}
document.addEventListener('mousemove', event => {
  const over = event.target.closest && event.target.closest('[data-tip]'), tip = at('tip');
  tip.style.opacity = over ? 1 : 0;
  if (!over) return;
  tip.textContent = over.dataset.tip;
  placeTip(tip, event.clientX, event.clientY);
});
