// SPDX-License-Identifier: Apache-2.0
// The script of a page of results that every such page has: buttons, tables that sort, drawing anew.
#pragma once

#include <string_view>

namespace sluice::detail {

/// Stands behind `html_script_base`. What comes behind it defines `draw()`, and ends with `sortTables()` and
/// `redraws()`.
inline constexpr std::string_view html_script_page = R"js(
// What every page has ------------------------------------------------------------------------------------------------
const at = id => document.getElementById(id);
let paper = false;
function button(label, pressed, act, icon) {
  const node = document.createElement('button');
  node.type = 'button';
  node.setAttribute('aria-pressed', pressed);
  if (icon) node.append(icon);
  node.append(label);
  node.addEventListener('click', () => { act(); draw(); });
  return node;
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
)js";

} // namespace sluice::detail
