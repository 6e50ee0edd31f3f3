// SPDX-License-Identifier: Apache-2.0
// Scales and axes.
import {tidy, time} from './numbers.js';
import {rule, text, textWidth} from './svg.js';

/// Maps the numbers d0 to d1 onto the places r0 to r1.
export const linear = (d0, d1, r0, r1) => v => r0 + (v - d0) / (d1 - d0 || 1) * (r1 - r0);
export const logarithmic = (d0, d1, r0, r1) => {
  const a = Math.log(d0), b = Math.log(d1);
  return v => r0 + (Math.log(Math.max(v, d0)) - a) / (b - a || 1) * (r1 - r0);
};

/// Returns the multiples of a step from one number to another.
export function multiples(step, from, end) {
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9) || 0; i * step <= end; ++i) ticks.push(i * step);
  return ticks;
}
export function linearTicks(max, wanted = 4) {
  if (!(max > 0)) return [0];
  const raw = max / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  return multiples(step, 0, max * 1.0001);
}
const timeUnit = max => max >= 7200 ? {s: 3600, name: ' h'} : max >= 600 ? {s: 60, name: ' min'} : {s: 1};
/// Returns ticks at whole minutes or hours if times are that long.
export function timeTicks(max, wanted) {
  const unit = timeUnit(max).s;
  return linearTicks(max / unit, wanted).map(t => t * unit);
}
/// Labels a tick in seconds, or less. So are logarithmic axes: powers of ten seconds are not round in minutes.
export const seconds = v => v < 1 ? tidy(time)(v) : Number(v.toPrecision(8)) + ' s';
/// Labels ticks over such a stretch in one unit: 5 min and 10 min, not 300 s and 10 min.
export function timeLabel(stretch) {
  const {s, name} = timeUnit(stretch);
  return name ? v => v === 0 ? '0' : Number((v / s).toPrecision(8)) + name : seconds;
}

const labelRoom = 46; // width of a logarithmic axis's label
/// Powers of ten, with 2 and 5 or 3 between them if their labels do not touch.
export function logTicks(min, max, room) {
  const ticksOf = marks => {
    const ticks = [];
    for (let p = Math.floor(Math.log10(min)); p <= Math.ceil(Math.log10(max)); ++p)
      ticks.push(...marks.map(m => m * 10 ** p).filter(t => t >= min * 0.999 && t <= max * 1.001));
    return ticks;
  };
  const fitting = [[1, 2, 5], [1, 3], [1]].map(ticksOf).find(ticks => ticks.length * labelRoom <= room);
  if (fitting) return fitting;
  const tens = ticksOf([1]), every = Math.ceil(tens.length * labelRoom / room);
  return tens.filter((_, i) => i % every === 0);
}

/// Draws a vertical grid with labels below it, except those that would touch the previous one.
export function axisX(svg, ticks, place, label, top, bottom) {
  let last = -1e9;
  for (const t of ticks) {
    const x = place(t), content = label(t), half = textWidth(content) / 2;
    svg.append(rule(x, top, x, bottom));
    if (x - half < last + 8) continue;
    svg.append(text(x, bottom + 15, content, 'm', 'middle'));
    last = x + half;
  }
}
export function axisY(svg, ticks, place, label, left, right) {
  for (const t of ticks)
    svg.append(rule(left, place(t), right, place(t)), text(left - 7, place(t) + 4, label(t), 'm', 'end'));
}
/// Draws the axis's name at its right end, below a picture.
export const axisName = (name, x, y) => text(x, y, name, 'm s', 'end');
