// A picture as an SVG file of its own, for papers.
import { h } from "./dom";

/** Properties that a picture takes from the page's style. */
const STYLE = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "paint-order", "font-size", "font-weight", "font-family", "visibility"];

function standalone(svg: SVGElement): string {
  const copy = svg.cloneNode(true) as SVGElement;
  const own = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, at) => {
    const of = own[at];
    if (!of) return;
    const style = getComputedStyle(of);
    for (const name of STYLE) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "aria-describedby"]) element.removeAttribute(name);
  });
  copy.querySelectorAll("[visibility=hidden]").forEach((element) => element.remove());
  const pattern = document.getElementById("hatch");
  if (pattern && copy.querySelector('[fill*="#hatch"], [stroke*="#hatch"]')) {
    const own = pattern.cloneNode(true) as SVGElement;
    own.querySelector("path")?.setAttribute("stroke", getComputedStyle(document.documentElement).getPropertyValue("--none").trim());
    copy.prepend(own);
  }
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

/** Adds a button that saves the figure's picture. */
export function saveable(figure: HTMLElement, name: string): HTMLElement {
  const save = (): void => {
    const svg = figure.querySelector("svg");
    if (!svg) return;
    const url = URL.createObjectURL(new Blob([standalone(svg)], { type: "image/svg+xml" }));
    const link = h("a", { href: url, download: `${name.replace(/[^\w-]+/g, "_").slice(0, 60)}.svg` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  figure.classList.add("saveable");
  figure.append(h("button", { type: "button", class: "save", title: "save this picture as SVG", "aria-label": `save ${name} as SVG`, click: save }, "SVG"));
  return figure;
}
