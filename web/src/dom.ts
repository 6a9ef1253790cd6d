// Elements from values. Names come from recordings that anybody may have made: they become text nodes and nothing else.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A picture of this size; `label` is what it says to those who do not see it. */
export function picture(width: number, height: number, label: string, ...children: Child[]): SVGElement {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...children);
}

export function section(id: string, title: string, lead: Child, ...children: Child[]): HTMLElement {
  const heading = h("h2", {}, title);
  return h("section", { id, "aria-label": title }, heading, lead ? h("p", { class: "lead" }, lead) : null, ...children);
}

/** The hatching of what is unknown; pictures refer to it by its name. */
export function hatch(): SVGElement {
  const pattern = s("pattern", { id: "hatch", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("path", { d: "M0 0V4" }));
  return s("svg", { id: "hatches", "aria-hidden": "true" }, s("defs", {}, pattern));
}
