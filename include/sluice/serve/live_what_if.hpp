// SPDX-License-Identifier: Apache-2.0
// The live page's section "what if": what other systems would have made of the last requests.
#pragma once

#include <string_view>

namespace sluice::detail {

inline constexpr std::string_view live_what_if_style = R"css(
#whatif table{border-collapse:collapse;width:100%;max-width:760px;margin-top:8px;font-variant-numeric:tabular-nums}
#whatif th,#whatif td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);text-align:right;font-weight:400;vertical-align:top} #whatif tbody td{white-space:nowrap}
#whatif th:first-child{text-align:left;overflow-wrap:anywhere} #whatif thead th{color:var(--mute);font-size:13px}
#whatif tbody th small{display:block;color:var(--mute);font-weight:400} #whatif .own th{font-weight:600} #whatif tbody td.why{text-align:left;white-space:normal;color:var(--mute)}
#whatif .meter{display:block;height:4px;margin-top:3px;background:var(--line)} #whatif .meter i{display:block;height:4px;background:var(--c0)}
@media(max-width:760px){#whatif th,#whatif td{padding-right:6px;font-size:14px} #whatif th:first-child{min-width:88px} #whatif thead th{font-size:12px}}
)css";

inline constexpr std::string_view live_what_if_section = R"html(
<section aria-labelledby="h-if" id="whatif" hidden><h2 id="h-if">What if another system had served the last ten minutes</h2>
<p id="if-said"></p>
<table id="if-table" hidden><thead><tr><th scope="col">system</th><th scope="col">requests that met their SLO</th><th scope="col">first tokens in time</th><th scope="col">tokens in time</th></tr></thead><tbody id="if-rows"></tbody></table>
<p class="sub" id="if-note"></p></section>
)html";

/// Asks once a minute, since each question may cost the server a replay on its spare thread, and soon again while the
/// server computes. A server that replays nothing answers 404, and the section stays away.
inline constexpr std::string_view live_what_if_script = R"js(
function whatIfRow(name, how, r, own) {
  const row = node('tr', {class: own ? 'own' : null}, node('th', {scope: 'row'}, name, node('small', {text: how})));
  if (r.state && r.state !== 'done') {
    row.append(node('td', {class: 'why', colspan: 3, text: r.why}));
    return row;
  }
  const meter = node('span', {class: 'meter', 'aria-hidden': 'true'}, node('i'));
  meter.firstChild.style.width = `${100 * (r.slo_attainment ?? 0)}%`;
  row.append(node('td', {}, percent(r.slo_attainment), meter), node('td', {text: percent(r.ttft_attainment)}), node('td', {text: percent(r.tbt_attainment)}));
  return row;
}
function showWhatIf(w) {
  at('whatif').hidden = false;
  say(at('if-said'), w.said);
  at('if-table').hidden = !w.simulated.length;
  if (w.simulated.length)
    at('if-rows').replaceChildren(whatIfRow(w.system, 'as served', w.served, true), ...w.simulated.map((r, i) => whatIfRow(r.system, i ? 'simulated' : 'simulated, to compare', r, !i)));
  const notes = [];
  if (w.age_s !== null) notes.push(`${many(w.served.requests, 'request')} over ${time(w.span_s)}, replayed ${age(w.age_s)} ago in ${time(w.simulated.reduce((sum, r) => sum + r.processor_s, 0))} of processor time`);
  if (w.left_out) notes.push(`${count(w.left_out)} left out: their clients left before anybody could say`);
  if (w.crowded) notes.push(`more ended than the ${count(w.most_requests)} that are kept`);
  if (w.computing && w.age_s !== null) notes.push('a newer answer is being computed');
  say(at('if-note'), notes.join('; '));
}
async function askWhatIf() {
  let wait = 60000;
  if (!document.hidden && !shown.still) {
    try {
      const answer = await fetch(new URL('whatif', location.href), {cache: 'no-store'});
      if (answer.status === 404) return;
      if (answer.ok) {
        const w = await answer.json();
        showWhatIf(w);
        wait = w.computing ? 2000 : w.age_s === null ? 10000 : wait;
      }
    } catch { /* the rest of the page says that the server does not answer */ }
  } else wait = 5000;
  setTimeout(askWhatIf, wait);
}
askWhatIf();
)js";

} // namespace sluice::detail
