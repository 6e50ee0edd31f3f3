// SPDX-License-Identifier: Apache-2.0
// The view in the address: its differences from the opening view. An unchanged page has a plain address.
import {chosen, deposits, maxHighlighted, names, scales} from './systems.js';
import {headOf} from './tables.js';

/// Each choice has a `name` in the address; `say`, which returns its value (null: as the page opened); and `take`,
/// which applies an address's value (null: none). Invalid values and values of other pages change nothing.
export const addressed = [];
export const oneOf = (list, said, otherwise) => list.find(value => String(value) === said) ?? otherwise;
/// Makes the choice of `view[key]` among some values; the page opens with `opening`.
export const choiceOf = (name, view, key, values, opening) => ({
  name,
  say: () => (view[key] ?? opening) === opening ? null : view[key],
  take: said => { view[key] = oneOf(values, said, opening);},
});

/// Returns the choices of `systemControls`.
export function addressSystems() {
  const opening = chosen.deposit;
  const deposit = {
    name: 'deposit',
    say: () => chosen.deposit === opening ? null
               : chosen.deposit           ? 'on'
                                          : 'off',
    take(said) {
      const wanted = {on: true, off: false}[said];
      chosen.deposit = deposits.includes(wanted) ? wanted : opening;
    },
  };
  const inColour = {
    name: 'systems',
    say: () => chosen.byReader ? chosen.names.join(',') : null,
    take(said) {
      chosen.byReader = said !== null;
      if (chosen.byReader) chosen.names = said.split(',').filter(n => names.includes(n)).slice(0, maxHighlighted);
    },
  };
  addressed.push(choiceOf('slo', chosen, 'scale', scales, chosen.scale), deposit, inColour);
}

function addressOf() {
  const parts = new URLSearchParams(), tables = [...document.querySelectorAll('table')];
  for (const {name, say} of addressed) {
    const said = say();
    if (said !== null) parts.set(name, said);
  }
  document.querySelectorAll('th[aria-sort]').forEach(head => {
    const order = head.getAttribute('aria-sort') === 'descending' ? 'down' : 'up';
    parts.append('sort', `${tables.indexOf(head.closest('table'))}.${head.cellIndex}.${order}`);
  });
  return parts.toString().replaceAll('%2C', ',');
}
export function remember() {
  const wanted = addressOf();
  if (wanted === location.hash.slice(1)) return;
  history.replaceState(null, '', wanted ? '#' + wanted : location.pathname + location.search);
}
export function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const {name, take} of addressed) take(parts.get(name));
  for (const sort of parts.getAll('sort')) {
    const [table, column, order] = sort.split('.');
    const head = headOf(document.querySelectorAll('table')[table])?.cells[column];
    if (head && head.hasAttribute('data-sort') && !head.hasAttribute('aria-sort'))
      for (let clicks = order === 'up' ? 2 : 1; clicks > 0; --clicks) head.click();
  }
}
