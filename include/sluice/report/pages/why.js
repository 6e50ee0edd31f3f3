// SPDX-License-Identifier: Apache-2.0
// The requests' time: bars by cause, and a time line for each request.
import {axisX, linear, timeLabel, timeTicks} from './axes.js';
import {at, el, emptied, node} from './dom.js';
import {count, percent, time} from './numbers.js';
import {finish, paper, widthOf} from './page.js';
import {firstSeed, runHead, runOf, seedHead} from './save.js';
import {
  box,
  figure,
  hatched,
  labelWidth,
  legendOf,
  picture,
  rule,
  shortened,
  swatch,
  text,
  textWidth,
  tipped
} from './svg.js';
import {data, names, ranked, shown, slotOf} from './systems.js';

/// The reader's selection; null: the page's default.
const picked = {
  system: null,
  request: null
};
function pick(system, request) {
  picked.system = system;
  picked.request = request;
  whyCharts();
}
export const whyAddress = {
  name: 'why',
  say() {
    if (picked.system === null && picked.request === null) return null;
    return [picked.system ?? at('why-pick').value, ...(picked.request === null ? [] : [picked.request])].join('.');
  },
  take(said) {
    const [system, request] = (said ?? '').split('.');
    picked.system = names.includes(system) ? system : null;
    picked.request = picked.system !== null && /^[0-9]+$/.test(request ?? '') ? Number(request) : null;
  },
};

/// Each cause's paint and hatch.
const causeMarks = [
  ['var(--other)', ''],      // waits to start
  ['var(--other)', 'grid'],  // waits for memory
  ['var(--c2)', 'diagonal'], // its prompt
  ['var(--c2)', 'grid'],     // computes again
  ['var(--c0)', ''],         // decodes
  ['var(--c4)', ''],         // decodes together with others' prompts
  ['var(--c4)', 'dots'],     // held up or crowded out
  ['var(--c1)', 'grid'],     // stalls
  ['var(--c3)', 'back'],     // paused
  ['var(--c3)', 'grid'],     // dropped
  ['var(--mute)', 'lines'],  // planner, or another's turn
  ['var(--c5)', 'diagonal'], // refused
];
function causeBox(cause, x, y, w, h) {
  const [paint, hatch] = causeMarks[cause];
  return w < 3 ? box(x, y, Math.max(0.4, w), h, paint) : hatched(hatch, x, y, w, h, paint); // no room for a hatch
}
const sumOf = numbers => numbers.reduce((a, b) => a + b, 0);

function causeBars(host, key, title, show) {
  const rows = ranked(shown()).filter(s => s.time && !s.same), sums = rows.map(s => sumOf(s.time[key]));
  const width = widthOf(host), label = Math.min(230, labelWidth(rows.map(s => s.name)));
  const rowHeight = paper ? 14 : 18, top = 18, height = top + rows.length * rowHeight + 20;
  const room = 8 + Math.max(...sums.map(v => textWidth(show(v)))), x = linear(0, 1, label, width - room);
  const told = (s, r) => data.causes.map((c, i) => `${c} ${percent(s.time[key][i] / (sums[r] || 1))} %`).join(', ');
  const svg = picture(width, height, title, rows.map((s, r) => `${s.name}: ${told(s, r)}`).join('; '));
  svg.append(text(label, 11, title, 'b'));
  axisX(svg, [0, 0.25, 0.5, 0.75, 1], x, v => `${100 * v} %`, top, height - 20);
  rows.forEach((s, r) => {
    const y = top + r * rowHeight, line = el('g');
    if (s.control) svg.append(rule(0, y, width, y, 'a'));
    let done = 0;
    s.time[key].forEach((v, cause) => {
      if (!(v > 0) || !(sums[r] > 0)) return;
      const from = x(done / sums[r]), to = x((done + v) / sums[r]);
      line.append(tipped(el('g', {}, causeBox(cause, from, y + 2, to - from, rowHeight - 4)), s.name,
                         `${data.causes[cause]}: ${percent(v / sums[r])} % (${show(v)})`));
      done += v;
    });
    const style = s.control ? 'm' : slotOf(s.name) >= 0 ? 'b' : '', base = y + rowHeight / 2 + 4;
    line.append(text(label - 8, base, shortened(s.name, label - 10), style, 'end'),
                text(width, base, show(sums[r]), 'num m', 'end'));
    line.style.cursor = 'pointer';
    line.addEventListener('click', () => pick(s.name, null));
    svg.append(line);
  });
  host.append(figure('', svg));
}

/// Draws a request's spells on its line; the stalled part of each is below it.
function spellBoxes(request, x, y, rowHeight) {
  return request.spells.map(([cause, begin, end, stalled]) => {
    const from = x(begin), width = x(end) - x(begin);
    const spell = tipped(el('g', {}, causeBox(cause, from, y + 3, width, rowHeight - 6)),
                         `request ${request.id}: ${data.causes[cause]}`,
                         `${time(begin)} to ${time(end)}${stalled > 0 ? `, of which stalled ${time(stalled)}` : ''}`);
    if (stalled > 0 && end > begin)
      spell.append(box(from, y + rowHeight - 3, width * Math.min(1, stalled / (end - begin)), 2.5, 'var(--c1)'));
    return spell;
  });
}
function requestLines(host, s) {
  const rows = s.time.requests, width = widthOf(host), label = 64, rowHeight = paper ? 13 : 16, top = 16;
  const begins = rows.flatMap(q => q.spells.slice(0, 1).map(p => p[1]));
  const ends = rows.flatMap(q => q.spells.slice(-1).map(p => p[2]));
  if (!begins.length) return;
  const first = Math.min(...begins), last = Math.max(...ends), x = linear(first, last, label, width - 64);
  const height = top + rows.length * rowHeight + 22;
  const svg = picture(width, height, `Requests of ${s.name} over time`, rows.map(q => q.why).join(' '));
  axisX(svg, timeTicks(last, 8).filter(v => v >= first), x, timeLabel(last), top, height - 22);
  svg.append(text(label - 8, 11, 'request', 'm s', 'end'), text(width, 11, 'missed', 'm s', 'end'));
  rows.forEach((q, r) => {
    const y = top + r * rowHeight, base = y + rowHeight / 2 + 4, isPicked = q.id === (picked.request ?? s.time.asked);
    const line =
        el('g', {tabindex: 0, role: 'button', 'aria-pressed': isPicked, 'aria-label': `request ${q.id}`},
           box(0, y, width, rowHeight, isPicked ? 'var(--soft)' : 'transparent'), ...spellBoxes(q, x, y, rowHeight),
           text(label - 8, base, String(q.id), isPicked ? 'num b' : 'num', 'end'),
           text(width, base, count(q.missed), 'num m', 'end'));
    line.style.cursor = 'pointer';
    line.addEventListener('click', () => pick(picked.system, q.id));
    line.addEventListener('keydown', event => {
      if (event.key === 'Enter') pick(picked.system, q.id);
    });
    svg.append(line);
  });
  host.append(figure('', svg));
}
function requestCount({requests, asked, seen}) {
  const isAsked = asked >= 0 && requests[0].id === asked, drawn = requests.length;
  return (isAsked ? `Request ${asked}, which was asked for, and those` : 'The requests') +
         ' that missed most deadlines, each a line of time' +
         (seen > drawn ? `: ${count(drawn)} of ${count(seen)}` : '') + '.';
}
export function whyCharts() {
  const able = ranked(shown()).filter(s => s.time);
  at('why').hidden = !able.length;
  if (!able.length) return;
  for (const id of ['why-bars', 'why-lines', 'why-text']) emptied(id);
  emptied('why-legend').append(legendOf(data.causes.map((cause, i) => [swatch(causeBox(i, 0.5, 1, 21, 10)), cause])));
  const hosts = ['spent', 'missed'].map(() => at('why-bars').appendChild(node('div'))); // create both first, so that
                                                                                        // each has its final width
  causeBars(hosts[0], 'spent', 'time of all requests', time);
  causeBars(hosts[1], 'missed', 'deadlines missed', count);
  const lined = able.filter(s => s.time.requests.length);
  const s = lined.find(one => one.name === picked.system) || lined.find(one => slotOf(one.name) >= 0) || lined[0];
  emptied('why-pick').append(...lined.map(({name}) => node('option', {value: name}, name)));
  if (!s) return;
  at('why-pick').value = s.name;
  requestLines(at('why-lines'), s);
  at('why-count').textContent = requestCount(s.time);
  const request = s.time.requests.find(q => q.id === (picked.request ?? s.time.asked)) || s.time.requests[0];
  if (request) at('why-text').append(`${s.name}: ${request.why}`);
  finish();
}
export const letPickWhy = () => at('why-pick').addEventListener('change', event => pick(event.target.value, null));

export const whyBarsCsv = (drawn, i) => {
  const [key, name] = [['spent', 'spent_s'], ['missed', 'deadlines_missed']][i];
  const rows = ranked(shown()).filter(s => s.time);
  return [
    [...runHead, 'cause', name],
    ...rows.flatMap(s => data.causes.map((cause, c) => [...runOf(s), cause, s.time[key][c]]))
  ];
};
export function whyLinesCsv() {
  const s = shown().find(s => s.name === at('why-pick').value);
  const rowsOf = q => q.spells.map(([c, ...times]) => [...firstSeed(s), q.id, data.causes[c], ...times]);
  return [[...seedHead, 'request', 'cause', 'start_s', 'end_s', 'stall_s'], ...s.time.requests.flatMap(rowsOf)];
}
