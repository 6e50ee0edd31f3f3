// SPDX-License-Identifier: Apache-2.0
// A result page in the system's Chromium: its visible content, and the files that its buttons save.
import assert from 'node:assert/strict';
import { open } from '../../serve/live/chromium.mjs';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/// A tab without a page.
export async function browse() {
  const tab = await open('about:blank');
  const { page, read } = tab;
  return {
    ...tab,
    /// Loads a page that keeps nothing of an earlier one. `drawn`: an element that exists once the page is drawn.
    async visit(address, drawn) {
      await page('Page.navigate', { url: 'about:blank' });
      await page('Page.navigate', { url: address });
      for (let tries = 0; tries < 100; ++tries) {
        if (await read(`document.readyState === 'complete' && document.querySelectorAll('${drawn}').length > 0`).catch(() => false)) return;
        await sleep(50);
      }
      assert.fail('the page draws nothing');
    },
    hash: () => read('location.hash'),
    click: (host, text) =>
      read(`[...document.querySelectorAll('#${host} button')].find(b => b.textContent.includes(${JSON.stringify(text)})).click()`),
    /// Each picture as saved, the rows of its numbers, and the number of its figure's buttons.
    pictures: () => read(`Object.keys(kind.csv).flatMap(id => [...at(id).querySelectorAll('figure')]
      .filter(f => f.querySelector('svg[role=img]')).map((f, i) => {
        const saved = svgOf(f.querySelector('svg[role=img]'));
        const parsed = new DOMParser().parseFromString(saved, 'image/svg+xml');
        return { id, wrong: parsed.querySelector('parsererror')?.textContent, variables: saved.includes('var(--'), buttons: f.querySelectorAll('.save button').length,
                 texts: parsed.querySelectorAll('text').length, rows: kind.csv[id](f, i), csv: csvOf(kind.csv[id](f, i)) };
      }))`),
    /// The files that clicks on the buttons matching `selector` save: [name, text].
    saved: (selector) => read(`(async () => {
      const files = [], make = document.createElement;
      document.createElement = function (tag) {
        const node = make.call(document, tag);
        if (tag === 'a') node.click = () => files.push([node.download, node.href]);
        return node;
      };
      for (const button of document.querySelectorAll('${selector}')) button.click();
      document.createElement = make;
      return Promise.all(files.map(async ([name, href]) => [name, await (await fetch(href)).text()]));
    })()`),
    /// Every button that covers text of a picture or a table, on screens of several widths.
    async covered(visit) {
      const found = [];
      for (const width of [420, 700, 1000, 1400]) {
        await page('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false });
        await visit();
        const seen = await read(`(() => {
          const buttons = [...document.querySelectorAll('.save button')];
          const words = [...document.querySelectorAll('figure svg text, figure svg path, caption b')];
          const named = [...document.querySelectorAll('figcaption, caption')].flatMap(head => [...head.childNodes].filter(n => n.nodeType === Node.TEXT_NODE)
            .map(n => { const range = document.createRange(); range.selectNodeContents(n); return { box: range.getBoundingClientRect(), what: n.textContent }; }));
          const boxes = [...words.map(n => ({ box: n.getBoundingClientRect(), what: n.textContent || n.nodeName })), ...named];
          const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
          return { buttons: buttons.length, words: boxes.length, covered: buttons.flatMap(button => {
            const own = button.getBoundingClientRect();
            return boxes.filter(({ box }) => box.width > 0 && meets(own, box)).map(({ what }) => button.getAttribute('aria-label') + ' on ' + what);
          }) };
        })()`);
        found.push({ width, ...seen });
      }
      await page('Emulation.clearDeviceMetricsOverride');
      return found;
    },
  };
}

/// Parses RFC 4180 CSV into objects by the names of its first line.
export function readCsv(text) {
  const rows = [];
  let row = [], cell = '', quoted = false;
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[++i];
      else quoted = false;
    } else if (c === '"') {
      assert.equal(cell, '', 'a quote within a cell');
      quoted = true;
    } else if (c === ',' || c === '\n') {
      row.push(cell);
      cell = '';
      if (c === '\n') { rows.push(row); row = []; }
    } else cell += c;
  }
  assert.ok(!quoted && row.length === 0 && cell === '', 'a line that does not end');
  const [head, ...body] = rows;
  assert.equal(new Set(head).size, head.length, `two columns of one name: ${head}`);
  return body.map((cells) => {
    assert.equal(cells.length, head.length);
    return Object.fromEntries(head.map((name, i) => [name, cells[i]]));
  });
}

/// Compares a cell with a report's number; a missing number is an empty cell.
export function checkNumber(cell, wanted, share, what) {
  if (wanted === null || wanted === undefined) assert.equal(cell, '', what);
  else assert.ok(cell !== '' && Math.abs(Number(cell) - Number(wanted)) <= share * Math.max(1e-3, Math.abs(Number(wanted))), `${what}: ${cell} is not ${wanted}`);
}
