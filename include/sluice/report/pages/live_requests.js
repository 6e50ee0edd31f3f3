// SPDX-License-Identifier: Apache-2.0
// The list of requests, and the details of the selected one.
import {at, node} from './dom.js';
import {drawLayers, layerBar, placeEntries, places, placesText, whichLayers} from './live_layers.js';
import {age, duration, grouped, many, mark, say} from './live_text.js';
import {absent} from './numbers.js';

const rows = new Map(), details = new Map(); // the nodes, by a request's number and by a detail's name
let chosenId = null;
/// The engine's last figures, its clock then, and the browser's.
let lastShown = null;

const phases = {
  prefill: '▸ prefill',
  decode: '● decode',
  preempted: '‖ preempted',
  waiting: '○ waiting'
};
/// Returns whether the request's SLO is met, in a word and a reason.
function sloOf(r, now) {
  if (r.slo === 'none') return ['none', 'no SLO'];
  if (r.slo === 'met') return ['met', '✓ met'];
  const first = r.ttft_s === null ? now - r.arrival_s : r.ttft_s;
  const isLate = r.slo_ttft_s !== null && first > r.slo_ttft_s;
  return ['missed', '✕ ' + (r.missed > 0 ? grouped(r.missed) + ' missed' : isLate ? 'first late' : 'missed')];
}

/// Makes a row's nodes. A number's label is visible on narrow screens, which have no column heads.
function newRow(r) {
  const cell = name => node('span', {class: name});
  const numbers = {
    made: ['made', 'made'],
    given: ['given opt', 'delivered'],
    held: ['held opt', 'held'],
    times: ['times opt', 'preempted']
  };
  const row = {id: cell('id'), phase: cell('phase'), bar: layerBar(), said: cell('said'), slo: cell('slo')};
  const numberCells = Object.entries(numbers).map(([key, [name, label]]) => {
    row[key] = node('span');
    return node('span', {class: 'n ' + name}, node('i', {}, label + ' '), row[key]);
  });
  row.bar.setAttribute('aria-hidden', 'true');
  row.node = node('div', {class: 'row', role: 'option', tabindex: -1, id: 'r' + r.id, 'aria-selected': 'false'}, row.id,
                  row.phase, node('span', {class: 'place'}, row.bar, row.said), ...numberCells, row.slo);
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
  const isWaiting = r.phase === 'waiting';
  say(row.said, isWaiting ? `for ${age(now - r.arrival_s)}; ${many(r.prompt, 'token')} of prompt` : 'keeps no KV');
  say(row.made, grouped(r.generated));
  say(row.given, grouped(r.delivered));
  say(row.held, grouped(r.held));
  say(row.times, r.times_preempted ? grouped(r.times_preempted) + '×' : '0');
  say(row.slo, slo);
  mark(row.slo, 'class', 'slo ' + kind);
  const told = [
    `r${r.id}`, r.phase, `layers ${placesText(layers)}`, `${many(r.generated, 'token')} made`,
    `${r.delivered} delivered`, `${r.held} held back`, `preempted ${r.times_preempted} times`, `SLO ${slo}`
  ];
  mark(row.node, 'aria-label', told.join(', '));
  mark(row.node, 'aria-selected', r.id === chosenId);
}
const unstarted = {
  phase: 'waiting',
  layers: '',
  generated: 0,
  delivered: 0,
  held: 0,
  computed: 0,
  times_preempted: 0
};
const requestsOf = engine => [...engine.requests, ...engine.queue.map(waiting => ({...waiting, ...unstarted}))];

export function showRequests(engine, now) {
  lastShown = {engine, now, asked: performance.now()};
  const list = at('rows'), all = requestsOf(engine), alive = new Set(all.map(r => r.id));
  const focused = document.activeElement, hasFocus = focused && focused.parentNode === list;
  const isLost = hasFocus && !alive.has(Number(focused.dataset.id));
  const before = isLost ? [...list.children].indexOf(focused) : -1;
  for (const [id, row] of rows) {
    if (alive.has(id)) continue;
    row.node.remove();
    rows.delete(id);
  }
  all.forEach((r, i) => {
    if (!rows.has(r.id)) rows.set(r.id, newRow(r));
    const row = rows.get(r.id);
    if (list.children[i] !== row.node) list.insertBefore(row.node, list.children[i] || null);
    showRow(row, r, now);
  });
  if (isLost && all.length) list.children[Math.min(before, all.length - 1)].focus(); // the row that took its place
  if (!list.querySelector('[tabindex="0"]') && list.firstChild) list.firstChild.tabIndex = 0;
  at('heads').hidden = at('legend').hidden = all.length === 0;
  if (all.some(r => r.layers?.includes('k'))) at('legend').querySelector('[data-place]').hidden = false;
  at('empty').hidden = all.length > 0;
  const unlisted = engine.waiting - engine.queue.length;
  at('more').hidden = unlisted <= 0;
  say(at('more'), `and ${grouped(unlisted)} more that wait`);
  showDetails(engine, now);
}

// Details
/// `value` null: the detail is hidden.
function showDetail(name, value) {
  if (!details.has(name)) {
    details.set(name, [node('dt', {}, name), node('dd')]);
    at('of').append(...details.get(name));
  }
  const [head, text] = details.get(name);
  head.hidden = text.hidden = value === null;
  if (value !== null) say(text, value);
}
const detailBar = layerBar();
function showLiving(r, now) {
  const known = value => value === null ? 'no SLO' : `SLO: within ${duration(value)}`;
  const holds = r.held > 0 && r.slo_tbt_s !== null ? `, for ${duration(r.held * r.slo_tbt_s)}` : '';
  showDetail('phase', r.phase + (r.phase === 'preempted' ? ` for ${age(now - r.preempted_since_s)}` : ''));
  showDetail('came', `${age(now - r.arrival_s)} ago`);
  showDetail('prompt', many(r.prompt, 'token'));
  showDetail('computed', `${grouped(r.computed)} of ${many(r.prompt + r.generated, 'token')}`);
  showDetail('made', many(r.generated, 'token'));
  showDetail('delivered', many(r.delivered, 'token'));
  showDetail('held back (deposit)', many(r.held, 'token') + holds);
  showDetail('first token', `${r.ttft_s === null ? 'not yet' : `after ${duration(r.ttft_s)}`}; ${known(r.slo_ttft_s)}`);
  showDetail('a token every', r.slo_tbt_s === null ? 'no SLO' : duration(r.slo_tbt_s));
  showDetail('last token', r.last_token_s === null ? null : `${age(now - r.last_token_s)} ago`);
  showDetail('tokens on time', r.slo_tbt_s === null ? null : grouped(r.on_time));
  showDetail('deadlines missed', r.slo_tbt_s === null ? null : grouped(r.missed));
  showDetail('SLO', sloOf(r, now)[1]);
  showDetail('preempted', many(r.times_preempted, 'time'));
  for (const [place, name] of places)
    showDetail(`layers ${name}`, r.layers.includes(place) ? whichLayers(r.layers, place) : null);
  showDetail('of its oldest tokens', absent(r.head) ? null : `${grouped(r.head)}; newer ones on the device`);
}
const endTexts = {
  end: 'has ended',
  cancel: 'its client left'
};
/// Shows a request that has ended. `end`: how it ended, if known.
function showEnded(end, now) {
  for (const name of details.keys()) showDetail(name, null);
  showDetail('phase', end ? `${endTexts[end.kind]} ${age(now - end.time_s)} ago` : 'is gone');
  if (!end) return;
  showDetail('made', many(end.generated, 'token'));
  showDetail('first token', end.ttft_s === null ? 'never' : `after ${duration(end.ttft_s)}`);
  showDetail('deadlines missed', grouped(end.missed));
  showDetail('SLO', end.slo === 'none' ? 'no SLO' : end.slo);
}
function showDetails(engine, now) {
  if (chosenId === null) return;
  const r = requestsOf(engine).find(one => one.id === chosenId);
  say(at('h-details'), `Request r${chosenId}`);
  if (!at('big').firstChild) at('big').append(detailBar);
  at('big').hidden = !r || r.layers === '';
  if (r) drawLayers(detailBar, r.layers);
  if (r)
    showLiving(r, now);
  else
    showEnded(engine.recent_ends.find(one => one.id === chosenId), now);
}

// Choosing, with a pointer or a keyboard
function choose(id, focus) {
  chosenId = id;
  for (const [key, row] of rows) mark(row.node, 'aria-selected', key === id);
  at('details').hidden = id === null;
  document.querySelector('.columns').classList.toggle('open', id !== null);
  if (id !== null && lastShown)
    showDetails(lastShown.engine, lastShown.now + (performance.now() - lastShown.asked) / 1e3);
  if (focus) focus.focus();
}
function reach(row) {
  for (const other of at('rows').children) other.tabIndex = other === row ? 0 : -1;
}
function toggle(row) {
  const id = Number(row.dataset.id);
  reach(row);
  choose(chosenId === id ? null : id, row);
}
function closeDetails() { choose(null, rows.get(chosenId)?.node ?? at('rows').querySelector('[tabindex="0"]')); }
function pressed(event) {
  const list = [...at('rows').children], here = list.indexOf(document.activeElement);
  const moves =
      {ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: list.length - 1, PageDown: here + 10, PageUp: here - 10};
  const to = moves[event.key];
  if (event.key === 'Enter' || event.key === ' ') {
    if (here >= 0) toggle(list[here]);
  } else if (to !== undefined && list.length) {
    const row = list[Math.max(0, Math.min(list.length - 1, to))];
    reach(row);
    row.focus();
    if (chosenId !== null) choose(Number(row.dataset.id), null); // open details follow
  } else
    return;
  event.preventDefault();
}
export function openRequests() {
  at('legend').append(...placeEntries());
  at('rows').addEventListener('click', event => {
    const row = event.target.closest('.row');
    if (row) toggle(row);
  });
  at('rows').addEventListener('keydown', pressed);
  at('close').addEventListener('click', closeDetails);
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && chosenId !== null) closeDetails();
  });
}
