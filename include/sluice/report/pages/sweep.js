// SPDX-License-Identifier: Apache-2.0
// The axes of a sweep: the varied settings and their values.
import {data} from './systems.js';

export const axes = data.axes;
export const cells = data.cells;
export const axisNamed = name => axes.find(a => a.name === name);
/// Returns a value as it was given: "64GB", not 64e9.
export function valueText(name, value) {
  const axis = axisNamed(name);
  return axis && axis.shown ? axis.shown[axis.values.indexOf(value)] : String(value);
}
/// Returns whether an axis of numbers is drawn logarithmic.
export function isWide(values) {
  const least = Math.min(...values), most = Math.max(...values);
  return least > 0 && most / least > 6;
}
export const inOrder = values => [...values].sort((a, b) => a - b);
/// Returns the distance between bars of neighbouring colours.
export const beside = (slot, step) => slot < 0 ? 0 : (slot - 2.5) * step;
