// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

export const absent = v => v === null || v === undefined || Number.isNaN(v);

/// Formats with three significant digits, without an exponent if possible.
export function digits(v) {
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (a >= 100) return v.toFixed(0);
  if (a >= 10) return v.toFixed(1);
  if (a >= 1) return v.toFixed(2);
  if (a >= 0.1) return v.toFixed(3);
  return a >= 0.0005 ? v.toFixed(4) : v.toExponential(1);
}

/// Formats seconds in a suitable unit.
export function time(v) {
  if (absent(v)) return '–';
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (a < 1e-3) return digits(v * 1e6) + ' µs';
  if (a < 1) return digits(v * 1e3) + ' ms';
  if (a < 600) return digits(v) + ' s';
  return a < 7200 ? digits(v / 60) + ' min' : digits(v / 3600) + ' h';
}

/// Formats a share in percent, without the sign. Only a share of exactly 1 is 100.
export function percent(v) {
  if (absent(v)) return '–';
  const text = (100 * v).toFixed(1);
  if (text === '100.0' && v < 1) return '>99.9';
  return text === '0.0' && v > 0 ? '<0.1' : text;
}
export const percentText = v => absent(v) ? '–' : percent(v) + ' %';

export function bytes(v) {
  if (absent(v)) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  while (Math.abs(v) >= 1000 && unit < units.length - 1) {
    v /= 1000;
    ++unit;
  }
  return (unit === 0 ? v.toFixed(0) : digits(v)) + ' ' + units[unit];
}

/// Formats a number without a unit.
export const plain = v => absent(v) ? '–' : Math.abs(v) >= 1e5 ? digits(v / 1e3) + 'k' : digits(v);

export const count = v => absent(v) ? '–' : v >= 1e6 ? digits(v / 1e6) + 'M' : String(Math.round(v));

/// Formats a difference with its sign.
export const signed = v => (v < 0 ? '−' : '+') + digits(Math.abs(v));

/// Returns the result of `show` without trailing zeros, for labels of an axis.
export const tidy = show => v => show(v).replace(/(\.\d*?)0+(?!\d)/, '$1').replace(/\.(?!\d)/, '');
