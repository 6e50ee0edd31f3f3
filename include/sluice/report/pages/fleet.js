// SPDX-License-Identifier: Apache-2.0
// The page of a fleet: curves over time, and a lane for each engine.
//
// `data.charts`: each with a title, the name of its axis, and curves of points. `data.fleets`: each with a name, the
// seconds of a bin, and for each engine its `waiting`, `running` and `found` by bin.
import {axisName, axisX, axisY, linear, linearTicks, timeLabel, timeTicks} from './axes.js';
import {at, emptied, node} from './dom.js';
import {absent, digits, percentText, plain, time} from './numbers.js';
import {openPage, paper, widthOf} from './page.js';
import {
  box,
  colour,
  dashes,
  figure,
  labelWidth,
  legendOf,
  picture,
  polyline,
  rule,
  sample,
  shortened,
  stroke,
  swatch,
  target,
  text,
  tipped
} from './svg.js';
import {data} from './systems.js';

const shows = {
  plain,
  time
};

function drawChart(host, chart, width) {
  const points = chart.curves.flatMap(curve => curve.points).filter(([, y]) => !absent(y));
  const show = shows[chart.unit], left = 58, right = width - 14, top = 12, bottom = 190;
  const farthest = Math.max(1, ...points.map(([x]) => x)),
        highest = Math.max(...points.map(([, y]) => y), chart.unit === 'plain' ? 1 : 1e-3);
  const x = linear(0, farthest, left, right), y = linear(0, highest, bottom, top);
  const svg = picture(width, bottom + 36, chart.title, chart.curves.map(curve => curve.name).join(', '));
  axisX(svg, timeTicks(farthest, width / 110), x, timeLabel(farthest), top, bottom);
  axisY(svg, linearTicks(highest), y, show, left, right);
  svg.append(axisName('time of the run', right, bottom + 31));
  chart.curves.forEach((curve, i) => {
    const drawn = curve.points.filter(([, v]) => !absent(v)).map(([t, v]) => [x(t), y(v)]);
    if (drawn.length)
      svg.append(stroke(polyline(drawn), colour(i % 6), 1.8, {'stroke-dasharray': dashes[i % 6] || null}));
  });
  const step = points.length ? (right - left) / 60 : 0;
  for (let i = 0; i < 60; ++i) {
    const from = farthest * i / 60, end = farthest * (i + 1) / 60;
    const lines = chart.curves.map(curve => {
      const here = curve.points.filter(([t, v]) => t >= from && t < end && !absent(v)).map(([, v]) => v);
      return here.length ? `${curve.name}: ${show(here.reduce((a, b) => a + b, 0) / here.length)}` : '';
    });
    if (lines.some(line => line))
      svg.append(tipped(target(left + i * step, top, step, bottom - top), timeLabel(farthest)(from), ...lines));
  }
  host.append(figure(chart.title, svg));
}

function drawLanes(host, fleet, width) {
  const lane = 54, up = 34, down = 13, left = labelWidth(fleet.engines.map(engine => engine.name)) + 40;
  const right = width - 14, height = 16 + lane * fleet.engines.length;
  const bins = Math.max(1, ...fleet.engines.map(engine => engine.running.length));
  const svg = picture(width, height + 36, fleet.name, 'requests and cache hits of each engine over time');
  const x = linear(0, bins * fleet.bin, left, right), wide = (right - left) / bins;
  const most = Math.max(1, ...fleet.engines.flatMap(e => e.running.map((v, i) => v + e.waiting[i])));
  axisX(svg, timeTicks(bins * fleet.bin, width / 110), x, timeLabel(bins * fleet.bin), 4, height);
  svg.append(axisName('time of the run', right, height + 31));
  fleet.engines.forEach((engine, k) => {
    const line = 8 + lane * k + up, tall = v => v / most * up, deep = v => v * down;
    svg.append(text(left - 40, line + 4, shortened(engine.name, left - 48), 'm', 'end'));
    svg.append(text(left - 5, line - up + 9, digits(most), 'm s', 'end'),
               text(left - 5, line + down, '100 %', 'm s', 'end'));
    let runs = '', waits = '', finds = '';
    const bar = (i, y, h) =>
        `M${(x(i * fleet.bin)).toFixed(1)} ${y.toFixed(1)}h${wide.toFixed(2)}v${h.toFixed(1)}h-${wide.toFixed(2)}z`;
    engine.running.forEach((v, i) => {
      const run = tall(v), wait = tall(engine.waiting[i]);
      if (run > 0) runs += bar(i, line - run, run);
      if (wait > 0) waits += bar(i, line - run - wait, wait);
      if (!absent(engine.found[i])) finds += bar(i, line + 1, deep(engine.found[i]));
    });
    for (const [d, paint] of [[runs, 'var(--c0)'], [waits, 'var(--c1)'], [finds, 'var(--c2)']])
      if (d) {
        const made = stroke(d, 'none');
        made.setAttribute('fill', paint);
        svg.append(made);
      }
    svg.append(rule(left, line, right, line, 'axis'));
    const shown = 60;
    for (let i = 0; i < shown; ++i) {
      const from = Math.floor(bins * i / shown), end = Math.max(from + 1, Math.floor(bins * (i + 1) / shown));
      const mean = list => {
        const here = list.slice(from, end).filter(v => !absent(v));
        return here.length ? here.reduce((a, b) => a + b, 0) / here.length : null;
      };
      svg.append(tipped(target(left + (right - left) * i / shown, line - up, (right - left) / shown, up + down),
                        `${engine.name}, ${timeLabel(bins * fleet.bin)(from * fleet.bin)}`,
                        `${digits(mean(engine.waiting) ?? 0)} wait, ${digits(mean(engine.running) ?? 0)} generate`,
                        `prompts found: ${percentText(mean(engine.found))}`));
    }
  });
  host.append(figure(fleet.name, svg));
}

function draw() {
  const charts = emptied('charts'), lanes = emptied('lanes'), columns = paper || charts.clientWidth < 900 ? 1 : 2;
  at('what').textContent = data.what;
  charts.style.cssText = `display:grid;grid-template-columns:repeat(${columns},minmax(0,1fr));gap:10px 24px`;
  for (const chart of data.charts) {
    const host = node('div');
    charts.append(host);
    drawChart(host, chart, paper ? widthOf(charts, columns) : widthOf(host));
    host.append(legendOf(chart.curves.map((curve, i) => [sample(i % 6), curve.name])));
  }
  at('engines').hidden = data.fleets.length === 0;
  if (data.fleets.length)
    lanes.append(legendOf([
      [swatch(box(3, 1, 16, 10, 'var(--c1)')), 'wait for their first token'],
      [swatch(box(3, 1, 16, 10, 'var(--c0)')), 'generate'],
      [swatch(box(3, 1, 16, 10, 'var(--c2)')), 'share of prompts found']
    ]));
  for (const fleet of data.fleets) {
    const host = node('div');
    lanes.append(host);
    drawLanes(host, fleet, widthOf(lanes));
  }
}

const chartRows =
    (_, i) => [['curve', 'time_s', 'value'],
               ...data.charts[i].curves.flatMap(curve => curve.points.map(([t, v]) => [curve.name, t, v]))];
const laneRows =
    (_, i) => [['engine', 'time_s', 'waiting', 'running', 'found'],
               ...data.fleets[i].engines.flatMap(
                   engine => engine.running.map(
                       (v, k) => [engine.name, k * data.fleets[i].bin, engine.waiting[k], v, engine.found[k]]))];
openPage({draw, csv: {charts: chartRows, lanes: laneRows}});
