// SPDX-License-Identifier: Apache-2.0
// Saves parts of a result page: a picture as SVG, its numbers as CSV, a table as CSV.
import {at, el, node, svgNamespace} from './dom.js';
import {absent} from './numbers.js';
import {data, distinct, manySeeds} from './systems.js';
import {headOf} from './tables.js';

// Numbers as CSV
function csvCell(v) {
  if (absent(v)) return '';
  return typeof v === 'string' && /[",\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : String(v);
}
export const csvOf = rows => rows.map(row => row.map(csvCell).join(',') + '\n').join('');

/// In a sweep, a run's position on the axes comes before its name, as in the CSV tables in the page's folder.
const placeHead = distinct((data.cells || []).flatMap(cell => Object.keys(cell)));
export const runHead = [...placeHead, 'system', 'deposit', 'slo_scale'];
export const runOf = s => [...placeHead.map(axis => data.cells[s.cell][axis]), s.name, s.deposit, s.scale];
/// A picture of one run shows the first seed, and names it.
export const seedHead = [...runHead, 'seed'];
export const firstSeed = s => [...runOf(s), data.seeds[0]];
/// A number over all seeds: its mean, the ends of its interval, and each seed's value if the page has it.
export const ends = key => manySeeds ? [key + '_least', key + '_most'] : [];
export const endsOf = interval => manySeeds ? interval || [null, null] : [];
export const eachHead = key => manySeeds ? data.seeds.map(seed => `${key}_seed_${seed}`) : [];
export const eachOf = values => manySeeds ? data.seeds.map((_, i) => values ? values[i] : null) : [];
export const meansHead = manySeeds ? ['seeds'] : [], means = manySeeds ? [data.seeds.length] : [];

/// Returns a table's numbers, unrounded. Its heads have the columns' names (`data-key`). A column that repeats
/// another's numbers as text (`data-told`) is omitted; a column that is not a mean over seeds (`data-exact`) has no
/// interval. A cell may have another text for the file (`data-text`).
export function tableRows(table) {
  const heads = [...headOf(table).cells], rows = [...table.tBodies[0].rows];
  const groups = [...table.tHead.rows[0].cells].flatMap(cell => Array(cell.colSpan).fill(cell.textContent.trim()));
  const groupOf = i => table.tHead.rows.length > 1 && groups[i] ? groups[i] + ' ' : '';
  const nameOf = i => heads[i].dataset.key ?? groupOf(i) + heads[i].textContent.trim();
  const columns = heads.map((_, i) => i).filter(i => heads[i].dataset.told === undefined);
  const isNumber = heads.map((_, i) => rows.some(row => row.cells[i].dataset.v !== undefined));
  const isMean = heads.map((head, i) => isNumber[i] && head.dataset.exact === undefined);
  const ofSeeds = manySeeds && isMean.includes(true);
  const anyRecorded = table.querySelector('[data-recorded]') !== null;

  const cellOf = (cell, mean) => {
    const {v, least, most, recorded, text} = cell.dataset;
    const value = v === undefined              ? text ?? (cell.firstChild?.textContent ?? '').trim()
                  : Number.isFinite(Number(v)) ? v
                                               : '';
    const beside = anyRecorded ? [recorded ?? ''] : [];
    return mean ? [value, ...endsOf(least === undefined ? null : [least, most]), ...beside] : [value];
  };
  const recordedHead = name => anyRecorded ? [name + '_recorded'] : [];
  const meanHeads = name => [name, ...ends(name), ...recordedHead(name)];
  const head = columns.flatMap(i => isMean[i] ? meanHeads(nameOf(i)) : [nameOf(i)]);
  const body = rows.map(row => [...columns.flatMap(i => cellOf(row.cells[i], isMean[i])), ...(ofSeeds ? means : [])]);
  return [[...head, ...(ofSeeds ? meansHead : [])], ...body];
}

// Returns a picture as a separate file, with the page's colours and fonts.
export function svgOf(svg) {
  const style = getComputedStyle(document.documentElement), size = svg.viewBox.baseVal;
  const valueOf = (_, name) => style.getPropertyValue(name).trim();
  const copy = svg.cloneNode(true);
  copy.setAttribute('xmlns', svgNamespace);
  copy.querySelectorAll('[data-tip]').forEach(tipped => {
    tipped.prepend(el('title', {}, tipped.dataset.tip));
    tipped.removeAttribute('data-tip');
  });
  const rules = [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]);
  const ofPictures = rules.filter(r => r.selectorText && /(^|,\s*)svg (text|\.)/.test(r.selectorText));
  copy.prepend(el('style', {}, ofPictures.map(r => r.cssText).join('\n')),
               el('rect', {width: size.width, height: size.height, fill: 'var(--card)'}));
  const origin = document.querySelector('footer').textContent.replaceAll('--', '-');
  const drawn = new XMLSerializer().serializeToString(copy).replace(/var\((--[a-z0-9]+)\)/g, valueOf);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<!-- ${origin} -->\n${drawn}\n`;
}

// Buttons
function save(name, type, content) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const fileName = words =>
    'sluice-' + words.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 80);
function saveButton(label, name, type, content) {
  const made = node('button', {type: 'button', 'aria-label': `Save ${name} as ${label}`}, label);
  made.addEventListener('click', event => {
    event.stopPropagation();
    save(`${fileName(name)}.${label.toLowerCase()}`, type, content());
  });
  return made;
}
const svgButton = (name, svg) => saveButton('SVG', name, 'image/svg+xml', () => svgOf(svg));
const csvButton = (name, rows) => saveButton('CSV', name, 'text/csv', () => csvOf(rows()));
const saveButtons = (...buttons) => node('span', {class: 'save no-print'}, ...buttons);

/// Puts two buttons on each picture that has none yet: in its caption, or on a line above it, since a picture has text
/// up to its edges. `csv`: see `openPage`.
export function dressFigures(csv) {
  for (const [id, rows] of Object.entries(csv)) {
    const figures = [...at(id).querySelectorAll('figure')].filter(f => f.querySelector('svg[role=img]'));
    figures.forEach((figure, i) => {
      if (figure.querySelector('.save')) return;
      const svg = figure.querySelector('svg[role=img]'), name = svg.querySelector('title').textContent;
      const buttons = saveButtons(svgButton(name, svg), csvButton(name, () => rows(figure, i)));
      const caption = figure.querySelector('figcaption');
      if (caption)
        caption.append(buttons);
      else
        figure.prepend(buttons);
    });
  }
}
/// Puts one button on each table, next to its name: the right end of a wide table is out of sight.
export function dressTables() {
  document.querySelectorAll('caption').forEach(
      ({firstElementChild: name,
        parentElement: table}) => { name.after(saveButtons(csvButton(name.textContent, () => tableRows(table)))); });
}
