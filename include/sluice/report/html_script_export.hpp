// SPDX-License-Identifier: Apache-2.0
// The script of report.html that lets things leave the page: a picture as SVG, its numbers as CSV, the view as an
// address.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Functions alone: the last part of the script calls them when it draws.
inline constexpr std::string_view html_script_export = R"js(
// The view in the address: what differs from how the page opens, so that an untouched page has a plain address ------------
const opening = {scale: chosen.scale, deposit: chosen.deposit};
const addressOf = () => {
  const parts = new URLSearchParams();
  if (chosen.scale !== opening.scale) parts.set('slo', chosen.scale);
  if (chosen.deposit !== opening.deposit) parts.set('deposit', chosen.deposit ? 'on' : 'off');
  if (chosen.byReader) parts.set('systems', chosen.names.join(','));
  if (chosen.picked) parts.set('iteration', chosen.iteration);
  if (chosen.zoom) parts.set('time', chosen.zoom.map(t => +t.toPrecision(6)).join('-'));
  if (whyChosen.system !== null || whyChosen.request !== null)
    parts.set('why', [whyChosen.system ?? at('why-pick').value, ...(whyChosen.request === null ? [] : [whyChosen.request])].join('.'));
  document.querySelectorAll('th[aria-sort]').forEach(head => {
    const table = [...document.querySelectorAll('table')].indexOf(head.closest('table'));
    parts.append('sort', `${table}.${head.cellIndex}.${head.getAttribute('aria-sort') === 'descending' ? 'down' : 'up'}`);
  });
  return parts.toString().replaceAll('%2C', ',');
};
function remember() {
  const wanted = addressOf();
  if (wanted === location.hash.slice(1)) return;
  history.replaceState(null, '', wanted ? '#' + wanted : location.pathname + location.search);
}
/// What an address says; what it says wrongly, or of another report, is as if it were not there.
function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const scale = Number(parts.get('slo') ?? NaN), zoom = (parts.get('time') ?? '').split('-').map(Number);
  chosen.scale = scales.includes(scale) ? scale : opening.scale;
  const deposit = {on: true, off: false}[parts.get('deposit')];
  chosen.deposit = deposits.includes(deposit) ? deposit : opening.deposit;
  chosen.byReader = parts.has('systems');
  if (chosen.byReader) chosen.names = parts.get('systems').split(',').filter(n => names.includes(n)).slice(0, maxHighlighted);
  chosen.picked = names.includes(parts.get('iteration'));
  chosen.iteration = chosen.picked ? parts.get('iteration') : null;
  chosen.zoom = zoom.length === 2 && zoom[0] >= 0 && zoom[1] > zoom[0] ? zoom : null;
  const [who, request] = (parts.get('why') ?? '').split('.');
  whyChosen.system = names.includes(who) ? who : null;
  whyChosen.request = whyChosen.system !== null && /^[0-9]+$/.test(request ?? '') ? Number(request) : null;
  for (const sort of parts.getAll('sort')) {
    const [table, column, way] = sort.split('.');
    const head = document.querySelectorAll('table')[table]?.tHead?.rows[1]?.cells[column];
    if (head && head.hasAttribute('data-sort') && !head.hasAttribute('aria-sort'))
      for (let clicks = way === 'up' ? 2 : 1; clicks > 0; --clicks) head.click();
  }
}

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

// Numbers as CSV ----------------------------------------------------------------------------------------------------
const csvCell = v => absent(v) ? '' : typeof v === 'string' && /[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : String(v);
const csvOf = rows => rows.map(row => row.map(csvCell).join(',') + '\n').join('');
const shownRun = s => [s.name, s.deposit, s.scale];
const runHead = ['system', 'deposit', 'slo_scale'];
/// What is drawn of one run bears its seed: of several, the first's.
const seedHead = [...runHead, 'seed'], firstSeed = s => [...shownRun(s), data.seeds[0]];
/// A number of all seeds: its mean, the ends of its interval, and each seed's where the page has them.
const ends = key => manySeeds ? [key + '_least', key + '_most'] : [];
const endsOf = limits => manySeeds ? limits || [null, null] : [];
const eachHead = key => manySeeds ? data.seeds.map(seed => `${key}_seed_${seed}`) : [];
const eachOf = values => manySeeds ? data.seeds.map((_, i) => values ? values[i] : null) : [];
const meansHead = manySeeds ? ['seeds'] : [], means = manySeeds ? [data.seeds.length] : [];
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
function tableRows(table) {
  const groups = [...table.tHead.rows[0].cells].flatMap(cell => Array(cell.colSpan).fill(cell.textContent.trim()));
  const last = table.tHead.rows[table.tHead.rows.length - 1];
  const name = (cell, i) => cell.dataset.key ?? (table.tHead.rows.length > 1 && groups[i] ? groups[i] + ' ' : '') + cell.textContent.trim();
  const rows = [...table.tBodies[0].rows], numbers = [...last.cells].map((_, i) => rows.some(row => row.cells[i].dataset.v !== undefined));
  const columns = [...last.cells].map((cell, i) => i).filter(i => last.cells[i].dataset.told === undefined); // that column is in the one before, as numbers
  const many = manySeeds && numbers.includes(true);
  return [[...columns.flatMap(i => { const of = name(last.cells[i], i); return numbers[i] ? [of, ...ends(of)] : [of]; }), ...(many ? meansHead : [])],
          ...rows.map(row => [...columns.flatMap(i => {
            const {v, least, most} = row.cells[i].dataset;
            return v === undefined ? [(row.cells[i].firstChild?.textContent ?? '').trim()] : [v, ...endsOf(least === undefined ? null : [least, most])];
          }), ...(many ? means : [])])];
}

// A picture as a file of its own: colours and fonts are the page's, written out ----------------------------------------
function svgOf(svg) {
  const style = getComputedStyle(document.documentElement);
  const plain = text => text.replace(/var\((--[a-z0-9]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
  copy.setAttribute('xmlns', svgNamespace);
  copy.querySelectorAll('[data-tip]').forEach(node => { const name = el('title', {}, node.dataset.tip); node.removeAttribute('data-tip'); node.prepend(name); });
  const rules = [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]).filter(r => r.selectorText && /(^|,\s*)svg (text|\.)/.test(r.selectorText)).map(r => r.cssText);
  copy.prepend(el('style', {}, rules.join('\n')), el('rect', {width: box.width, height: box.height, fill: 'var(--card)'}));
  return `<?xml version="1.0" encoding="UTF-8"?>\n<!-- ${document.querySelector('footer').textContent.replaceAll('--', '-')} -->\n` + plain(new XMLSerializer().serializeToString(copy)) + '\n';
}
function save(name, type, content) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const fileName = words => 'sluice-' + words.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 80);
function saveButton(label, name, type, content) {
  const node = document.createElement('button');
  node.type = 'button';
  node.append(label);
  node.setAttribute('aria-label', `Save ${name} as ${label}`);
  node.addEventListener('click', event => { event.stopPropagation(); save(`${fileName(name)}.${label.toLowerCase()}`, type, content()); });
  return node;
}
function saveButtons(...buttons) {
  const node = document.createElement('span');
  node.className = 'save no-print';
  node.append(...buttons);
  return node;
}
/// Two buttons on each picture that was drawn and has none yet: in its caption, or on a line of their own above it, as a
/// picture has text up to its edges.
function dressFigures() {
  if (paper) return;
  for (const [id, rows] of Object.entries(exports_))
    [...at(id).querySelectorAll('figure')].filter(f => f.querySelector('svg[role=img]')).forEach((figure, i) => {
      if (figure.querySelector('.save')) return;
      const svg = figure.querySelector('svg[role=img]'), name = svg.querySelector('title').textContent;
      const buttons = saveButtons(saveButton('SVG', name, 'image/svg+xml', () => svgOf(svg)), saveButton('CSV', name, 'text/csv', () => csvOf(rows(figure, i))));
      const caption = figure.querySelector('figcaption');
      if (caption) caption.append(buttons);
      else figure.prepend(buttons);
    });
}
/// And one on each table, once.
document.querySelectorAll('table').forEach(table => {
  const name = table.caption ? table.caption.querySelector('b').textContent : 'engine types';
  if (table.caption) table.caption.prepend(saveButtons(saveButton('CSV', name, 'text/csv', () => csvOf(tableRows(table)))));
});
)js";

} // namespace sluice::detail
