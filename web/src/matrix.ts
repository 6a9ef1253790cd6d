// Node × node: whose threads use whose memory.
import { type Child, h, picture, s } from "./dom";
import { number, percent } from "./format";
import { saveable } from "./save";
import { tip } from "./tip";

/** Beyond this, cells have no numbers. */
const NUMBERS = 8;

/** Rows are nodes of threads, columns nodes of memory; entries are shares of all. */
export function matrix(title: string, ids: number[], rows: number[][], lines: (share: number) => string[]): HTMLElement {
  const n = ids.length;
  const cell = n <= 4 ? 46 : n <= NUMBERS ? 29 : Math.max(6, Math.floor(250 / n));
  const left = 66;
  const top = 34;
  const most = Math.max(...rows.flat(), 1e-9);
  const shapes: Child[] = [
    s("text", { x: left, y: 12, class: "small" }, "memory on node"),
    s("text", { x: 0, y: top + 14, class: "small" }, "threads"),
    s("text", { x: 0, y: top + 28, class: "small" }, "on node"),
  ];
  const numbered = (at: number): boolean => n <= NUMBERS || at % Math.ceil(n / NUMBERS) === 0;
  ids.forEach((id, at) => {
    if (!numbered(at)) return;
    shapes.push(s("text", { x: left + at * cell + cell / 2, y: 28, class: "small", "text-anchor": "middle" }, String(id)));
    shapes.push(s("text", { x: left - 6, y: top + at * cell + cell / 2 + 4, class: "small", "text-anchor": "end" }, String(id)));
  });
  rows.forEach((row, from) =>
    row.forEach((share, page_node) => {
      const [x, y] = [left + page_node * cell, top + from * cell];
      const kind = from === page_node ? "near" : "far";
      const box = s("rect", { x, y, width: cell - 2, height: cell - 2, class: "cell" });
      const inside = s("rect", { x, y, width: cell - 2, height: cell - 2, class: `fill ${kind}`, "fill-opacity": share > 0 ? 0.15 + (0.85 * share) / most : 0 });
      const text = `threads on node ${ids[from]}, memory on node ${ids[page_node]}: ${percent(share)}`;
      shapes.push(box, tip(inside, () => [text, ...lines(share)], n <= NUMBERS));
      if (n <= NUMBERS) {
        const text = share > 0 && share < 0.00095 ? "<0.1" : number(share);
        const dark = share / most > 0.55;
        shapes.push(s("text", { x: x + cell / 2 - 1, y: y + cell / 2 + 4, class: `number${dark ? " on" : ""}${n > 4 ? " tight" : ""}`, "text-anchor": "middle" }, text));
      }
    }),
  );
  const width = left + n * cell + 2;
  const figure = h("figure", { class: "matrix" }, h("figcaption", {}, title), picture(width, top + n * cell, `${title}, in percent`, ...shapes));
  return saveable(figure, `matrix ${title}`);
}
