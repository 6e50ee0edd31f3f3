// SPDX-License-Identifier: Apache-2.0
// The page of one comparison.
import {addressed, addressSystems} from './address.js';
import {attainment, attainmentCsv, attainmentLegend} from './attainment.js';
import {systemControls} from './controls.js';
import {costCharts, costCsv} from './costs.js';
import {distributionCsv, distributionLegend, distributions} from './distributions.js';
import {at, emptied} from './dom.js';
import {iteration, iterationAddress, iterationCsv, letPickIteration} from './iteration.js';
import {time} from './numbers.js';
import {openPage} from './page.js';
import {pairCharts, pairCsv} from './pairs.js';
import {
  chosen,
  colourOnly,
  data,
  deposits,
  manySeeds,
  maxHighlighted,
  ranked,
  scaleName,
  scales,
  shown,
  sloText,
  systems
} from './systems.js';
import {showStretch, stretchAddress, timeCards, timeCsv, timeLegend} from './timeline.js';
import {letPickWhy, whyAddress, whyBarsCsv, whyCharts, whyLinesCsv} from './why.js';

/// Chooses the systems in colour until the reader chooses: the best systems that fetch layers while they run, the best
/// that do not (so that both kinds appear), and the control as a reference. Never chooses the same figures twice, and
/// chooses variants, whose names begin with their system's name, only if no other systems are left.
function chooseNames() {
  if (chosen.byReader) return;
  const able = ranked(shown()).filter(s => !s.same), control = able.filter(s => s.control).slice(0, 1);
  const isVariant = s => able.some(o => o !== s && s.name.startsWith(o.name));
  const rivals = [...able.filter(s => !isVariant(s)), ...able.filter(isVariant)].filter(s => !s.control);
  const fetches = s => s.iteration !== null && s.iteration.transfers.length > 0;
  const fetching = rivals.filter(fetches), others = rivals.filter(s => !fetches(s));
  const room = maxHighlighted - control.length, half = Math.max(Math.ceil(room / 2), room - others.length);
  const picked = [...fetching.slice(0, half), ...others.slice(0, room - Math.min(half, fetching.length))];
  colourOnly([...able.filter(s => picked.includes(s)), ...control].map(s => s.name));
}

const fill = (className, text) =>
    document.querySelectorAll(`.${className}`).forEach(place => { place.textContent = text; });
/// Returns the systems of a section, as text.
function partText() {
  const scale = scales.length > 1 ? `SLO ${scaleName(chosen.scale)}, ` : '';
  const deposit = chosen.deposit ? ', with token deposit' : ', without deposit';
  return `${scale}${sloText(shown()[0] || {}, time)}${deposits.length > 1 ? deposit : ''}`;
}
function draw() {
  chooseNames();
  systemControls(x => `${scaleName(x)} (${time(systems.find(s => s.scale === x).slo)})`);
  fill('seed', manySeeds ? ` Of seed ${data.seeds[0]}, the first of ${data.seeds.length}.` : '');
  fill('part', partText());
  emptied('attainment-legend').append(attainmentLegend());
  attainment(emptied('attainment'));
  pairCharts();
  costCharts(emptied('costs'));
  emptied('cdf-legend').append(distributionLegend());
  distributions(emptied('cdf'));
  emptied('time-legend').append(timeLegend());
  timeCards(emptied('time'));
  whyCharts();
  iteration(emptied('iteration'));
}

addressSystems();
addressed.push(iterationAddress, stretchAddress, whyAddress);
at('whole').addEventListener('click', () => showStretch(null));
letPickIteration();
letPickWhy();
openPage({
  draw,
  csv: {
    attainment: attainmentCsv,
    'pair-charts': pairCsv,
    costs: costCsv,
    cdf: distributionCsv,
    time: timeCsv,
    'why-bars': whyBarsCsv,
    'why-lines': whyLinesCsv,
    iteration: iterationCsv,
  },
});
