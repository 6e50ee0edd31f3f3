// SPDX-License-Identifier: Apache-2.0
// Tables that sort by any column; a second click reverses the order. Controls stay below.

/// Returns the row of heads that name columns.
export const headOf = table => [...table?.tHead?.rows ?? []].at(-1);

/// Returns a row's sort key: the cell's number if it has one, else its text.
function sortKey(cell) {
  const value = cell.dataset.v;
  return value === undefined ? cell.textContent : value === '' ? -Infinity : Number(value);
}
function sortBy(head) {
  const table = head.closest('table'), body = table.tBodies[0];
  const column = [...head.parentElement.children].indexOf(head);
  const down = head.getAttribute('aria-sort') !== 'descending';
  table.querySelectorAll('th[aria-sort]').forEach(other => other.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = row => sortKey(row.children[column]);
  const rows = [...body.rows].filter(r => !r.classList.contains('control'));
  rows.sort((a, b) => (key(a) < key(b) ? 1 : key(a) > key(b) ? -1 : 0) * (down ? 1 : -1));
  body.prepend(...rows);
}
/// `sorted` is called after each change of an order.
export function sortTables(sorted) {
  document.querySelectorAll('th[data-sort]').forEach(head => {
    const sort = () => {
      sortBy(head);
      sorted();
    };
    head.addEventListener('click', sort);
    head.addEventListener('keydown', event => {
      if (event.key === 'Enter') sort();
    });
  });
}
