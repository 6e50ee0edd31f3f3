// SPDX-License-Identifier: Apache-2.0
// Nodes of the page. All text goes in as text nodes and attributes, never as HTML.

export const at = id => document.getElementById(id);

/// Sets each attribute that is not null.
function withAttributes(made, attributes, children) {
  for (const key in attributes)
    if (attributes[key] !== null) made.setAttribute(key, attributes[key]);
  made.append(...children.flat().filter(child => child !== null));
  return made;
}

/// Makes an HTML node.
export const node = (tag, attributes = {}, ...children) =>
    withAttributes(document.createElement(tag), attributes, children);

/// An SVG node.
export const svgNamespace = 'http://www.w3.org/2000/svg';
export const el = (tag, attributes = {}, ...children) =>
    withAttributes(document.createElementNS(svgNamespace, tag), attributes, children);

/// Removes a node's children.
export function emptied(id) {
  at(id).replaceChildren();
  return at(id);
}
