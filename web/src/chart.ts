// A picture over time: a cursor that answers, and a brush that chooses a part of the run.
import { at, choose, chosen, follow, partOf } from "./chosen";
import { type Child, h, picture, s } from "./dom";
import { digits } from "./format";
import type { Timeline } from "./report";
import { saveable } from "./save";

/** Pictures are made for the window that the page is opened in: smaller letters could not be read. */
export const NARROW = innerWidth <= 1000;
/** Of a chart that has the page to itself, and of one that has another beside it: their letters are equally large. */
export const WIDTH = NARROW ? 760 : 1000;
export const HALF = 560;
export const LEFT = 110;

export const seconds = (t: number): string => (t === 0 ? "0" : t < 1e-3 ? `${digits(t * 1e6)} µs` : t < 1 ? `${digits(t * 1000)} ms` : `${digits(t)} s`);

export interface Span {
  from: number;
  to: number;
}

interface Options {
  id: string;
  label: string;
  height: number;
  width?: number;
  span: Span;
  /** Of what a part can be chosen; null where only the cursor answers. */
  timeline: Timeline | null;
  shapes: (x: (t: number) => number) => Child[];
  answer: (t: number) => string;
}

export function chart(o: Options): HTMLElement {
  const { span, height, timeline, width = WIDTH } = o;
  const length = Math.max(1e-12, span.to - span.from);
  const x = (t: number): number => LEFT + (Math.max(0, Math.min(length, t - span.from)) / length) * (width - LEFT);
  const cursor = s("line", { y1: 0, y2: height, class: "cursor", visibility: "hidden" });
  const brush = s("rect", { y: 0, height, class: "brush", visibility: "hidden" });
  const ticks = (width < WIDTH ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => {
    const t = span.from + part * length;
    return s("text", { x: x(t), y: height + 13, class: "small", "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, seconds(t));
  });
  const svg = picture(width, height + 18, o.label, ...o.shapes(x), ...ticks);
  svg.classList.add("chart");
  // A layer of its own: what moves with the pointer does not make the browser draw the picture again.
  const over = s("svg", { viewBox: `0 0 ${width} ${height + 18}`, class: "over", "aria-hidden": "true" }, brush, cursor);
  const said = h("div", { class: "answer", role: "status" });
  let now = span.from;
  let from: number | null = null;
  const show = (t: number): void => {
    now = Math.max(span.from, Math.min(span.to, t));
    cursor.setAttribute("x1", String(x(now)));
    cursor.setAttribute("x2", String(x(now)));
    cursor.setAttribute("visibility", "visible");
    said.textContent = o.answer(now);
  };
  const timeOf = (event: Event): number => {
    const box = svg.getBoundingClientRect();
    const place = ((event as PointerEvent).clientX - box.left) * (width / box.width);
    return span.from + ((place - LEFT) / (width - LEFT)) * length;
  };
  const mark = (a: number, b: number): void => {
    if (!timeline) return;
    choose(timeline, { first: partOf(timeline, Math.min(a, b)), end: partOf(timeline, Math.max(a, b)) + 1 });
  };
  svg.addEventListener("pointermove", (event) => {
    const t = timeOf(event);
    show(t);
    if (from !== null) mark(from, t);
  });
  if (timeline) {
    svg.classList.add("brushable");
    svg.addEventListener("pointerdown", (event) => {
      if ((event as PointerEvent).button !== 0) return;
      from = timeOf(event);
      svg.setPointerCapture((event as PointerEvent).pointerId);
      event.preventDefault();
      (svg as unknown as HTMLElement).focus({ preventScroll: true });
    });
    svg.addEventListener("pointerup", (event) => {
      // A click without a drag lets go of what was chosen.
      if (from !== null && Math.abs(timeOf(event) - from) < length / 400) choose(timeline, null);
      from = null;
    });
    svg.addEventListener("pointercancel", () => (from = null));
    follow(() => {
      const of = chosen(timeline);
      brush.setAttribute("visibility", of ? "visible" : "hidden");
      if (!of) return;
      const [a, b] = [x(at(timeline, of.first)), x(at(timeline, of.end))];
      brush.setAttribute("x", String(a));
      brush.setAttribute("width", String(Math.max(1, b - a)));
    }, svg);
  }
  let anchor: number | null = null;
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("focus", () => show(now));
  svg.addEventListener("keydown", (event) => {
    const { key, shiftKey } = event as KeyboardEvent;
    if (key === "Escape" && timeline && chosen(timeline)) {
      anchor = null;
      choose(timeline, null);
    }
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    event.preventDefault();
    if (shiftKey) anchor ??= now;
    else anchor = null;
    show(now + (step * length) / 100);
    if (anchor !== null) mark(anchor, now);
  });
  return saveable(h("figure", { id: o.id, class: "timechart" }, svg, over, said), o.label);
}
