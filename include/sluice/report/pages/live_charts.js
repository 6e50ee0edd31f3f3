// SPDX-License-Identifier: Apache-2.0
// Small charts of the last minutes, and their rates.
import {at, el, node} from './dom.js';
import {bytes, digits, tidy} from './numbers.js';
import {age, mark, say, short} from './live_text.js';

const shownSeconds = 300;
/// A state lasts until the next one: spans [from, to, value].
const statesOf = (history, values, now) =>
    history.time_s.map((t, i) => [t, i + 1 < history.time_s.length ? history.time_s[i + 1] : now, values[i]]);
/// Returns a counter's difference divided by that of `per` (default: the time). A sample that closely follows another
/// is merged with it, since a rate over ten milliseconds fluctuates.
function ratesOf(history, values, now, per = history.time_s) {
  const t = history.time_s, close = 0.5 * history.every_s, spans = [];
  let from = 0;
  for (let i = 1; i < t.length; ++i) {
    if (t[i] - t[from] < close && i + 1 < t.length) continue;
    if (t[i] - t[from] < close && spans.length) from = spans.pop()[3];
    const over = per[i] - per[from];
    spans.push([t[from], t[i], over > 0 ? (values[i] - values[from]) / over : 0, from]);
    from = i;
  }
  if (t.length && now > t.at(-1) + history.every_s)
    spans.push([t.at(-1), now, 0, t.length - 1]); // no change since
                                                  // then
  return spans;
}
/// Returns the end of an axis: a round number whose half is round too.
function ceiling(most, least) {
  const top = Math.max(most, least), power = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 3, 4, 5, 6, 8, 10].map(m => m * power).find(m => m >= top * 0.999);
}

const chartDashes = ['', '6 3', '2 3'];
const lineStyle = (i, width) => ({
  fill: 'none',
  stroke: `var(--c${i})`,
  'stroke-width': width,
  'stroke-dasharray': chartDashes[i] || null,
});
const frame = {
  width: 380,
  height: 132,
  left: 52,
  right: 372,
  top: 10,
  bottom: 110
};
/// Adds a chart to the page; returns the function that draws it. `show`: converts a value to text.
function chart(name, lines, show, least) {
  const {width, height, left, right, top, bottom} = frame;
  const values = lines.map(() => node('b'));
  const entryOf = (line, i) => {
    const sign =
        el('svg', {width: 22, height: 8, 'aria-hidden': 'true'}, el('path', {d: 'M0 4h22', ...lineStyle(i, 2.4)}));
    return node('li', {}, sign, line + ' ', values[i]);
  };
  const legend = node('ul', {class: 'legend'}, ...lines.map(entryOf));
  const levels = [0, 0.5, 1].map(f => bottom - f * (bottom - top));
  const labels = levels.map(y => el('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}));
  const since = el('text', {x: left, y: height - 6});
  const now = el('text', {x: right, y: height - 6, 'text-anchor': 'end'}, 'now');
  const paths = lines.map((_, i) => el('path', {...lineStyle(i, 1.8), 'stroke-linejoin': 'round'}));
  const limit = el('path', {fill: 'none', stroke: 'var(--mute)', 'stroke-width': 1, 'stroke-dasharray': '1 3'});
  const picture = el('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': name},
                     ...levels.map(y => el('path', {class: 'g', d: `M${left} ${y}H${right}`})), ...labels, since, now,
                     limit, ...[...paths].reverse());
  at('charts').append(node('figure', {}, node('figcaption', {}, name, legend), picture));

  /// `spans` of each line; `begin`, `end`: times; `bound`: a separate line, or null.
  return (spans, begin, end, bound = null) => {
    const drawn = spans.flat().filter(s => s[1] >= begin).map(s => s[2]);
    const highest = ceiling(Math.max(bound ?? 0, ...drawn), least);
    const x = t => (left + (Math.max(t, begin) - begin) / (end - begin) * (right - left)).toFixed(1);
    const y = v => (bottom - Math.min(1, v / (highest || 1)) * (bottom - top)).toFixed(1);
    spans.forEach((own, i) => {
      const steps = own.filter(s => s[1] > begin).map(([from, to, v]) => `${x(from)} ${y(v)}H${x(to)}`);
      mark(paths[i], 'd', 'M' + (steps.join('L') || '0 0'));
      say(values[i], own.length ? show(own.at(-1)[2]) : '–');
    });
    mark(limit, 'd', bound === null ? 'M0 0' : `M${left} ${y(bound)}H${right}`);
    labels.forEach((label, i) => say(label, tidy(show)(highest * i / 2)));
    say(since, `${age(end - begin)} ago`);
    mark(picture, 'aria-label',
         `${name}: ${lines.map((line, i) => `${line} ${values[i].textContent}`).join(', ')} now`);
  };
}

const rounded = v => Number(v.toPrecision(3));
const number = v => short(rounded(v));
let blockBytes = 0; // bytes of one layer's block; 0: unknown, so memory is shown in blocks
const memory = v => blockBytes ? bytes(rounded(v)) : number(v);
const percentOf = v => digits(100 * v).replace(/\.0+$/, '') + ' %';
const drawMemory = chart('KV; dotted: what the device has room for', ['on the device', 'on the host'], memory, 1);
const drawQueue = chart('Requests', ['running', 'waiting', 'preempted'], number, 2);
const drawLink = chart('Link, layer blocks a second', ['to the device', 'to the host'], number, 2);
const drawTokens = chart('Tokens handed over a second', ['tokens'], number, 2);
const drawStall = chart('Share of steps that is stall', ['stalled'], percentOf, 0.02);
const drawMissed = chart('Deadlines missed a second', ['missed'], number, 1);

export function showTime(engine, now) {
  const h = engine.history, first = h.time_s.length ? h.time_s[0] : now;
  const begin = Math.max(now - shownSeconds, Math.min(first, now - 20));
  blockBytes = engine.layer_block_bytes;
  const unit = blockBytes || 1, states = values => statesOf(h, values, now), rates = values => ratesOf(h, values, now);
  const scaled = values => values.map(v => v * unit);
  drawMemory([states(scaled(h.device_used)), states(scaled(h.host_used))], begin, now,
             engine.device_capacity * unit || null);
  drawQueue([states(h.running), states(h.waiting), states(h.preempted)], begin, now);
  drawLink([rates(h.to_device), rates(h.to_host)], begin, now);
  drawTokens([rates(h.released)], begin, now);
  drawStall([ratesOf(h, h.stall_s, now, h.busy_s)], begin, now);
  drawMissed([rates(h.missed)], begin, now);
}
