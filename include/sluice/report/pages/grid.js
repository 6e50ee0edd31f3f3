// SPDX-License-Identifier: Apache-2.0
// The page of a grid: any figure against any swept number, a line for each system.
import {addressed, addressSystems, choiceOf, oneOf} from './address.js';
import {axisName, axisX, axisY, linear, linearTicks, logarithmic, logTicks} from './axes.js';
import {controlRow, systemControls, systemEntries} from './controls.js';
import {at, el, emptied, node} from './dom.js';
import {absent, percentText, plain, tidy, time} from './numbers.js';
import {button, openPage, paper, widthOf} from './page.js';
import {ends, endsOf, means, meansHead, runHead, runOf} from './save.js';
import {intervalText} from './seeds.js';
import {colour, dashes, figure, legendOf, marker, picture, polyline, stroke, swatch, tipped} from './svg.js';
import {axes, axisNamed, beside, cells, inOrder, isWide, valueText} from './sweep.js';
import {chosen, colourBest, data, isChosen, isKnown, labelOf, names, slotOf, standing, systems} from './systems.js';

const figures = data.figures;
const shows = {
  share: percentText,
  time,
  plain
};
/// The axis that is initially drawn to the right: an axis of numbers if there is one, and the one with most values,
/// since a line of two points shows no shape.
const longest = [...axes].sort((a, b) => (b.numbers - a.numbers) || (b.values.length - a.values.length))[0];
/// The selection: the figure, the axis to the right, the axis with a panel for each value (null: the page chooses), and
/// the other axes' values.
const view = {
  figure: figures[0].key,
  x: longest.name,
  panel: null,
  fixed: {}
};
const figureShown = () => figures.find(f => f.key === view.figure);
const otherAxes = () => axes.filter(a => a.name !== view.x);
const panels = () => view.panel === null ? [null] : axisNamed(view.panel).values;

/// The second axis gets panels; all further axes start at their first value.
function chooseAxes() {
  const others = otherAxes();
  if (view.panel === view.x || (view.panel !== null && !axisNamed(view.panel))) view.panel = null;
  if (view.panel === null && others.length) view.panel = others[0].name;
  for (const axis of others)
    if (!(axis.name in view.fixed)) view.fixed[axis.name] = axis.values[0];
}
/// Chooses the systems in colour until the reader chooses: the best by the mean over all cells, and the control as a
/// reference.
function chooseNames() {
  if (chosen.byReader) return;
  const rowsOf = name => systems.filter(s => s.name === name && isChosen(s));
  const isControl = name => systems.some(s => s.name === name && s.control);
  const mean = name => rowsOf(name).reduce((sum, s) => sum + Math.max(0, standing(s)), 0) / (rowsOf(name).length || 1);
  const here = names.filter(n => rowsOf(n).length);
  colourBest(here.filter(n => !isControl(n)).sort((a, b) => mean(b) - mean(a)), here.filter(isControl));
}
function controls() {
  controlRow('figures', figures.map(f => button(f.name, f.key === view.figure, () => { view.figure = f.key; })));
  controlRow('along', axes.map(a => button(a.name, a.name === view.x, () => { view.x = a.name; })));
  controlRow('panels', otherAxes().map(a => button(a.name, a.name === view.panel, () => { view.panel = a.name; })));
  const valueButton = (axis, v) =>
      button(valueText(axis.name, v), view.fixed[axis.name] === v, () => { view.fixed[axis.name] = v; });
  const rest = otherAxes().filter(a => a.name !== view.panel);
  controlRow('fixed',
             rest.flatMap(a => [node('span', {class: 'sub'}, a.name), ...a.values.map(v => valueButton(a, v))]));
  systemControls();
}

/// Returns a value's number on the axis to the right: the value itself, or for names their index.
function placeIn(value) {
  const axis = axisNamed(view.x);
  return axis.numbers ? value : axis.values.indexOf(value);
}
/// Returns the points of one system in one panel, along the axis.
function pointsOf(name, panel) {
  const isHere = s => {
    const place = cells[s.cell];
    return s.name === name && isChosen(s) && (panel === null || place[view.panel] === panel) &&
           otherAxes().every(a => a.name === view.panel || place[a.name] === view.fixed[a.name]);
  };
  const points =
      systems.filter(s => isHere(s) && !absent(s.m[view.figure]))
          .map(s => ({x: cells[s.cell][view.x], v: s.m[view.figure], s, interval: s.interval?.[view.figure]}));
  return points.map(p => ({...p, at: placeIn(p.x)})).sort((a, b) => a.at - b.at);
}
/// Returns a common vertical scale for all panels.
function rangeOf(points) {
  const tops = points.flatMap(p => slotOf(p.s.name) >= 0 && isKnown(p.interval) ? [p.v, p.interval[1]] : [p.v]);
  const positive = points.map(p => p.v).filter(v => v > 0), isShare = figureShown().unit === 'share';
  const range = {least: Math.min(...positive) / 1.2, most: isShare ? 1 : Math.max(...tops, 0) || 1};
  return {...range, log: !isShare && positive.length > 0 && range.most / range.least > 40};
}
const panelName = panel => `${view.panel} ${valueText(view.panel, panel)}`;
const placeText = panel => panel === null ? '' : ', ' + panelName(panel);
function drawLine(svg, name, points, panel, x, y) {
  const slot = slotOf(name), paint = slot < 0 ? 'var(--other)' : colour(slot), show = shows[figureShown().unit];
  const dash = {'stroke-dasharray': slot < 0 ? null : dashes[slot] || null};
  const isName = !axisNamed(view.x).numbers; // between two names there are no values, so there is no line
  const d = isName ? '' : polyline(points.map(p => [x(p.at), y(p.v)]));
  if (d) svg.append(tipped(stroke(d, paint, slot < 0 ? 1 : 2.2, dash), name));
  for (const p of points) {
    const middle = x(p.at) + (isName ? beside(slot, 9) : 0);
    const interval = isKnown(p.interval) ? `95 % interval ${p.interval.map(show).join(' to ')}` : '';
    const spot = tipped(el('g'), labelOf(p.s), `${view.x} ${valueText(view.x, p.x)}${placeText(panel)}`,
                        `${figureShown().name} ${show(p.v)}`, interval,
                        p.s.livelocked ? 'livelocked: of what had been served' : '');
    if (slot >= 0 && isKnown(p.interval) && p.interval[0] !== p.interval[1]) {
      const from = middle + beside(slot, isName ? 0 : 2), px = from.toFixed(1), end = (from - 3).toFixed(1);
      const [y0, y1] = p.interval.map(v => y(v).toFixed(1));
      spot.append(stroke(`M${px} ${y0}V${y1}M${end} ${y0}h6M${end} ${y1}h6`, paint, 1.3));
    }
    spot.append(slot < 0 ? el('circle', {cx: middle, cy: y(p.v), r: 2, fill: paint})
                         : marker(slot, middle, y(p.v), 3.8, paint, p.s.livelocked));
    svg.append(spot);
  }
}
function panelChart(host, panel, range, columns) {
  const width = widthOf(host, columns), height = paper ? 230 : 320;
  const left = 58, right = width - 16, top = 14, bottom = height - 44;
  const {name, unit} = figureShown(), show = shows[unit], axis = axisNamed(view.x);
  const values = axis.numbers ? inOrder(axis.values) : axis.values, wide = axis.numbers && isWide(values);
  const [first, last] = axis.numbers ? [values[0], values.at(-1)] : [-0.5, values.length - 0.5];
  const x = (wide ? logarithmic : linear)(first, last, left + 10, right - 10);
  const up = range.log ? logarithmic(range.least, range.most, bottom, top) : linear(0, range.most, bottom, top);
  const y = v => Math.min(bottom, Math.max(top, up(v)));
  const lines = names.map(n => [n, pointsOf(n, panel)]).filter(([, points]) => points.length);
  const told = points => points.map(p => `${valueText(view.x, p.x)}: ${show(p.v)}`).join(', ');
  const svg = picture(width, height, `${name} against ${view.x}${placeText(panel)}`,
                      lines.map(([n, points]) => `${n}: ${told(points)}`).join('; '));
  const ticks = range.log ? logTicks(range.least, range.most, bottom - top) : linearTicks(range.most, 5);
  axisY(svg, ticks, up, tidy(show), left, right);
  axisX(svg, values, v => x(placeIn(v)), v => valueText(view.x, v), top, bottom);
  svg.append(axisName(view.x + (wide ? ', logarithmic' : ''), right, height - 8));
  const grey = lines.filter(([n]) => slotOf(n) < 0), coloured = lines.filter(([n]) => slotOf(n) >= 0);
  for (const [n, points] of [...grey, ...coloured.reverse()]) drawLine(svg, n, points, panel, x, y);
  host.append(figure(panel === null ? name : panelName(panel), svg));
}

function draw() {
  chooseAxes();
  chooseNames();
  controls();
  const drawn = panels(), host = emptied('plots');
  const range = rangeOf(names.flatMap(n => drawn.flatMap(panel => pointsOf(n, panel))));
  host.className = drawn.length > 2 ? 'three' : drawn.length > 1 ? 'two' : '';
  const hosts = drawn.map(() => host.appendChild(node('div'))); // create all first, so that each has its width
  drawn.forEach((panel, i) => panelChart(hosts[i], panel, range, Math.min(3, drawn.length)));
  const entries = systemEntries(systems.filter(isChosen));
  const drawnIntervals = systems.some(s => isChosen(s) && isKnown(s.interval?.[view.figure]));
  if (drawnIntervals) entries.push([swatch(stroke('M11 1V11M8 1h6M8 11h6', 'var(--fg)', 1.4)), intervalText()]);
  emptied('legend').append(legendOf(entries));
  const {name, hint} = figureShown(), scale = '; both scales of a panel are those of all, upwards logarithmic';
  at('what').textContent = `${name}${hint ? ', ' + hint : ''}, against ${view.x}${range.log ? scale : ''}.`;
}
/// Returns the data of a panel's picture.
function panelCsv(drawn, i) {
  const key = view.figure, rows = names.flatMap(n => pointsOf(n, panels()[i])).map(p => p.s);
  return [
    [...runHead, ...meansHead, key, ...ends(key), 'livelocked'],
    ...rows.map(s => [...runOf(s), ...means, s.m[key], ...endsOf(s.interval?.[key]), s.livelocked])
  ];
}

addressed.push(choiceOf('figure', view, 'figure', figures.map(f => f.key), view.figure),
               choiceOf('against', view, 'x', axes.map(a => a.name), view.x), {
                 name: 'panels',
                 say: () => view.panel === null || view.panel === otherAxes()[0].name ? null : view.panel,
                 take: said => { view.panel = oneOf(axes.map(a => a.name), said, null); },
               },
               ...axes.map(a => choiceOf(`at.${a.name}`, view.fixed, a.name, a.values, a.values[0])));
addressSystems();
openPage({draw, csv: {plots: panelCsv}});
