// SPDX-License-Identifier: Apache-2.0
// The script of the live page.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Numbers as people read them, and nodes. Text of the server becomes text nodes and attributes alone, never HTML.
inline constexpr std::string_view live_script_base = R"js(
'use strict';
const at = id => document.getElementById(id);
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
  if (a < 1e-9) return '0 s';
  if (a < 1e-3) return digits(v * 1e6) + ' µs';
  if (a < 1) return digits(v * 1e3) + ' ms';
  if (a < 600) return digits(v) + ' s';
  return a < 7200 ? digits(v / 60) + ' min' : digits(v / 3600) + ' h';
}
/// Ages, which tick: no digits that nobody can follow.
const age = v => v < 10 ? Math.max(0, v).toFixed(1) + ' s' : v < 120 ? v.toFixed(0) + ' s' : time(v);
function percent(v) {
  if (absent(v)) return '–';
  const t = (100 * v).toFixed(1);
  if (t === '100.0' && v < 1) return '>99.9 %';
  return (t === '0.0' && v > 0 ? '<0.1' : t) + ' %';
}
function bytes(v) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let u = 0;
  while (Math.abs(v) >= 1000 && u < 5) { v /= 1000; ++u; }
  return (u === 0 ? v.toFixed(0) : digits(v)) + ' ' + units[u];
}
const plain = v => absent(v) ? '–' : Math.abs(v) >= 1e6 ? digits(v / 1e6) + 'M' : Math.abs(v) >= 1e4 ? digits(v / 1e3) + 'k' : Number.isInteger(v) ? String(v) : digits(v);
const count = v => absent(v) ? '–' : v.toLocaleString('en');
const many = (n, one, more = one + 's') => `${count(n)} ${n === 1 ? one : more}`;
const share = (part, whole) => whole > 0 ? part / whole : null;

/// A node of HTML. `attributes` may have `class`, `text`, and anything that is an attribute.
function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const key in attributes)
    if (key === 'text') made.textContent = attributes[key];
    else if (attributes[key] !== null) made.setAttribute(key, attributes[key]);
  made.append(...children);
  return made;
}
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const key in attributes) if (attributes[key] !== null) made.setAttribute(key, attributes[key]);
  made.append(...children);
  return made;
}
/// What is on the page already is not written again: a reader's selection and a screen reader's place stay.
function say(where, text) { if (where.textContent !== text) where.textContent = text; }
function mark(where, name, value) { if (where.getAttribute(name) !== String(value)) where.setAttribute(name, value); }

// Layers by place -----------------------------------------------------------------------------------------------------
const places = [['d', 'on the device'], ['h', 'on the host'], ['s', 'hidden states on the host'], ['n', 'nowhere: rebuilt each step']];
const runsOf = layers => [...layers.matchAll(/(.)\1*/g)].map(run => [run[1], run.index, run[0].length]);
/// Full height: on the device; lower half: on the host; a slit with a mark above, hidden states; a line, nowhere.
function shapeOf(place, from, length) {
  if (place === 'd') return `M${from} 0h${length}v8h${-length}z`;
  if (place === 'h') return `M${from} 4.6h${length}v3.4h${-length}z`;
  return place === 's' ? `M${from} 6h${length}v2h${-length}zM${from} 4h${length}v.8h${-length}z` : `M${from} 7.2h${length}v.8h${-length}z`;
}
function drawLayers(bar, layers) {
  if (bar.dataset.layers === layers) return;
  bar.dataset.layers = layers;
  bar.setAttribute('viewBox', `0 0 ${Math.max(1, layers.length)} 8`);
  const parts = {d: '', h: '', s: '', n: ''};
  const gap = layers.length > 64 ? 0 : 0.12; // between layers, as long as one can see it
  for (const [place, from, length] of runsOf(layers))
    for (let i = 0; i < (gap ? length : 1); ++i) parts[place] += shapeOf(place, from + i + gap / 2, gap ? 1 - gap : length);
  bar.replaceChildren(...Object.keys(parts).filter(place => parts[place]).map(place => svg('path', {d: parts[place], class: place === 'n' ? 's' : place})));
  bar.setAttribute('aria-label', placesText(layers));
}
const layerBar = () => svg('svg', {class: 'bar', preserveAspectRatio: 'none', role: 'img'});
function placesText(layers) {
  if (layers === '') return 'no KV';
  return places.map(([place, name]) => [[...layers].filter(l => l === place).length, name]).filter(p => p[0]).map(p => `${p[0]} ${p[1]}`).join(', ');
}
/// Which layers: 3, 7, 11-13.
const whichLayers = (layers, place) => runsOf(layers).filter(run => run[0] === place).map(([, from, length]) => length === 1 ? `${from}` : `${from}–${from + length - 1}`).join(', ');
)js";

/// Small charts of the last minutes, and the rates that they draw.
inline constexpr std::string_view live_script_charts = R"js(
const minutes = 300; // what the charts span, in seconds
/// A state holds until the next: [from, to, value].
function held(history, values, now) {
  return history.time_s.map((t, i) => [t, i + 1 < history.time_s.length ? history.time_s[i + 1] : now, values[i]]);
}
/// Of counters, the difference over the difference of `per` (times, if it is left out). A sample that came just after
/// another is taken together with the one before: a rate of ten milliseconds jumps.
function rates(history, values, now, per = null) {
  const t = history.time_s, spans = [];
  let from = 0;
  for (let i = 1; i < t.length; ++i) {
    if (t[i] - t[from] < 0.5 * history.every_s && i + 1 < t.length) continue;
    if (t[i] - t[from] < 0.5 * history.every_s && spans.length) from = spans.pop()[3];
    const over = per ? per[i] - per[from] : t[i] - t[from];
    spans.push([t[from], t[i], over > 0 ? (values[i] - values[from]) / over : 0, from]);
    from = i;
  }
  if (t.length && now > t[t.length - 1] + history.every_s) spans.push([t[t.length - 1], now, 0, t.length - 1]); // nothing since
  return spans;
}
/// The axis' end, which is round, as is its half.
function ceiling(most, least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, least)));
  return [1, 2, 3, 4, 5, 6, 8, 10].map(m => m * power).find(m => m >= Math.max(most, least) * 0.999);
}
const tidy = text => text.replace(/(\.\d*?)0+(?!\d)/, '$1').replace(/\.(?!\d)/, '');
const dashes = ['', '6 3', '2 3'];
const charts = [];
/// A chart with a name; its lines get values when it is drawn.
function chart(name, lines) {
  const width = 380, height = 132, left = 52, right = width - 8, top = 10, bottom = height - 22;
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': name});
  const legend = node('ul', {class: 'legend'});
  const shown = lines.map((label, i) => {
    const value = node('b');
    legend.append(node('li', {}, svg('svg', {width: 22, height: 8, 'aria-hidden': 'true'}, svg('path', {d: 'M0 4h22', stroke: `var(--c${i})`, 'stroke-width': 2.4, 'stroke-dasharray': dashes[i] || null})), label + ' ', value));
    return value;
  });
  const labels = [0, 0.5, 1].map(f => svg('text', {x: left - 6, y: bottom - f * (bottom - top) + 4, 'text-anchor': 'end'}));
  const ends = [svg('text', {x: left, y: height - 6}), svg('text', {x: right, y: height - 6, 'text-anchor': 'end'})];
  const paths = lines.map((_, i) => svg('path', {fill: 'none', stroke: `var(--c${i})`, 'stroke-width': 1.8, 'stroke-linejoin': 'round', 'stroke-dasharray': dashes[i] || null}));
  const limit = svg('path', {fill: 'none', stroke: 'var(--mute)', 'stroke-width': 1, 'stroke-dasharray': '1 3'});
  for (const f of [0, 0.5, 1]) picture.append(svg('path', {class: 'g', d: `M${left} ${bottom - f * (bottom - top)}H${right}`}));
  picture.append(...labels, ...ends, limit, ...[...paths].reverse());
  at('charts').append(node('figure', {}, node('figcaption', {}, name, legend), picture));
  /// `values`: spans of each line; `now`, `begin`: times; `show`: a value as text; the axis spans at least `least`, and
  /// `bound` is a line of its own.
  return (values, begin, now, show, least, bound = null) => {
    const highest = ceiling(Math.max(bound ?? 0, ...values.flat().filter(s => s[1] >= begin).map(s => s[2])), least);
    const x = t => left + (Math.max(t, begin) - begin) / (now - begin) * (right - left);
    const y = v => bottom - Math.min(1, v / (highest || 1)) * (bottom - top);
    values.forEach((spans, i) => {
      let d = '';
      for (const [from, to, v] of spans) if (to > begin) d += `${d ? 'L' : 'M'}${x(from).toFixed(1)} ${y(v).toFixed(1)}H${x(to).toFixed(1)}`;
      mark(paths[i], 'd', d || 'M0 0');
      say(shown[i], spans.length ? show(spans[spans.length - 1][2]) : '–');
    });
    mark(limit, 'd', bound === null ? 'M0 0' : `M${left} ${y(bound).toFixed(1)}H${right}`);
    labels.forEach((label, i) => say(label, tidy(show(highest * i / 2))));
    say(ends[0], `${age(now - begin)} ago`);
    say(ends[1], 'now');
    mark(picture, 'aria-label', `${name}: ${lines.map((line, i) => `${line} ${shown[i].textContent}`).join(', ')} now`);
  };
}
)js";

/// The page: asks, and shows what it is told.
inline constexpr std::string_view live_script_page = R"js(
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const shown = {state: null, asked: 0, chosen: null, still: false, rows: new Map(), facts: new Map(), details: new Map(), logs: new Map()};

// Figures -------------------------------------------------------------------------------------------------------------
function fact(name, value, small = '') {
  let place = shown.facts.get(name);
  if (!place) {
    place = [node('span'), node('small')];
    shown.facts.set(name, place);
    at('facts').append(node('div', {}, node('dt', {text: name}), node('dd', {}, ...place)));
  }
  say(place[0], value);
  say(place[1], small);
}
function showFacts(e, s) {
  const unit = e.layer_block_bytes, blocks = n => unit > 0 ? bytes(n * unit) : many(n, 'block');
  fact('running', count(e.running), `${many(e.steps, 'step')} so far`);
  fact('waiting', count(e.waiting), 'never run yet');
  fact('preempted', count(e.preempted), `${count(e.preemptions)} times in all`);
  fact('KV on the device', percent(share(e.device_used, e.device_capacity)), `${blocks(e.device_used)} of ${blocks(e.device_capacity)}`);
  fact('KV on the host', blocks(e.host_used), `of ${blocks(e.host_capacity)}`);
  fact('stalled', percent(share(e.stall_s, e.busy_s)), `${time(e.stall_s)} of ${time(e.busy_s)} in steps`);
  fact('tokens handed over', count(e.released), `${count(e.held)} held back now`);
  fact('TBT attainment', percent(share(e.on_time, e.on_time + e.missed)), `${many(e.missed, 'deadline')} missed`);
  fact('first token in time', percent(share(e.first_in_time, e.first_in_time + e.first_late)), `${count(e.first_late)} late`);
  fact('mean time to first token', time(share(s.ttft_sum_s, s.ttft_count)), `of ${many(s.ttft_count, 'answer')}, as sent`);
  fact('ended', count(e.ended), 'by themselves');
  fact('left and refused', `${count(e.cancelled)}, ${count(s.refused)}`, e.refusal ? `last: ${e.refusal}` : 'cancelled, refused');
}

// Requests ------------------------------------------------------------------------------------------------------------
const phases = {prefill: '▸ prefill', decode: '● decode', preempted: '‖ preempted', waiting: '○ waiting'};
/// Whether the promise is kept, in a word and a reason.
function sloOf(r, now) {
  if (r.slo === 'none') return ['none', 'no SLO'];
  const late = r.slo_ttft_s !== null && (r.ttft_s === null ? now - r.arrival_s : r.ttft_s) > r.slo_ttft_s;
  if (r.slo === 'met') return ['met', '✓ met'];
  return ['missed', '✕ ' + (r.missed > 0 ? count(r.missed) + ' missed' : late ? 'first late' : 'missed')];
}
function rowOf(r) {
  const cell = name => node('span', {class: name});
  const labelled = (name, label) => { const value = node('span'); return [value, node('span', {class: 'n ' + name}, node('i', {text: label + ' '}), value)]; };
  const [made, madeCell] = labelled('made', 'made'), [given, givenCell] = labelled('given opt', 'delivered'), [heldBack, heldCell] = labelled('held opt', 'held'), [times, timesCell] = labelled('times opt', 'preempted');
  const row = {node: node('div', {class: 'row', role: 'option', tabindex: -1, id: 'r' + r.id, 'aria-selected': 'false'}), id: cell('id'), phase: cell('phase'), bar: layerBar(), said: cell('said'), made, given, held: heldBack, times, slo: cell('slo')};
  row.bar.setAttribute('aria-hidden', 'true');
  row.node.append(row.id, row.phase, node('span', {class: 'place'}, row.bar, row.said), madeCell, givenCell, heldCell, timesCell, row.slo);
  row.node.dataset.id = r.id;
  return row;
}
function showRow(row, r, now) {
  const [kind, slo] = sloOf(r, now), layers = r.layers || '';
  say(row.id, 'r' + r.id);
  say(row.phase, phases[r.phase] || r.phase);
  drawLayers(row.bar, layers);
  row.bar.toggleAttribute('hidden', layers === '');
  row.said.toggleAttribute('hidden', layers !== '');
  say(row.said, r.phase === 'waiting' ? `for ${age(now - r.arrival_s)}; ${many(r.prompt, 'token')} of prompt` : 'keeps no KV');
  say(row.made, count(r.generated));
  say(row.given, count(r.delivered));
  say(row.held, count(r.held));
  say(row.times, r.times_preempted ? count(r.times_preempted) + '×' : '0');
  say(row.slo, slo);
  mark(row.slo, 'class', 'slo ' + kind);
  mark(row.node, 'aria-label', `r${r.id}, ${r.phase}, layers ${placesText(layers)}, ${many(r.generated, 'token')} made, ${r.delivered} delivered, ${r.held} held back, preempted ${r.times_preempted} times, SLO ${slo}`);
}
const waitingRow = w => ({...w, phase: 'waiting', layers: '', generated: 0, delivered: 0, held: 0, computed: 0, times_preempted: 0});
const requestsOf = e => [...e.requests, ...e.queue.map(waitingRow)];
function showRows(e, now) {
  const list = at('rows'), all = requestsOf(e), alive = new Set(all.map(r => r.id));
  const lost = document.activeElement && document.activeElement.parentNode === list && !alive.has(Number(document.activeElement.dataset.id));
  const before = lost ? [...list.children].indexOf(document.activeElement) : -1;
  for (const [id, row] of shown.rows) if (!alive.has(id)) { row.node.remove(); shown.rows.delete(id); }
  all.forEach((r, i) => {
    let row = shown.rows.get(r.id);
    if (!row) shown.rows.set(r.id, row = rowOf(r));
    if (list.children[i] !== row.node) list.insertBefore(row.node, list.children[i] || null);
    showRow(row, r, now);
    mark(row.node, 'aria-selected', r.id === shown.chosen);
  });
  if (lost && all.length) list.children[Math.min(before, all.length - 1)].focus(); // who steps through goes on beside it
  if (!list.querySelector('[tabindex="0"]') && list.firstChild) list.firstChild.tabIndex = 0;
  at('heads').hidden = at('legend').hidden = all.length === 0;
  at('empty').hidden = all.length > 0;
  const hiddenOnes = e.waiting - e.queue.length;
  at('more').hidden = hiddenOnes <= 0;
  say(at('more'), `and ${count(hiddenOnes)} more that wait`);
}
function choose(id, focus) {
  shown.chosen = id;
  for (const [key, row] of shown.rows) mark(row.node, 'aria-selected', key === id);
  at('details').hidden = id === null;
  document.querySelector('.columns').classList.toggle('open', id !== null);
  if (id !== null && shown.state) showDetails(shown.state.engine, nowOf());
  if (focus) focus.focus();
}
function detail(name, value) {
  let place = shown.details.get(name);
  if (!place) {
    place = [node('dt', {text: name}), node('dd')];
    shown.details.set(name, place);
    at('of').append(...place);
  }
  place.forEach(p => p.hidden = value === null);
  if (value !== null) say(place[1], value);
}
const bigBar = layerBar();
function showDetails(e, now) {
  if (shown.chosen === null) return;
  const r = requestsOf(e).find(one => one.id === shown.chosen), end = e.recent_ends.find(one => one.id === shown.chosen);
  say(at('h-details'), `Request r${shown.chosen}`);
  if (!at('big').firstChild) at('big').append(bigBar);
  at('big').hidden = !r || r.layers === '';
  if (r) drawLayers(bigBar, r.layers);
  const ends = {end: 'has ended', cancel: 'its client left'};
  detail('phase', r ? r.phase + (r.phase === 'preempted' ? ` for ${age(now - r.preempted_since_s)}` : '') : end ? `${ends[end.kind]} ${age(now - end.time_s)} ago` : 'is gone');
  detail('came', r ? `${age(now - r.arrival_s)} ago` : null);
  detail('prompt', r ? many(r.prompt, 'token') : null);
  detail('computed', r ? `${count(r.computed)} of ${many(r.prompt + r.generated, 'token')}` : null);
  detail('made', r ? many(r.generated, 'token') : end ? many(end.generated, 'token') : null);
  detail('delivered', r ? many(r.delivered, 'token') : null);
  detail('held back (deposit)', r ? many(r.held, 'token') + (r.held > 0 && r.slo_tbt_s !== null ? `, for ${time(r.held * r.slo_tbt_s)}` : '') : null);
  const first = r || end, promised = v => v === null ? 'none promised' : `promised within ${time(v)}`;
  detail('first token', first ? (first.ttft_s === null ? (r ? 'not yet' : 'never') : `after ${time(first.ttft_s)}`) + (r ? `; ${promised(r.slo_ttft_s)}` : '') : null);
  detail('a token every', r ? (r.slo_tbt_s === null ? 'no promise' : time(r.slo_tbt_s)) : null);
  detail('last token', r && r.last_token_s !== null ? `${age(now - r.last_token_s)} ago` : null);
  detail('tokens on time', r && r.slo_tbt_s !== null ? count(r.on_time) : null);
  detail('deadlines missed', r && r.slo_tbt_s !== null ? count(r.missed) : end ? count(end.missed) : null);
  detail('SLO', r ? sloOf(r, now)[1] : end ? (end.slo === 'none' ? 'no SLO' : end.slo) : null);
  detail('preempted', r ? many(r.times_preempted, 'time') : null);
  for (const [place, name] of places) detail(`layers ${name}`, r && r.layers.includes(place) ? whichLayers(r.layers, place) : null);
  detail('of its oldest tokens', r && !absent(r.head) ? `${count(r.head)}; newer ones on the device` : null);
}

// What the planner decided, and what happened -------------------------------------------------------------------------
const reasons = {
  'none': 'nothing stood in the way: every layer of every request is on the device',
  'device memory': 'the device has no room for more KV',
  'host memory': 'the host has no room for more KV',
  'link': 'the link is too slow to fetch what is away without a stall',
  'SLO': 'the SLO allows no longer step',
  'search': 'the time to search was over: the best plan found, perhaps not the best there is',
  'layout': 'the layout or the rule allows no other plan',
};
const away = p => p.away.map(([id, layers]) => `r${id}: ${many(layers, 'layer')}`).join(', ') + (p.offload > p.away.length ? ', …' : '');
function planText(p) {
  return `plan: ${many(p.requests, 'request')}, ${p.offload} offload${p.offload ? ` (${away(p)})` : ''}` +
    (p.streamed ? `, ${many(p.streamed, "layer's weights stream", "layers' weights stream")}` : '') +
    `, ${many(p.in_flight, 'block')} in flight, predicted ${time(p.predicted_s)}, bound by ${p.binding}` + (p.proven ? '' : `, not proven best (bound ${time(p.bound_s)})`) + `, ${many(p.effort, 'node')}`;
}
function showPlan(e, now) {
  const p = e.recent_plans[e.recent_plans.length - 1], place = at('plan');
  if (place.children.length !== 3) place.replaceChildren(node('p'), node('p'), node('p', {class: 'sub'}));
  const [what, why, cost] = place.children;
  say(what, p ? `Plan ${count(p.number)}, ${age(now - p.time_s)} ago, for step ${count(p.step)}: ` + planText(p).slice(6) + '.' : 'No plan yet.');
  say(why, p ? `Why no better one: ${reasons[p.binding] || p.binding}.` : 'The planner is asked when requests come.');
  say(cost, `${many(e.plans, 'plan')} so far in ${time(e.planning_s)}${e.plans ? `, ${time(e.planning_s / e.plans)} each; this one ${time(p ? p.wall_s : 0)}` : ''}. ` +
    (e.steps ? `Last step: ${time(e.last_step_s)}, of it ${time(e.last_stall_s)} stalled, ${many(e.last_tokens, 'token')} computed${p ? `; ${time(p.predicted_s)} predicted` : ''}.` : ''));
}
const remains = {nothing: 'its KV is dropped', host: 'its KV moves to the host', device: 'its KV stays until the room is needed', hidden: 'its KV moves to the host, but for layers whose hidden states were saved there'};
function eventText(v) {
  if (v.kind === 'preempt') return `preempt r${v.id}: ${many(v.generated, 'token')} made, ${count(v.held)} not delivered; ${remains[v.kept] || v.kept}`;
  if (v.kind === 'resume') return `resume r${v.id}: preempted for ${time(v.away_s)}, ${many(v.to_compute, 'token')} to compute`;
  const promise = v.slo === 'none' ? '' : v.slo === 'met' ? '; SLO met' : `; SLO missed${v.missed ? `, ${many(v.missed, 'deadline')}` : ''}`;
  if (v.kind === 'end') return `end r${v.id}: ${many(v.generated, 'token')}${promise}`;
  return `cancel r${v.id}: ${many(v.generated, 'token')} made, ${count(v.held)} not delivered`;
}
function showLog(name, events, text, none) {
  let list = shown.logs.get(name);
  if (!list) {
    const id = 'l' + shown.logs.size;
    list = {node: node('ol', {tabindex: 0, 'aria-labelledby': id}), key: ''};
    shown.logs.set(name, list);
    at('logs').append(node('div', {}, node('h3', {id, text: name}), list.node));
  }
  const last = events[events.length - 1], key = last ? `${events.length} ${last.time_s} ${last.kind} ${last.id} ${last.number}` : 'none';
  if (key === list.key) return;
  list.key = key;
  list.node.replaceChildren(...(events.length ? [...events].reverse().map(v => node('li', {}, node('time', {text: v.time_s.toFixed(3) + ' s'}), text(v))) : [node('li', {class: 'sub', text: none})]));
}

// Time ----------------------------------------------------------------------------------------------------------------
const drawMemory = chart('KV; dotted: what the device has room for', ['on the device', 'on the host']), drawQueue = chart('Requests', ['running', 'waiting', 'preempted']),
      drawLink = chart('Link, layer blocks a second', ['to the device', 'to the host']), drawTokens = chart('Tokens handed over a second', ['tokens']),
      drawStall = chart('Share of steps that is stall', ['stalled']), drawMissed = chart('Deadlines missed a second', ['missed']);
function showTime(e, now) {
  const h = e.history, begin = Math.max(now - minutes, Math.min(h.time_s.length ? h.time_s[0] : now, now - 20)), unit = e.layer_block_bytes || 1;
  const rounded = v => plain(Number(v.toPrecision(3)));
  const scaled = (values, by) => values.map(v => v * by);
  drawMemory([held(h, scaled(h.device_used, unit), now), held(h, scaled(h.host_used, unit), now)], begin, now, e.layer_block_bytes ? v => bytes(Number(v.toPrecision(3))) : rounded, 1, e.device_capacity * unit || null);
  drawQueue([held(h, h.running, now), held(h, h.waiting, now), held(h, h.preempted, now)], begin, now, rounded, 2);
  drawLink([rates(h, h.to_device, now), rates(h, h.to_host, now)], begin, now, rounded, 2);
  drawTokens([rates(h, h.released, now)], begin, now, rounded, 2);
  drawStall([rates(h, h.stall_s, now, h.busy_s)], begin, now, v => digits(100 * v).replace(/\.0+$/, '') + ' %', 0.02);
  drawMissed([rates(h, h.missed, now)], begin, now, rounded, 1);
}

// The loop ------------------------------------------------------------------------------------------------------------
/// The engine's clock now: what it was, how old that was when it was told, and how long ago it was told.
const nowOf = () => shown.state.engine.now_s + shown.state.engine.age_s + (performance.now() - shown.asked) / 1e3;
function status(text, kind) {
  say(at('said'), text);
  mark(document.querySelector('.dot'), 'class', 'dot ' + kind);
}
function show() {
  const {server: s, engine: e} = shown.state;
  const now = e.now_s + e.age_s;
  say(at('model'), s.model);
  say(at('about'), s.about);
  document.title = `${e.running} running · ${s.model} · Sluice`;
  at('all').hidden = false;
  const idle = e.running + e.waiting + e.preempted === 0;
  if (e.failure) status('failed', 'bad');
  else if (s.draining) status(`draining: ${many(s.under_way, 'request')} under way`, 'bad');
  else if (!s.ready) status('loading the weights', '');
  else status(idle ? (e.steps ? 'ready, idle' : 'ready; nothing served yet') : 'serving', 'good');
  at('alert').hidden = !e.failure;
  if (e.failure) say(at('alert'), `The engine has stopped: ${e.failure}`);
  say(at('sample'), `curl -N ${new URL('v1/completions', location.href).href} -H 'Content-Type: application/json' \\\n  -d '{"model": ${JSON.stringify(s.model)}, "prompt": "It is a truth", "max_tokens": 64, "stream": true}'`);
  showFacts(e, s);
  showRows(e, now);
  showDetails(e, now);
  showPlan(e, now);
  showTime(e, now);
  showLog('Preempted and back', e.recent_moves, eventText, 'Nobody has been preempted.');
  showLog('Plans', e.recent_plans, planText, 'No plan yet.');
  showLog('Ended', e.recent_ends, eventText, 'No request has ended.');
}
async function ask() {
  if (shown.asking) return;
  shown.asking = true;
  let wait = calm.matches ? 2000 : 500; // who wants less motion gets less of it
  if (!document.hidden && !shown.still) {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 4000);
    try {
      const answer = await fetch(new URL('live/state', location.href), {signal: stop.signal, cache: 'no-store'});
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const state = await answer.json();
      if (!state.engine || !state.engine.history) throw new Error('an answer without figures');
      if (!shown.still) {
        shown.state = state;
        shown.asked = performance.now();
        shown.clock = new Date().toLocaleTimeString();
        at('all').classList.remove('old');
        show();
      }
    } catch (error) {
      wait = 2000;
      status('no answer', 'bad');
      at('alert').hidden = false;
      say(at('alert'), `The server does not answer${shown.state ? `; what stands here is from ${shown.clock}` : ''}. This page asks again every 2 s. (${error.name === 'AbortError' ? 'no answer within 4 s' : error.message})`);
      at('all').classList.add('old');
    } finally {
      clearTimeout(timer);
    }
  }
  shown.asking = false;
  shown.timer = setTimeout(ask, wait);
}

at('legend').append(...places.map(([place, name]) => {
  const icon = svg('svg', {width: 14, height: 16, viewBox: '0 0 1 8', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  icon.append(svg('path', {d: shapeOf(place, 0, 1), class: place === 'n' ? 's' : place}));
  return node('li', {}, icon, name);
}));
at('rows').addEventListener('click', event => {
  const row = event.target.closest('.row');
  if (row) pick(row);
});
function pick(row) {
  for (const other of at('rows').children) other.tabIndex = other === row ? 0 : -1;
  const id = Number(row.dataset.id);
  choose(shown.chosen === id ? null : id, row);
}
at('rows').addEventListener('keydown', event => {
  const rows = [...at('rows').children], here = rows.indexOf(document.activeElement);
  const to = {ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1, PageDown: here + 10, PageUp: here - 10}[event.key];
  if (event.key === 'Enter' || event.key === ' ') {
    if (here >= 0) pick(rows[here]);
  } else if (to !== undefined && rows.length) {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    for (const other of rows) other.tabIndex = other === row ? 0 : -1;
    row.focus();
    if (shown.chosen !== null) choose(Number(row.dataset.id), null); // open details follow
  } else return;
  event.preventDefault();
});
const closeDetails = () => choose(null, shown.rows.get(shown.chosen)?.node ?? at('rows').querySelector('[tabindex="0"]'));
at('close').addEventListener('click', closeDetails);
document.addEventListener('keydown', event => { if (event.key === 'Escape' && shown.chosen !== null) closeDetails(); });
at('hold').addEventListener('click', () => {
  shown.still = !shown.still;
  mark(at('hold'), 'aria-pressed', shown.still);
  if (shown.still) status('held still', '');
});
document.addEventListener('visibilitychange', () => { if (!document.hidden) { clearTimeout(shown.timer); ask(); } });
ask();
)js";

} // namespace sluice::detail
