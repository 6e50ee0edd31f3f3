// SPDX-License-Identifier: Apache-2.0
// The script of a page of results that every such page has: buttons, tables that sort, drawing anew.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Stands behind `html_script_base`, and before `html_script_save`. What comes behind both defines `draw()` and
/// `exports_`, and ends with `opens()`.
inline constexpr std::string_view html_script_page = R"js(
// What every page has ------------------------------------------------------------------------------------------------
const at = id => document.getElementById(id);
const manySeeds = (data.seeds || []).length > 1;
let paper = false;
/// On paper all figures are drawn for a sheet so wide, which the style then scales to the page.
const sheet = 1280;
const widthOf = (node, columns = 1) => paper ? Math.floor((sheet - 24 * (columns - 1)) / columns)
                                             : Math.max(300, Math.floor(node.getBoundingClientRect().width || 600));
const scaleName = x => '×' + tidy(digits)(x);
function button(label, pressed, act, icon) {
  const node = document.createElement('button');
  node.type = 'button';
  node.setAttribute('aria-pressed', pressed);
  if (icon) node.append(icon);
  node.append(label);
  node.addEventListener('click', () => { act(); draw(); });
  return node;
}
/// A row of the controls; not there where it offers nothing to choose.
function controlRow(id, buttons, least = 2) {
  at(id).replaceChildren(...buttons);
  at(id).parentElement.style.display = buttons.length < least ? 'none' : '';
}
/// The rows 'scales', 'deposits' and 'names': which systems are shown, and which of them in colour.
function systemControls(told = scaleName) {
  controlRow('scales', scales.map(x => button(told(x), x === chosen.scale, () => { chosen.scale = x; })));
  controlRow('deposits', deposits.map(d => button(d ? 'with deposit' : 'without deposit', d === chosen.deposit, () => { chosen.deposit = d; })));
  controlRow('names', names.map(n => button(n, slotOf(n) >= 0, () => {
    chosen.byReader = true;
    chosen.names = slotOf(n) >= 0 ? chosen.names.filter(m => m !== n) : [...chosen.names, n].slice(-maxHighlighted);
  }, slotOf(n) >= 0 ? sample(slotOf(n), 22) : null)), 1);
}
// Tables sort by any column; a second click turns the order. Controls stay below.
function sortTables(sorted = () => {}) {
  document.querySelectorAll('th[data-sort]').forEach(head => {
    const sort = () => {
      const table = head.closest('table'), body = table.tBodies[0], column = [...head.parentElement.children].indexOf(head);
      const down = head.getAttribute('aria-sort') !== 'descending';
      table.querySelectorAll('th[aria-sort]').forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => {
        const value = row.children[column].dataset.v;
        return value === undefined ? row.children[column].textContent : value === '' ? -Infinity : Number(value);
      };
      const rows = [...body.rows].filter(r => !r.classList.contains('control'));
      rows.sort((a, b) => (key(a) < key(b) ? 1 : key(a) > key(b) ? -1 : 0) * (down ? 1 : -1));
      body.prepend(...rows);
      sorted();
    };
    head.addEventListener('click', sort);
    head.addEventListener('keydown', event => { if (event.key === 'Enter') sort(); });
  });
}
// Draws when the window or the medium is another.
function redraws() {
  let waiting = 0;
  const redraw = onPaper => () => { paper = onPaper; draw(); };
  addEventListener('beforeprint', redraw(true));
  addEventListener('afterprint', redraw(false));
  addEventListener('resize', () => { clearTimeout(waiting); waiting = setTimeout(draw, 150); });
}
/// Once everything is defined.
function opens() {
  sortTables(remember);
  redraws();
  addEventListener('hashchange', () => { recall(); draw(); });
  recall();
  draw();
}
)js";

} // namespace sluice::detail
