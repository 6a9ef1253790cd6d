// Node × node: whose threads use whose memory.
import { type Child, h, picture, s } from "./dom";
import { number, percent } from "./format";
import { saveable } from "./save";
import { tip } from "./tip";

/** Beyond this, cells have no numbers. */
const NUMBERS = 8;

/** A matrix, and what gives it other shares. */
export interface LiveMatrix {
  figure: HTMLElement;
  set: (rows: number[][]) => void;
}

/** Rows are nodes of threads, columns nodes of memory; entries are shares of all. */
export function matrix(title: string, ids: number[], rows: number[][], lines: (share: number) => string[]): HTMLElement {
  return liveMatrix(title, ids, rows, lines).figure;
}

/** One whose shares change: its shapes stay, because making hundreds anew takes longer than a frame. */
export function liveMatrix(title: string, ids: number[], rows: number[][], lines: (share: number) => string[]): LiveMatrix {
  const n = ids.length;
  const cell = n <= 4 ? 46 : n <= NUMBERS ? 29 : Math.max(6, Math.floor(250 / n));
  const left = 66;
  const top = 34;
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
  const cells: { share: number; inside: SVGElement; text: SVGElement | null }[] = [];
  for (let from = 0; from < n; from++)
    for (let page_node = 0; page_node < n; page_node++) {
      const [x, y] = [left + page_node * cell, top + from * cell];
      const box = s("rect", { x, y, width: cell - 2, height: cell - 2, class: "cell" });
      const inside = s("rect", { x, y, width: cell - 2, height: cell - 2, class: `fill ${from === page_node ? "near" : "far"}` });
      const text = n <= NUMBERS ? s("text", { x: x + cell / 2 - 1, y: y + cell / 2 + 4, "text-anchor": "middle" }) : null;
      const own = { share: 0, inside, text };
      cells.push(own);
      shapes.push(box, tip(inside, () => [`threads on node ${ids[from]}, memory on node ${ids[page_node]}: ${percent(own.share)}`, ...lines(own.share)], n <= NUMBERS), text);
    }
  const set = (rows: number[][]): void => {
    const most = Math.max(...rows.flat(), 1e-9);
    cells.forEach((own, at) => {
      own.share = rows[Math.floor(at / n)]?.[at % n] ?? 0;
      own.inside.setAttribute("fill-opacity", String(own.share > 0 ? 0.15 + (0.85 * own.share) / most : 0));
      if (!own.text) return;
      own.text.textContent = own.share > 0 && own.share < 0.00095 ? "<0.1" : number(own.share);
      own.text.setAttribute("class", `number${own.share / most > 0.55 ? " on" : ""}${n > 4 ? " tight" : ""}`);
    });
  };
  set(rows);
  const width = left + n * cell + 2;
  const figure = h("figure", { class: "matrix" }, h("figcaption", {}, title), picture(width, top + n * cell, `${title}, in percent`, ...shapes));
  return { figure: saveable(figure, `matrix ${title}`), set };
}
