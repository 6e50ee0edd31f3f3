// SPDX-License-Identifier: Apache-2.0
// The data of a result page, and the systems that the reader has selected.
//
// All kinds of pages (`data.kind`) have one schema: `seeds`; `systems`, a row for each run with its `name`, `deposit`,
// `control`, `scale` of the SLO, and its figures in `m`; for sweeps `axes`, and in `cells` the position of each row's
// `cell` on them. Other data of one kind are read by that kind's modules.
import {at} from './dom.js';
import {absent, digits, tidy} from './numbers.js';

export const data = JSON.parse(at('data').textContent);
export const systems = data.systems;
export const distinct = list => [...new Set(list)];
export const scales = distinct(systems.map(s => s.scale)).sort((a, b) => a - b);
export const deposits = distinct(systems.map(s => s.deposit)).sort();
export const names = distinct(systems.map(s => s.name));
export const manySeeds = (data.seeds || []).length > 1;
export const maxHighlighted = 6;

export const chosen = {
  scale: scales.includes(1.5) ? 1.5 : scales[0],
  deposit: deposits[0],
  names: [],       // in colour; a name's place is its colour
  byReader: false, // whether the reader chose the names
};
export const isChosen = s => s.scale === chosen.scale && s.deposit === chosen.deposit;
export const shown = () => systems.filter(isChosen);
export const highlighted = () => chosen.names.map(n => shown().find(s => s.name === n)).filter(Boolean);
export const slotOf = name => chosen.names.indexOf(name);
export const scaleName = x => '×' + tidy(digits)(x);
export const labelOf = s => s.name + (s.control ? ' (control)' : '') + (s.oracle ? ' (oracle)' : '');

/// Sets the names that are in colour. A name that is already in colour keeps its colour.
export function colourOnly(wanted) {
  const fresh = wanted.filter(n => !chosen.names.includes(n));
  chosen.names = [...chosen.names.map(n => wanted.includes(n) ? n : fresh.shift()).filter(Boolean), ...fresh];
}
/// Puts the first names of a ranking in colour, and a control as a reference.
export function colourBest(ranking, controls) {
  const control = controls.slice(0, 1);
  colourOnly([...ranking.slice(0, maxHighlighted - control.length), ...control]);
}

/// A livelocked engine's partial results are no attainment of the workload.
export const standing = s => s.livelocked ? -1 : s.m.slo_attainment ?? s.m.tbt_attainment ?? -1;
/// Orders rows: the best first, the control last, and duplicates right after their original.
export function ranked(list) {
  const sorted = [...list].sort((a, b) => (a.control - b.control) || (standing(b) - standing(a)));
  return sorted.filter(s => !s.same).flatMap(s => [s, ...sorted.filter(d => d.same === s.name)]);
}

/// Both ends of an unknown interval are null.
export const isKnown = interval => Boolean(interval) && !absent(interval[0]);
/// "34.6 ms a token". A row has no SLO if its requests have several.
export const sloText = (s, show) => Number.isFinite(s.slo) ? `${show(s.slo)} a token` : 'each request\'s own SLO';
