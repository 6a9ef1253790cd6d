// Pages × time: along an object's addresses, on which node its pages were at each look, and what had moved.
import { seconds } from "./chart";
import { type Child, h, s } from "./dom";
import type { PagesOverTime, Report } from "./report";
import { saveable } from "./save";
import { mixWords, nodeClass, runAt } from "./strip";
import { size } from "./format";

const LEFT = 112;
const WIDTH = 512;
const ROW = 10;

export function pagesOverTime(r: Report, name: string, extent: number, of: PagesOverTime): HTMLElement {
  const step = WIDTH / of.bins;
  const height = of.looks.length * ROW;
  const paths = new Map<string, string>();
  const box = (kind: string, d: string): void => void paths.set(kind, `${paths.get(kind) ?? ""}${d}`);
  const texts: Child[] = [];
  of.looks.forEach((look, row) => {
    const y = row * ROW;
    let bin = 0;
    for (const run of look.node) {
      const all = run.mix.reduce((sum, m) => sum + m[1], 0);
      let top = y;
      for (const [node, part] of run.mix) {
        const high = ((ROW - 1) * part) / Math.max(1, all);
        box(nodeClass(r, node), `M${bin * step} ${top}h${run.bins * step}v${high}h${-run.bins * step}z`);
        top += high;
      }
      bin += run.bins;
    }
    for (const at of look.moved) box("tick", `M${at * step} ${y}h${step}`);
    if (row === 0 || row === of.looks.length - 1 || row % 4 === 0) texts.push(s("text", { x: 0, y: y + ROW - 1, class: "small" }, `looked at ${seconds(look.at_s)}`));
  });
  const svg = s(
    "svg",
    { viewBox: `0 0 ${LEFT + WIDTH} ${height + 16}`, class: "strip", role: "img", tabindex: "0", "aria-label": `pages of ${name} over time, ${of.looks.length} looks` },
    s("g", { transform: `translate(${LEFT})` }, ...[...paths].map(([kind, d]) => s("path", { d, class: kind }))),
    ...texts,
    s("text", { x: LEFT, y: height + 12, class: "small" }, "0"),
    s("text", { x: LEFT + WIDTH, y: height + 12, class: "small", "text-anchor": "end" }, size(extent)),
  );
  const answer = h("div", { class: "answer", role: "status" });
  let [row, bin] = [0, 0];
  const show = (toRow: number, toBin: number): void => {
    row = Math.max(0, Math.min(of.looks.length - 1, toRow));
    bin = Math.max(0, Math.min(of.bins - 1, toBin));
    const look = of.looks[row];
    if (!look) return;
    const moved = look.moved.includes(bin) ? "; its node is another than at the look before" : "";
    answer.textContent = `${seconds(look.at_s)}, ${size((bin / of.bins) * extent)} to ${size(((bin + 1) / of.bins) * extent)}: ${mixWords(runAt(look.node, bin))}${moved}. Source: looks at page nodes.`;
  };
  svg.addEventListener("mousemove", (event) => {
    const { left, top, width } = svg.getBoundingClientRect();
    const scale = (LEFT + WIDTH) / width;
    const { clientX, clientY } = event as MouseEvent;
    show(Math.floor(((clientY - top) * scale) / ROW), Math.floor(((clientX - left) * scale - LEFT) / step));
  });
  svg.addEventListener("focus", () => show(row, bin));
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[(event as KeyboardEvent).key];
    if (!move) return;
    event.preventDefault();
    show(row + (move[0] ?? 0), bin + (move[1] ?? 0));
  });
  const moves = of.looks.reduce((sum, look) => sum + look.moved.length, 0);
  const lead = moves === 0 ? "No part moved to another node between looks." : "A line above a part: most of its pages are on another node than at the look before.";
  return saveable(h("figure", { class: "stripbox" }, h("h4", {}, "pages over time, from above"), svg, answer, h("p", { class: "lead" }, lead)), `pages of ${name} over time`);
}
