// SPDX-License-Identifier: Apache-2.0
// Latencies as distribution functions: the highlighted systems in colour, the others in grey behind them.
import {axisName, axisX, axisY, linear, logarithmic, logTicks, seconds, timeLabel, timeTicks} from './axes.js';
import {grey} from './controls.js';
import {at, node} from './dom.js';
import {tidy, time} from './numbers.js';
import {paper, widthOf} from './page.js';
import {firstSeed, seedHead} from './save.js';
import {colour, dashes, figure, legendOf, marker, picture, sample, stroke, text, tipped} from './svg.js';
import {highlighted, labelOf, shown, slotOf} from './systems.js';

const latencies = [
  {key: 'ttft', name: 'time to first token (TTFT)', slo: s => s.slo_ttft},
  {key: 'tbt', name: 'time between tokens (TBT)', slo: s => s.slo},
  {key: 'e2e', name: 'arrival to last token (E2E)', slo: () => 0},
];

/// Ends the time axis at P99.9 at most, since one gap of an hour would squeeze all others.
function rangeOf(curves) {
  const positive = curves.flat().map(p => p[0]).filter(v => v > 0).sort((a, b) => a - b);
  const lasts = curves.filter(c => c.length).map(c => (c.find(p => p[1] >= 0.999) || c.at(-1))[0]);
  return [positive[Math.floor(positive.length / 200)] ?? 1e-3, Math.max(...lasts) || 1];
}
function cdfChart(host, {key, name}, slo) {
  const rows = shown().filter(s => !s.same || slotOf(s.name) >= 0);
  if (!rows.some(s => s.cdf[key].length)) {
    host.append(figure(name, 'No request got that far.'));
    return;
  }
  const width = widthOf(host, 3), height = paper ? 220 : 270, left = 42, right = width - 14, top = 12,
        bottom = height - 40;
  const [least, most] = rangeOf(rows.map(s => s.cdf[key])), wide = most / least > 12;
  const x = wide ? logarithmic(least, most, left, right) : linear(0, most, left, right), y = linear(0, 1, bottom, top);
  const quantile = (s, p) => time(s.m[`p${p}_${key}_s`]);
  const svg = picture(width, height, `Distribution of ${name}`,
                      rows.map(s => `${s.name}: median ${quantile(s, 50)}, P99 ${quantile(s, 99)}`).join('; '));
  axisY(svg, [0, 0.25, 0.5, 0.75, 1], y, v => 100 * v + '%', left, right);
  const ticks = wide ? logTicks(least, most, right - left) : timeTicks(most, 4);
  axisX(svg, ticks, x, wide ? seconds : timeLabel(most), top, bottom);
  svg.append(axisName(wide ? 'logarithmic, to P99.9' : 'to P99.9', right, height - 6));

  const line = (s, paint, strokeWidth, more = {}) => { // steps: no value lies between two
    const steps = s.cdf[key].filter(p => p[0] <= most).map(([v, f]) => `H${x(v).toFixed(1)}V${y(f).toFixed(1)}`);
    const d = `M${x(s.cdf[key][0][0])} ${bottom}${steps.join('')}H${right}`;
    return tipped(stroke(d, paint, strokeWidth, more), s.name,
                  `P50 ${quantile(s, 50)}, P95 ${quantile(s, 95)}, P99 ${quantile(s, 99)}`);
  };
  for (const s of rows)
    if (slotOf(s.name) < 0 && s.cdf[key].length) svg.append(line(s, 'var(--other)', 1));
  for (const s of highlighted().reverse()) {
    const slot = slotOf(s.name), curve = s.cdf[key];
    if (!curve.length) continue;
    svg.append(line(s, colour(slot), 2.2, {'stroke-dasharray': dashes[slot] || null}));
    for (const base of [0.15, 0.45, 0.75]) { // at fractions of each system's own range, so that markers do not cover
                                             // one another
      const [v, f] = curve.find(p => p[1] >= base + 0.04 * slot) || curve.at(-1);
      if (v <= most) svg.append(marker(slot, x(v), y(f), 3.6, colour(slot)));
    }
  }
  if (slo > 0 && slo >= (wide ? least : 0) && slo <= most) {
    const late = x(slo) > (left + right) / 2; // its text is on the side with room
    svg.append(
        stroke(`M${x(slo)} ${top}V${bottom}`, 'var(--fg)', 1.4, {'stroke-dasharray': '4 3', 'pointer-events': 'none'}),
        text(x(slo) + (late ? -6 : 6), bottom - 6, 'SLO ' + tidy(time)(slo), 'b s halo', late ? 'end' : 'start'));
  }
  host.append(figure(name, svg));
}

export function distributionLegend() {
  const entryOf = s => {
    const also = shown().filter(d => d.same === s.name && slotOf(d.name) < 0).map(d => d.name).join(', ');
    return [sample(slotOf(s.name)), labelOf(s) + (also && !s.control ? ` (the same: ${also})` : '')];
  };
  const others = shown().some(s => !s.same && slotOf(s.name) < 0);
  return legendOf([...highlighted().map(entryOf), ...(others ? [grey()] : [])]);
}
export function distributions(host) {
  const hosts = latencies.map(() => host.appendChild(node('div'))); // create all first, so that each has its width
  latencies.forEach((latency, i) => cdfChart(hosts[i], latency, latency.slo(shown()[0] || {})));
}
export function distributionCsv(drawn) {
  const {key} = latencies[[...at('cdf').children].findIndex(host => host.contains(drawn))];
  return [
    [...seedHead, key + '_s', 'share_up_to'],
    ...shown().flatMap(s => s.cdf[key].map(point => [...firstSeed(s), ...point]))
  ];
}
