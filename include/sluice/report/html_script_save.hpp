// SPDX-License-Identifier: Apache-2.0
// The script that lets things leave a page of results: a picture as SVG, its numbers as CSV, the view as an address.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Stands behind `html_script_page`. What comes behind it defines `exports_`: for each element that holds pictures a
/// function of a picture's figure and its number there, which gives the rows of its CSV. What it has to choose it adds
/// to `addressed`; its `draw()` ends with `dressFigures()` and `remember()`.
inline constexpr std::string_view html_script_save = R"js(
// The view in the address: what differs from how the page opens, so that an untouched page has a plain address ------------
/// Of each choice: its name there, what it says now (null: as the page opened), and what takes up what an address says
/// (null: nothing). What an address says wrongly, or of another page, is as if it were not there.
const addressed = [];
const oneOf = (list, said, otherwise) => list.find(value => String(value) === said) ?? otherwise;
/// What `systemControls` offers.
function addressSystems() {
  const opening = {scale: chosen.scale, deposit: chosen.deposit};
  addressed.push(
    ['slo', () => chosen.scale === opening.scale ? null : chosen.scale, said => { chosen.scale = oneOf(scales, said, opening.scale); }],
    ['deposit', () => chosen.deposit === opening.deposit ? null : chosen.deposit ? 'on' : 'off', said => {
      const deposit = {on: true, off: false}[said];
      chosen.deposit = deposits.includes(deposit) ? deposit : opening.deposit;
    }],
    ['systems', () => chosen.byReader ? chosen.names.join(',') : null, said => {
      chosen.byReader = said !== null;
      if (chosen.byReader) chosen.names = said.split(',').filter(n => names.includes(n)).slice(0, maxHighlighted);
    }]);
}
const headOf = table => [...table?.tHead?.rows ?? []].at(-1);
function addressOf() {
  const parts = new URLSearchParams(), tables = [...document.querySelectorAll('table')];
  for (const [name, say] of addressed) {
    const said = say();
    if (said !== null) parts.set(name, said);
  }
  document.querySelectorAll('th[aria-sort]').forEach(head =>
    parts.append('sort', `${tables.indexOf(head.closest('table'))}.${head.cellIndex}.${head.getAttribute('aria-sort') === 'descending' ? 'down' : 'up'}`));
  return parts.toString().replaceAll('%2C', ',');
}
function remember() {
  const wanted = addressOf();
  if (wanted === location.hash.slice(1)) return;
  history.replaceState(null, '', wanted ? '#' + wanted : location.pathname + location.search);
}
function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const [name, , take] of addressed) take(parts.get(name));
  for (const sort of parts.getAll('sort')) {
    const [table, column, way] = sort.split('.');
    const head = headOf(document.querySelectorAll('table')[table])?.cells[column];
    if (head && head.hasAttribute('data-sort') && !head.hasAttribute('aria-sort'))
      for (let clicks = way === 'up' ? 2 : 1; clicks > 0; --clicks) head.click();
  }
}

// Numbers as CSV ----------------------------------------------------------------------------------------------------
const csvCell = v => absent(v) ? '' : typeof v === 'string' && /[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : String(v);
const csvOf = rows => rows.map(row => row.map(csvCell).join(',') + '\n').join('');
/// Of a grid a run stands behind its comparison's place on the axes, as in the tables beside the page.
const placeHead = distinct((data.cells || []).flatMap(cell => Object.keys(cell))), placeOf = s => placeHead.map(axis => data.cells[s.cell][axis]);
const shownRun = s => [...placeOf(s), s.name, s.deposit, s.scale];
const runHead = [...placeHead, 'system', 'deposit', 'slo_scale'];
/// A number of all seeds: its mean, the ends of its interval, and each seed's where the page has them.
const ends = key => manySeeds ? [key + '_least', key + '_most'] : [];
const endsOf = limits => manySeeds ? limits || [null, null] : [];
const eachHead = key => manySeeds ? data.seeds.map(seed => `${key}_seed_${seed}`) : [];
const eachOf = values => manySeeds ? data.seeds.map((_, i) => values ? values[i] : null) : [];
const meansHead = manySeeds ? ['seeds'] : [], means = manySeeds ? [data.seeds.length] : [];
/// A table's numbers whole. Its heads say the columns' names (`data-key`), which of them another column tells in
/// numbers (`data-told`) and which are no mean of seeds (`data-exact`); a cell may have another text there (`data-text`).
function tableRows(table) {
  const groups = [...table.tHead.rows[0].cells].flatMap(cell => Array(cell.colSpan).fill(cell.textContent.trim()));
  const heads = [...headOf(table).cells];
  const name = (cell, i) => cell.dataset.key ?? (table.tHead.rows.length > 1 && groups[i] ? groups[i] + ' ' : '') + cell.textContent.trim();
  const rows = [...table.tBodies[0].rows], numbers = heads.map((_, i) => rows.some(row => row.cells[i].dataset.v !== undefined));
  const columns = heads.map((_, i) => i).filter(i => heads[i].dataset.told === undefined);
  const isMean = heads.map((head, i) => numbers[i] && head.dataset.exact === undefined), many = manySeeds && isMean.includes(true);
  const number = v => v !== '' && Number.isFinite(Number(v)) ? v : '';
  return [[...columns.flatMap(i => { const of = name(heads[i], i); return isMean[i] ? [of, ...ends(of)] : [of]; }), ...(many ? meansHead : [])],
          ...rows.map(row => [...columns.flatMap(i => {
            const {v, least, most, text} = row.cells[i].dataset, said = v === undefined ? text ?? (row.cells[i].firstChild?.textContent ?? '').trim() : number(v);
            return isMean[i] ? [said, ...endsOf(least === undefined ? null : [least, most])] : [said];
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
/// And one on each table, once: beside its name, as the right end of a wide table is out of sight.
document.querySelectorAll('caption').forEach(({firstElementChild: name, parentElement: table}) =>
  name.after(saveButtons(saveButton('CSV', name.textContent, 'text/csv', () => csvOf(tableRows(table))))));
)js";

} // namespace sluice::detail
