// SPDX-License-Identifier: Apache-2.0
// The planner's last decision and its reason, and the latest events: plans, preemptions, ends.
import {at, node} from './dom.js';
import {age, duration, grouped, many, say} from './live_text.js';

const reasons = {
  none: 'nothing stood in the way: every layer of every request is on the device',
  'device memory': 'the device has no room for more KV',
  'host memory': 'the host has no room for more KV',
  link: 'the link is too slow to fetch what is away without a stall',
  SLO: 'the SLO allows no longer step',
  search: 'the time to search was over: the best plan found, perhaps not the best there is',
  layout: 'the layout or the rule allows no other plan',
};
/// Returns the text of the decision log.
function planText(p) {
  const more = p.offload > p.away.length ? ', …' : '';
  const away = p.away.map(([id, layers]) => `r${id}: ${many(layers, 'layer')}`).join(', ') + more;
  const streamed = many(p.streamed, 'layer\'s weights stream', 'layers\' weights stream');
  const parts = [many(p.requests, 'request'), `${p.offload} offload${p.offload ? ` (${away})` : ''}`];
  if (p.streamed) parts.push(streamed);
  parts.push(`${many(p.in_flight, 'block')} in flight`, `predicted ${duration(p.predicted_s)}`,
             `bound by ${p.binding}`);
  if (!p.proven) parts.push(`not proven best (bound ${duration(p.bound_s)})`);
  return [...parts, many(p.effort, 'node')].join(', ');
}
function costText(e, p) {
  const each = e.plans ? `, ${duration(e.planning_s / e.plans)} each; this one ${duration(p ? p.wall_s : 0)}` : '';
  const predicted = p ? `; ${duration(p.predicted_s)} predicted` : '';
  const stalled = `of it ${duration(e.last_stall_s)} stalled`;
  const step =
      `Last step: ${duration(e.last_step_s)}, ${stalled}, ${many(e.last_tokens, 'token')} computed${predicted}.`;
  return `${many(e.plans, 'plan')} so far in ${duration(e.planning_s)}${each}. ${e.steps ? step : ''}`;
}
export function showPlan(e, now) {
  const p = e.recent_plans.at(-1), place = at('plan');
  if (place.children.length !== 3) place.replaceChildren(node('p'), node('p'), node('p', {class: 'sub'}));
  const [what, why, cost] = place.children;
  const when = p && `Plan ${grouped(p.number)}, ${age(now - p.time_s)} ago, for step ${grouped(p.step)}`;
  say(what, p ? `${when}: ${planText(p)}.` : 'No plan yet.');
  say(why, p ? `Why no better one: ${reasons[p.binding] || p.binding}.` : 'The planner is asked when requests come.');
  say(cost, costText(e, p));
}

const remains = {
  nothing: 'its KV is dropped',
  host: 'its KV moves to the host',
  device: 'its KV stays until the room is needed',
  hidden: 'its KV moves to the host, except layers whose hidden states were saved there',
};
function endText(v) {
  const missed = v.missed ? `, ${many(v.missed, 'deadline')}` : '';
  const slo = v.slo === 'none' ? '' : v.slo === 'met' ? '; SLO met' : `; SLO missed${missed}`;
  return `end r${v.id}: ${many(v.generated, 'token')}${slo}`;
}
function eventText(v) {
  const made = `${many(v.generated, 'token')} made, ${grouped(v.held)} not delivered`;
  if (v.kind === 'preempt') return `preempt r${v.id}: ${made}; ${remains[v.kept] || v.kept}`;
  if (v.kind === 'resume')
    return `resume r${v.id}: preempted for ${duration(v.away_s)}, ${many(v.to_compute, 'token')} to compute`;
  return v.kind === 'end' ? endText(v) : `cancel r${v.id}: ${made}`;
}

const logs = new Map();
/// Shows a list of events, the newest first; redrawn only when there is a newer one.
function showLog(name, events, text, none) {
  if (!logs.has(name)) {
    const id = 'l' + logs.size, list = node('ol', {tabindex: 0, 'aria-labelledby': id});
    logs.set(name, {list, newest: ''});
    at('logs').append(node('div', {}, node('h3', {id}, name), list));
  }
  const log = logs.get(name), last = events.at(-1);
  const newest = last ? `${events.length} ${last.time_s} ${last.kind} ${last.id} ${last.number}` : 'none';
  if (newest === log.newest) return;
  log.newest = newest;
  const itemOf = event => node('li', {}, node('time', {}, event.time_s.toFixed(3) + ' s'), text(event));
  const items = [...events].reverse().map(itemOf);
  log.list.replaceChildren(...(items.length ? items : [node('li', {class: 'sub'}, none)]));
}
export function showLogs(e) {
  showLog('Preempted and back', e.recent_moves, eventText, 'No request was preempted.');
  showLog('Plans', e.recent_plans, p => 'plan: ' + planText(p), 'No plan yet.');
  showLog('Ended', e.recent_ends, eventText, 'No request has ended.');
}
