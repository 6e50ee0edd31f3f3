// SPDX-License-Identifier: Apache-2.0
// The script of report.html: where the requests' time went, as bars by cause and a line of time for each request.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Before html_script_time, whose draw() calls whyCharts().
inline constexpr std::string_view html_script_why = R"js(
const whyChosen = {system: null, request: null};
const whyMarks = [['var(--other)', ''], ['var(--c2)', 'diagonal'], ['var(--c2)', 'grid'], ['var(--c0)', ''], ['var(--c4)', 'dots'], ['var(--c1)', 'grid'], ['var(--c3)', 'back'], ['var(--mute)', 'lines'], ['var(--c5)', 'diagonal']];
const whyBox = (group, x, y, w, h) => w < 3 ? el('rect', {x, y, width: Math.max(0.4, w), height: h, fill: whyMarks[group][0]}) : hatched(whyMarks[group][1], x, y, w, h, whyMarks[group][0]);
function whyBars(host, key, title, show) {
  const rows = ranked(shown()).filter(s => s.time && !s.same), width = widthOf(host), label = Math.min(230, labelWidth(rows.map(s => s.name)));
  const rowHeight = paper ? 14 : 18, top = 18, height = top + rows.length * rowHeight + 20, sums = rows.map(s => s.time[key].reduce((a, b) => a + b, 0));
  const room = 8 + Math.max(...sums.map(v => textWidth(show(v)))), x = linear(0, 1, label, width - room);
  const svg = picture(width, height, title, rows.map((s, r) => `${s.name}: ${data.causes.map((c, i) => `${c} ${percent(s.time[key][i] / (sums[r] || 1))} %`).join(', ')}`).join('; '));
  svg.append(text(label, 11, title, 'b'));
  axisX(svg, [0, 0.25, 0.5, 0.75, 1], x, v => `${100 * v} %`, top, height - 20);
  rows.forEach((s, r) => {
    const y = top + r * rowHeight, line = el('g', {});
    if (s.control) svg.append(rule(0, y, width, y, 'a'));
    let done = 0;
    s.time[key].forEach((v, i) => {
      if (!(v > 0) || !(sums[r] > 0)) return;
      line.append(tipped(el('g', {}, whyBox(i, x(done / sums[r]), y + 2, x((done + v) / sums[r]) - x(done / sums[r]), rowHeight - 4)), `${s.name}\n${data.causes[i]}: ${percent(v / sums[r])} % (${show(v)})`));
      done += v;
    });
    line.append(text(label - 8, y + rowHeight / 2 + 4, shortened(s.name, label - 10), s.control ? 'm' : slotOf(s.name) >= 0 ? 'b' : '', 'end'), text(width, y + rowHeight / 2 + 4, show(sums[r]), 'num m', 'end'));
    line.style.cursor = 'pointer';
    line.addEventListener('click', () => { whyChosen.system = s.name; whyChosen.request = null; whyCharts(); });
    svg.append(line);
  });
  host.append(figure('', svg));
}
function whyLines(host, s) {
  const rows = s.time.requests, width = widthOf(host), label = 64, right = width - 64, rowHeight = paper ? 13 : 16, top = 16;
  const begins = rows.flatMap(q => q.spells.slice(0, 1).map(p => p[1])), ends = rows.flatMap(q => q.spells.slice(-1).map(p => p[2]));
  if (!begins.length) return;
  const x = linear(Math.min(...begins), Math.max(...ends), label, right), height = top + rows.length * rowHeight + 22;
  const svg = picture(width, height, `Requests of ${s.name} over time`, rows.map(q => q.why).join(' '));
  axisX(svg, timeTicks(Math.max(...ends), 8).filter(v => v >= Math.min(...begins)), x, tidy(time), top, height - 22);
  svg.append(text(label - 8, 11, 'request', 'm s', 'end'), text(width, 11, 'missed', 'm s', 'end'));
  rows.forEach((q, r) => {
    const y = top + r * rowHeight, picked = q.id === (whyChosen.request ?? s.time.asked);
    const line = el('g', {tabindex: 0, role: 'button', 'aria-pressed': picked, 'aria-label': `request ${q.id}`});
    line.append(el('rect', {x: 0, y, width, height: rowHeight, fill: picked ? 'var(--soft)' : 'transparent'}));
    for (const [group, begin, end, stalled] of q.spells) {
      const spell = tipped(el('g', {}, whyBox(group, x(begin), y + 3, x(end) - x(begin), rowHeight - 6)), `request ${q.id}: ${data.causes[group]}\n${time(begin)} to ${time(end)}${stalled > 0 ? `, of which stalled ${time(stalled)}` : ''}`);
      if (stalled > 0 && end > begin) spell.append(el('rect', {x: x(begin), y: y + rowHeight - 3, width: (x(end) - x(begin)) * Math.min(1, stalled / (end - begin)), height: 2.5, fill: 'var(--c1)'}));
      line.append(spell);
    }
    line.append(text(label - 8, y + rowHeight / 2 + 4, String(q.id), picked ? 'num b' : 'num', 'end'), text(width, y + rowHeight / 2 + 4, count(q.missed), 'num m', 'end'));
    const pick = () => { whyChosen.request = q.id; whyCharts(); };
    line.style.cursor = 'pointer';
    line.addEventListener('click', pick);
    line.addEventListener('keydown', event => { if (event.key === 'Enter') pick(); });
    svg.append(line);
  });
  host.append(figure('', svg));
}
function whyCharts() {
  const able = ranked(shown()).filter(s => s.time), part = id => document.getElementById(id);
  part('why').hidden = !able.length;
  if (!able.length) return;
  for (const id of ['why-legend', 'why-bars', 'why-lines', 'why-text', 'why-pick']) part(id).replaceChildren();
  part('why-legend').append(legendOf(data.causes.map((cause, i) => [swatch(svg => svg.append(whyBox(i, 0.5, 1, 21, 10))), cause])));
  const bars = ['spent', 'missed'].map(() => part('why-bars').appendChild(document.createElement('div')));
  whyBars(bars[0], 'spent', 'time of all requests', time);
  whyBars(bars[1], 'missed', 'deadlines missed', count);
  const lined = able.filter(s => s.time.requests.length);
  const s = lined.find(one => one.name === whyChosen.system) || lined.find(one => slotOf(one.name) >= 0) || lined[0];
  part('why-pick').append(...lined.map(one => { const option = document.createElement('option'); option.value = option.textContent = one.name; option.selected = one === s; return option; }));
  if (!s) return;
  whyLines(part('why-lines'), s);
  const request = s.time.requests.find(q => q.id === (whyChosen.request ?? s.time.asked)) || s.time.requests[0];
  const drawn = s.time.requests.length, asked = s.time.asked >= 0 && s.time.requests[0].id === s.time.asked;
  part('why-count').textContent = `${asked ? `Request ${s.time.asked}, which was asked for, and those` : 'The requests'} that missed most deadlines, each a line of time${s.time.seen > drawn ? `: ${count(drawn)} of ${count(s.time.seen)}` : ''}.`;
  if (request) part('why-text').append(`${s.name}: ${request.why}`);
  dressFigures();
  remember();
}
document.getElementById('why-pick').addEventListener('change', event => { whyChosen.system = event.target.value; whyChosen.request = null; whyCharts(); });
)js";

} // namespace sluice::detail
