// SPDX-License-Identifier: Apache-2.0
// The rows of buttons above the pictures, and the legend of the systems in colour.
import {at} from './dom.js';
import {button} from './page.js';
import {sample, stroke, swatch} from './svg.js';
import {chosen, deposits, maxHighlighted, names, scaleName, scales, slotOf} from './systems.js';

/// Makes a row of the controls, hidden if it has fewer than `least` buttons.
export function controlRow(id, buttons, least = 2) {
  at(id).replaceChildren(...buttons);
  at(id).parentElement.style.display = buttons.length < least ? 'none' : '';
}

/// Toggles whether a name is in colour; if there are too many, the oldest is removed.
function toggleName(name) {
  chosen.byReader = true;
  const others = chosen.names.filter(n => n !== name);
  chosen.names = slotOf(name) >= 0 ? others : [...others, name].slice(-maxHighlighted);
}
/// Makes the rows 'scales', 'deposits' and 'names': the systems that are shown, and those in colour.
export function systemControls(scaleText = scaleName) {
  controlRow('scales', scales.map(x => button(scaleText(x), x === chosen.scale, () => { chosen.scale = x; })));
  const depositText = d => d ? 'with deposit' : 'without deposit';
  controlRow('deposits',
             deposits.map(d => button(depositText(d), d === chosen.deposit, () => { chosen.deposit = d; })));
  const signOf = name => slotOf(name) >= 0 ? sample(slotOf(name), 22) : null;
  controlRow('names', names.map(n => button(n, slotOf(n) >= 0, () => toggleName(n), signOf(n))), 1);
}

export const grey = () => [swatch(stroke('M0 6h22', 'var(--other)', 1.2)), 'all others'];
/// Returns legend entries of the systems of `list` that are in colour, and of the others.
export function systemEntries(list) {
  const isControl = name => list.some(s => s.name === name && s.control);
  const entries = chosen.names.filter(n => list.some(s => s.name === n))
                      .map(n => [sample(slotOf(n)), n + (isControl(n) ? ' (control)' : '')]);
  if (list.some(s => slotOf(s.name) < 0)) entries.push(grey());
  return entries;
}
