// SPDX-License-Identifier: Apache-2.0
// The script of report.html that says what leaves that page: the view in the address, the numbers of each picture.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Before html_script_time, whose draw() calls its functions.
inline constexpr std::string_view html_script_export = R"js(
// What of the view is in the address -----------------------------------------------------------------------------------
addressSystems();
addressed.push(
  ['iteration', () => chosen.picked ? chosen.iteration : null, said => {
    chosen.picked = names.includes(said);
    chosen.iteration = chosen.picked ? said : null;
  }],
  ['time', () => chosen.zoom ? chosen.zoom.map(t => +t.toPrecision(6)).join('-') : null, said => {
    const zoom = (said ?? '').split('-').map(Number);
    chosen.zoom = zoom.length === 2 && zoom[0] >= 0 && zoom[1] > zoom[0] ? zoom : null;
  }],
  ['why', () => whyChosen.system === null && whyChosen.request === null ? null
              : [whyChosen.system ?? at('why-pick').value, ...(whyChosen.request === null ? [] : [whyChosen.request])].join('.'), said => {
    const [who, request] = (said ?? '').split('.');
    whyChosen.system = names.includes(who) ? who : null;
    whyChosen.request = whyChosen.system !== null && /^[0-9]+$/.test(request ?? '') ? Number(request) : null;
  }]);

// A stretch of time: drawn over with the pointer ---------------------------------------------------------------------
const timeRows = () => highlighted().filter(s => s.series.t.length > 0);
const wholeTime = rows => [Math.min(...rows.map(s => s.series.start)), Math.max(...rows.map(s => s.series.end))];
/// The columns of a series that are in the stretch.
function zoomed(series) {
  if (!chosen.zoom) return series;
  const inside = i => series.t[i] < chosen.zoom[1] && series.t[i] + series.width > chosen.zoom[0];
  return Object.fromEntries(Object.entries(series).map(([key, of]) => [key, Array.isArray(of) ? of.filter((_, i) => inside(i)) : of]));
}
function ticksBetween(from, end, wanted) {
  const step = timeTicks(end - from, wanted)[1] || 1, ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= end * 1.0001; ++i) ticks.push(i * step);
  return ticks;
}
function zoomable(svg, spot, timeAt, width) {
  const place = event => { const box = svg.getBoundingClientRect(); return (event.clientX - box.left) * width / box.width; };
  let begin = null, mark = null;
  spot.style.cursor = 'crosshair';
  spot.addEventListener('pointerdown', event => {
    begin = place(event);
    mark = el('rect', {x: begin, y: 10, width: 0, height: 230, fill: 'var(--fg)', 'fill-opacity': 0.12, 'pointer-events': 'none'});
    svg.append(mark);
    spot.setPointerCapture(event.pointerId);
  });
  spot.addEventListener('pointermove', event => {
    if (begin === null) return;
    mark.setAttribute('x', Math.min(begin, place(event)));
    mark.setAttribute('width', Math.abs(place(event) - begin));
  });
  spot.addEventListener('pointerup', event => {
    const [a, b] = [begin, place(event)].sort((x, y) => x - y), whole = wholeTime(timeRows());
    begin = null;
    mark.remove();
    if (b - a < 6) return;
    const stretch = [Math.max(timeAt(a), whole[0]), Math.min(timeAt(b), whole[1])].map(t => Number(t.toPrecision(6)));
    if (stretch[1] > stretch[0]) { chosen.zoom = stretch; draw(); }
  });
  spot.addEventListener('dblclick', () => { chosen.zoom = null; draw(); });
}

// The numbers of each picture -----------------------------------------------------------------------------------------
/// What is drawn of one run bears its seed: of several, the first's.
const seedHead = [...runHead, 'seed'], firstSeed = s => [...shownRun(s), data.seeds[0]];
const exports_ = {
  attainment(figure, i) {
    const shown = systems.filter(s => deposits.length < 2 || s.deposit === deposits[[...at('attainment').children].findIndex(host => host.contains(figure))]);
    return [[...runHead, ...meansHead, 'tbt_attainment', ...ends('tbt_attainment'), ...eachHead('tbt_attainment'), 'per_token_attainment', ...ends('per_token_attainment')],
            ...shown.map(s => [...shownRun(s), ...means, s.m.tbt_attainment, ...endsOf(s.interval?.tbt_attainment), ...eachOf(s.each?.tbt_attainment),
                               s.m.per_token_attainment, ...endsOf(s.interval?.per_token_attainment)])];
  },
  'pair-charts'() {
    const rows = [[...runHead, ...meansHead, 'against', 'figure', 'mean', 'mean_least', 'mean_most', 'judged', ...eachHead('difference')]];
    for (const s of shown().filter(s => s.pairs))
      for (const [key, of] of Object.entries(s.pairs))
        if (of.interval) rows.push([...shownRun(s), ...means, s.pairs.against, key, of.mean, ...of.interval, of.judged, ...eachOf(of.each)]);
    return rows;
  },
  costs() {
    return [[...runHead, ...meansHead, ...costs.flatMap(c => [c.at(-1), ...ends(c.at(-1))])],
            ...ranked(shown()).map(s => [...shownRun(s), ...means, ...costs.flatMap(c => [c[2](s.m), ...endsOf(s.interval?.[c.at(-1)])])])];
  },
  cdf(figure) {
    const key = ['ttft', 'tbt', 'e2e'][[...at('cdf').children].findIndex(host => host.contains(figure))];
    return [[...seedHead, key + '_s', 'share_up_to'], ...shown().flatMap(s => s.cdf[key].map(p => [...firstSeed(s), ...p]))];
  },
  time(figure, i) {
    const s = timeRows()[i], t = zoomed(s.series), columns = Object.keys(t).filter(key => Array.isArray(t[key]));
    return [[...seedHead, ...columns.map(c => c === 't' ? 'time_s' : c)], ...t.t.map((_, k) => [...firstSeed(s), ...columns.map(c => t[c][k])])];
  },
  'why-bars'(figure, i) {
    const key = ['spent', 'missed'][i];
    return [[...runHead, 'cause', ['spent_s', 'deadlines_missed'][i]], ...ranked(shown()).filter(s => s.time).flatMap(s => data.causes.map((cause, c) => [...shownRun(s), cause, s.time[key][c]]))];
  },
  'why-lines'() {
    const s = shown().find(s => s.name === at('why-pick').value);
    return [[...seedHead, 'request', 'cause', 'start_s', 'end_s', 'stall_s'], ...s.time.requests.flatMap(q => q.spells.map(([c, from, to, stall]) => [...firstSeed(s), q.id, data.causes[c], from, to, stall]))];
  },
  iteration() {
    const s = shown().find(s => s.name === chosen.iteration), it = s.iteration;
    return [[...seedHead, 'step', 'what', 'of', 'layer', 'start_s', 'end_s', 'stall_s', 'cause'],
            ...it.compute.map(([layer, from, to, stall, cause]) => [...firstSeed(s), it.step, 'layer', '', layer, from, to, stall, cause]),
            ...it.transfers.map(([of, layer, from, to]) => [...firstSeed(s), it.step, 'transfer', of, layer, from, to, '', ''])];
  }
};
)js";

} // namespace sluice::detail
