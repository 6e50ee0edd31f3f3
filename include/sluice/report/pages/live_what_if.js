// SPDX-License-Identifier: Apache-2.0
// The section "what if": how other systems would have served the last requests.
import {at, node} from './dom.js';
import {age, duration, grouped, many, say} from './live_text.js';
import {percentText} from './numbers.js';

function whatIfRow(name, how, r, isOwn) {
  const row = node('tr', {class: isOwn ? 'own' : null}, node('th', {scope: 'row'}, name, node('small', {}, how)));
  if (r.state && r.state !== 'done') {
    row.append(node('td', {class: 'why', colspan: 3}, r.why));
    return row;
  }
  const bar = node('i');
  bar.style.width = `${100 * (r.slo_attainment ?? 0)}%`;
  row.append(node('td', {}, percentText(r.slo_attainment), node('span', {class: 'meter', 'aria-hidden': 'true'}, bar)),
             node('td', {}, percentText(r.ttft_attainment)), node('td', {}, percentText(r.tbt_attainment)));
  return row;
}
function notesOf(w) {
  const notes = [], spent = w.simulated.reduce((sum, r) => sum + r.processor_s, 0);
  if (w.age_s !== null)
    notes.push(`${many(w.served.requests, 'request')} over ${duration(w.span_s)}, replayed ${age(w.age_s)} ago in ` +
               `${duration(spent)} of processor time`);
  if (w.left_out) notes.push(`${grouped(w.left_out)} left out: their clients left before anybody could say`);
  if (w.crowded) notes.push(`more ended than the ${grouped(w.most_requests)} that are kept`);
  if (w.computing && w.age_s !== null) notes.push('a newer answer is being computed');
  return notes.join('; ');
}
function showWhatIf(w) {
  at('whatif').hidden = false;
  say(at('if-said'), w.said);
  at('if-table').hidden = !w.simulated.length;
  const simulated = w.simulated.map((r, i) => whatIfRow(r.system, i ? 'simulated' : 'simulated, to compare', r, !i));
  if (simulated.length) at('if-rows').replaceChildren(whatIfRow(w.system, 'as served', w.served, true), ...simulated);
  say(at('if-note'), notesOf(w));
}
/// Asks once a minute, because each question may cost the server a replay on its spare thread, and sooner while the
/// server computes. A server that replays nothing answers 404, and the section stays hidden.
export async function askWhatIf(isWatched) {
  let wait = 5000;
  if (isWatched()) {
    wait = 60000;
    try {
      const answer = await fetch(new URL('whatif', location.href), {cache: 'no-store'});
      if (answer.status === 404) return;
      if (answer.ok) {
        const w = await answer.json();
        showWhatIf(w);
        wait = w.computing ? 2000 : w.age_s === null ? 10000 : wait;
      }
    } catch { // other parts of the page report that the server does not answer
    }
  }
  setTimeout(askWhatIf, wait, isWatched);
}
