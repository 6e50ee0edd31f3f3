// SPDX-License-Identifier: Apache-2.0
// Several seeds in a picture: intervals, and a ring for each seed. With one seed there is nothing to draw.
import {el} from './dom.js';
import {absent} from './numbers.js';
import {stroke, swatch} from './svg.js';
import {data, isKnown, manySeeds, systems} from './systems.js';

/// " ± 8.9" after a mean; empty without an interval or width.
export function spread(s, key, show) {
  const interval = s.interval?.[key];
  if (!isKnown(interval) || interval[0] === interval[1]) return '';
  return ` ± ${show((interval[1] - interval[0]) / 2)}`;
}
export const intervalText = () => `95 % interval of the mean over ${data.seeds.length} seeds`;

const ring = (x, y, r, width) =>
    el('circle', {cx: x, cy: y, r, fill: 'var(--card)', stroke: 'var(--fg)', 'stroke-width': width});
/// Draws a 95 % interval as a bar with ends, and a ring for each seed on it. On white, since the area below is hatched.
export function seedMarks(values, interval, x, y, height) {
  const marks = el('g');
  if (isKnown(interval)) {
    const [from, to] = interval.map(v => x(v).toFixed(1)), h = Math.max(2.5, height / 2 - 2.5);
    const d = `M${from} ${y}H${to}M${from} ${y - h}v${2 * h}M${to} ${y - h}v${2 * h}`;
    marks.append(stroke(d, 'var(--card)', 3.4), stroke(d, 'var(--fg)', 1.4));
  }
  for (const v of values.filter(v => !absent(v))) marks.append(ring(x(v).toFixed(1), y, 1.9, 0.9));
  return marks;
}
const someInterval = () => systems.some(s => Object.values(s.interval ?? {}).some(isKnown));
export const seedEntries = () => !manySeeds ? [] : [
  ...someInterval() ? [[swatch(stroke('M2 6H20M2 2v8M20 2v8', 'var(--fg)', 1.4)), intervalText()]] : [],
  [swatch(ring(11, 6, 2.4, 1)), 'one seed'],
];
