// SPDX-License-Identifier: Apache-2.0
// Draws a server's live page as an SVG, from the boxes, texts and figures that the browser laid out, down to a
// selector's element. Makes docs/images/live.svg.
// usage: CHROMIUM=chromium node picture.mjs http://127.0.0.1:8080/live FILE.svg [REQUEST]     (opens its details)
import { writeFileSync } from 'node:fs';
import { open } from './chromium.mjs';

/// Runs on the page.
function draw(until) {
  const round = (value) => String(Math.round(value * 10) / 10);
  const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
  const clear = (color) => color === 'rgba(0, 0, 0, 0)' || color === 'transparent' || color === 'none';
  const hex = (color) => '#' + color.match(/\d+/g).slice(0, 3).map((part) => Number(part).toString(16).padStart(2, '0')).join('');
  const classes = new Map();
  const styled = (style) => {
    if (!classes.has(style)) classes.set(style, 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'[classes.size]);
    return classes.get(style);
  };
  const width = document.documentElement.clientWidth;
  const bottom = document.querySelector(until).getBoundingClientRect().bottom + scrollY + 16;
  let out = '';
  const shown = (box) => box.width > 0 && box.height > 0 && box.right > 0 && box.left < width && box.top + scrollY < bottom;

  const box = (element, style) => {
    const at = element.getBoundingClientRect();
    if (!shown(at)) return;
    const edge = parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== 'none' ? style.borderTopColor : null;
    const sides = ['Left', 'Right', 'Bottom'].every((side) => parseFloat(style[`border${side}Width`]) > 0);
    const place = `x="${round(at.left)}" y="${round(at.top + scrollY)}" width="${round(at.width)}" height="${round(at.height)}"`;
    const round_ = parseFloat(style.borderTopLeftRadius), radius = round_ ? ` rx="${style.borderTopLeftRadius.endsWith('%') ? at.width / 2 : round_}"` : '';
    const fill = clear(style.backgroundColor) ? 'none' : hex(style.backgroundColor);
    if (edge && sides) out += `<rect ${place}${radius} class="${styled(`fill:${fill};stroke:${hex(edge)}`)}"/>`;
    else {
      if (fill !== 'none') out += `<rect ${place}${radius} class="${styled(`fill:${fill}`)}"/>`;
      if (edge) out += `<path d="M${round(at.left)} ${round(at.top + scrollY)}h${round(at.width)}" class="${styled(`fill:none;stroke:${hex(edge)}`)}"/>`;
    }
    if (style.boxShadow !== 'none' && element.parentNode.id === 'facts') // thin lines between the figures
      out += `<rect ${place} class="${styled(`fill:none;stroke:${hex(style.boxShadow)};stroke-width:.5`)}"/>`;
  };
  /// One line of text for each line that the browser made.
  const text = (node, style) => {
    const range = document.createRange();
    let line = '', from = null;
    const write = (right) => {
      if (!line.trim()) return;
      const size = parseFloat(style.fontSize), y = from.top + scrollY + from.height / 2 + size * 0.35;
      const mono = style.fontFamily.includes('monospace') && !style.fontFamily.startsWith('system-ui') ? 'font-family:monospace;' : '';
      const look = styled(`${mono}font-size:${round(size)}px;${Number(style.fontWeight) > 500 ? 'font-weight:600;' : ''}fill:${hex(style.color)}`);
      out += `<text x="${round(from.left)}" y="${round(y)}" textLength="${round(right - from.left)}" class="${look}">${escape(line.trimEnd())}</text>`;
    };
    let right = 0;
    for (let i = 0; i < node.length; ++i) {
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const at = range.getBoundingClientRect();
      if (at.width === 0) continue;
      if (!shown(at)) return;
      if (from && Math.abs(at.top - from.top) > 3) {
        write(right);
        line = '';
        from = null;
      }
      if (!from) from = at;
      line += node.data[i] === '\n' ? ' ' : node.data[i];
      if (node.data[i].trim()) right = at.right;
    }
    if (from) write(right);
  };
  const figure = (element) => {
    const at = element.getBoundingClientRect();
    if (!shown(at)) return;
    const ratio = element.getAttribute('preserveAspectRatio');
    out += `<svg x="${round(at.left)}" y="${round(at.top + scrollY)}" width="${round(at.width)}" height="${round(at.height)}" viewBox="${element.getAttribute('viewBox') ?? `0 0 ${at.width} ${at.height}`}"${ratio ? ` preserveAspectRatio="${ratio}"` : ''}>`;
    for (const one of element.querySelectorAll('path,text')) {
      const style = getComputedStyle(one);
      if (one.tagName === 'text') {
        const anchor = one.getAttribute('text-anchor');
        out += `<text x="${one.getAttribute('x')}" y="${one.getAttribute('y')}"${anchor ? ` text-anchor="${anchor}"` : ''} class="${styled(`font-size:11px;fill:${hex(style.fill)}`)}">${escape(one.textContent)}</text>`;
        continue;
      }
      const line = clear(style.stroke) ? '' : `;stroke:${hex(style.stroke)};stroke-width:${style.strokeWidth.replace('px', '')}` + (style.strokeDasharray === 'none' ? '' : `;stroke-dasharray:${style.strokeDasharray.replaceAll('px', '')}`);
      out += `<path d="${one.getAttribute('d')}" class="${styled(`fill:${clear(style.fill) ? 'none' : hex(style.fill)}${line}`)}"/>`;
    }
    out += '</svg>';
  };
  /// Rounded edges are drawn over their content.
  const clips = (element, style) => {
    const at = element.getBoundingClientRect();
    if (style.overflowX === 'visible' || !parseFloat(style.borderTopLeftRadius) || !parseFloat(style.borderTopWidth) || !shown(at)) return;
    out += `<rect x="${round(at.left)}" y="${round(at.top + scrollY)}" width="${round(at.width)}" height="${round(at.height)}" rx="${parseFloat(style.borderTopLeftRadius)}" class="${styled(`fill:none;stroke:${hex(style.borderTopColor)}`)}"/>`;
  };
  const walk = (element) => {
    const style = getComputedStyle(element);
    if (style.display === 'none' || style.visibility === 'hidden' || element.classList.contains('skip')) return;
    if (element.tagName === 'svg') return figure(element);
    box(element, style);
    for (const child of element.childNodes)
      if (child.nodeType === Node.TEXT_NODE) text(child, style);
      else if (child.nodeType === Node.ELEMENT_NODE) walk(child);
    clips(element, style);
  };
  const ground = hex(getComputedStyle(document.body).backgroundColor);
  walk(document.querySelector('main'));
  const height = Math.ceil(bottom);
  const styles = [...classes].map(([style, name]) => `.${name}{${style}}`).join('');
  return `<!-- SPDX-License-Identifier: Apache-2.0 -->\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui,'Segoe UI',Roboto,Arial,'DejaVu Sans',sans-serif">` +
    `<style>${styles}</style><rect width="${width}" height="${height}" fill="${ground}"/>${out}</svg>\n`;
}

const [url, file, request] = process.argv.slice(2);
const browser = await open(url, 1280, 1400);
const on = (expression) => browser.read(expression);
for (let i = 0; i < 100 && !(await on(`document.querySelectorAll('#rows .row').length > 0`)); ++i) await new Promise((go) => setTimeout(go, 100));
if (request !== undefined) await on(`document.getElementById('r${Number(request)}')?.click()`);
await new Promise((go) => setTimeout(go, 1200)); // the details appear with the next update
writeFileSync(file, (await on(`(${draw})('#charts')`)).replaceAll('><', '>\n<'));
if (process.env.SHOT) writeFileSync(process.env.SHOT, Buffer.from((await browser.page('Page.captureScreenshot', { format: 'png' })).data, 'base64'));
await browser.end();
