// SPDX-License-Identifier: Apache-2.0
// A request's layers by the place of their KV: a bar, and the same in words.
import {el, node} from './dom.js';

export const places = [
  ['d', 'on the device'],
  ['h', 'on the host'],
  ['s', 'hidden states on the host'],
  ['k', 'hidden states on the device'],
  ['n', 'nowhere: rebuilt each step'],
];
/// Groups adjacent layers with the same place: [place, first, how many].
const runsOf = layers => [...layers.matchAll(/(.)\1*/g)].map(run => [run[1], run.index, run[0].length]);

/// Full height: on the device; lower half: on the host; a slit with a mark above: hidden states on the host; a slit
/// with a mark at the top: hidden states on the device; a line: nowhere.
function shapeOf(place, from, length) {
  if (place === 'd') return `M${from} 0h${length}v8h${- length}z`;
  if (place === 'h') return `M${from} 4.6h${length}v3.4h${- length}z`;
  const slit = `M${from} 6h${length}v2h${- length}zM${from} ${place === 'k' ? 0 : 4}h${length}v.8h${- length}z`;
  return place === 's' || place === 'k' ? slit : `M${from} 7.2h${length}v.8h${- length}z`;
}
const placePath = (place, d) => el('path', {d, class: place === 'n' || place === 'k' ? 's' : place});

export const layerBar = () => el('svg', {class: 'bar', preserveAspectRatio: 'none', role: 'img'});
export function drawLayers(bar, layers) {
  if (bar.dataset.layers === layers) return;
  bar.dataset.layers = layers;
  bar.setAttribute('viewBox', `0 0 ${Math.max(1, layers.length)} 8`);
  const parts = {d: '', h: '', s: '', k: '', n: ''};
  const gap = layers.length > 64 ? 0 : 0.12; // between layers, while a reader can see it
  for (const [place, from, length] of runsOf(layers)) {
    if (!gap)
      parts[place] += shapeOf(place, from, length);
    else
      for (let i = 0; i < length; ++i) parts[place] += shapeOf(place, from + i + gap / 2, 1 - gap);
  }
  bar.replaceChildren(...Object.entries(parts).filter(([, d]) => d).map(([place, d]) => placePath(place, d)));
  bar.setAttribute('aria-label', placesText(layers));
}
export function placesText(layers) {
  if (layers === '') return 'no KV';
  const counts = places.map(([place, name]) => [[...layers].filter(l => l === place).length, name]);
  return counts.filter(([n]) => n).map(([n, name]) => `${n} ${name}`).join(', ');
}
/// Returns the layers that are in a place: 3, 7, 11–13.
export function whichLayers(layers, place) {
  const runs = runsOf(layers).filter(run => run[0] === place);
  return runs.map(([, from, length]) => length === 1 ? `${from}` : `${from}–${from + length - 1}`).join(', ');
}
/// `k` has an entry only once a request has it: only simulated systems do.
export const placeEntries = () => places.map(([place, name]) => {
  const size = {width: 14, height: 16, viewBox: '0 0 1 8', preserveAspectRatio: 'none', 'aria-hidden': 'true'};
  const shown = place === 'k' ? {hidden: '', 'data-place': place} : {};
  return node('li', shown, el('svg', size, placePath(place, shapeOf(place, 0, 1))), name);
});
