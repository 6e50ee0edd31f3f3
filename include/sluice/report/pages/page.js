// SPDX-License-Identifier: Apache-2.0
// The common part of all result pages: draws and redraws, and stores the view in the address.
import {recall, remember} from './address.js';
import {node} from './dom.js';
import {dressFigures, dressTables} from './save.js';
import {restartPictures} from './svg.js';
import {sortTables} from './tables.js';

/// Whether the page is drawn for a printer. If so, each figure is drawn for a sheet of this width, and the style scales
/// it.
export let paper = false;
const sheet = 1280;
export const widthOf = (host, columns = 1) =>
    paper ? Math.floor((sheet - 24 * (columns - 1)) / columns)
          : Math.max(300, Math.floor(host.getBoundingClientRect().width || 600));

/// The kind's part: `draw` draws all pictures. `csv` maps each element that contains pictures to a function; from a
/// picture's figure and its index, the function returns the rows of its CSV file.
let kind = null;

/// Called after part of the page was drawn: updates its buttons and its address.
export function finish() {
  if (!paper) dressFigures(kind.csv);
  remember();
}
export function redraw() {
  restartPictures();
  kind.draw();
  finish();
}

export function button(label, pressed, act, icon = null) {
  const made = node('button', {type: 'button', 'aria-pressed': pressed}, icon, label);
  made.addEventListener('click', () => {
    act();
    redraw();
  });
  return made;
}

/// Redraws when the window or the medium changes.
function watchMedium() {
  const drawOn = onPaper => () => {
    paper = onPaper;
    redraw();
  };
  addEventListener('beforeprint', drawOn(true));
  addEventListener('afterprint', drawOn(false));
  let waiting = 0;
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 150);
  });
}

/// Called once, after everything else is defined.
export function openPage(opened) {
  kind = opened;
  dressTables();
  sortTables(remember);
  watchMedium();
  addEventListener('hashchange', () => {
    recall();
    redraw();
  });
  recall();
  redraw();
}
