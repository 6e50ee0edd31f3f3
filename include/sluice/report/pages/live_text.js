// SPDX-License-Identifier: Apache-2.0
// Numbers that change while they are displayed, and nodes that are written only when they change.
import {absent, digits, percentText, time} from './numbers.js';

/// Durations and ages. An age has no more digits than a reader can follow.
export const duration = v => !absent(v) && Math.abs(v) < 1e-9 ? '0 s' : time(v);
export const age = v => v < 10 ? Math.max(0, v).toFixed(1) + ' s' : v < 120 ? v.toFixed(0) + ' s' : duration(v);
/// Formats a count with grouped thousands.
export const grouped = v => absent(v) ? '–' : v.toLocaleString('en');
export const many = (n, one, more = one + 's') => `${grouped(n)} ${n === 1 ? one : more}`;
export const shareText = (part, whole) => percentText(whole > 0 ? part / whole : null);
export function short(v) {
  if (absent(v)) return '–';
  if (Math.abs(v) >= 1e6) return digits(v / 1e6) + 'M';
  if (Math.abs(v) >= 1e4) return digits(v / 1e3) + 'k';
  return Number.isInteger(v) ? String(v) : digits(v);
}

/// Unchanged text is not rewritten, so that a selection and a screen reader's position are kept.
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}
export function mark(where, name, value) {
  if (where.getAttribute(name) !== String(value)) where.setAttribute(name, value);
}
