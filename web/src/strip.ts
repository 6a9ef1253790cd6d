// Page strips: along an object's addresses, on which node its pages are, who touched them first, who uses them, how far
// that is, and where the pages would be with the repair.
import { type Child, h, s } from "./dom";
import { percent, size } from "./format";
import type { Report, Run, Strip, ThreadRun } from "./report";
import { saveable } from "./save";
import { tip } from "./tip";
import { repair, threadOf } from "./words";

const WIDTH = 512;

export const nodeClass = (r: Report, id: number | null): string =>
  id === null ? "nu" : `n${Math.max(0, r.machine.node_ids.indexOf(id)) % 8}`;

export const mixWords = (run: Run | undefined): string =>
  run === undefined || run.mix.length === 0 ? "nothing seen" : run.mix.map(([node, part]) => `${node === null ? "unknown" : `node ${node}`} ${part} %`).join(", ");

/** One path for all boxes of a kind: a strip has at most a few elements per row, however many parts. */
class Paths {
  private readonly paths = new Map<string, string>();
  box(kind: string, x: number, y: number, width: number, height: number): void {
    if (width > 0 && height > 0) this.paths.set(kind, `${this.paths.get(kind) ?? ""}M${x} ${y}h${width}v${height}h${-width}z`);
  }
  elements(): Child[] {
    return [...this.paths].map(([kind, d]) => s("path", { d, class: kind }));
  }
}

interface Line {
  name: string;
  height: number;
  draw: (paths: Paths, y: number, height: number, texts: Child[]) => void;
  at: (bin: number) => string;
}

function ofRuns(r: Report, strip: Strip, name: string, runs: Run[], scale = 1): Line {
  const step = WIDTH / strip.bins;
  return {
    name,
    height: 16 * scale,
    draw: (paths, y, height, texts) => {
      let bin = 0;
      for (const run of runs) {
        const [x, width] = [bin * step, run.bins * step];
        let top = y;
        const all = run.mix.reduce((sum, m) => sum + m[1], 0);
        for (const [node, part] of run.mix) {
          const high = (height * part) / all;
          paths.box(nodeClass(r, node), x, top, width, high);
          top += high;
        }
        const [first] = run.mix;
        if (run.mix.length === 1 && first && width >= 26 && height >= 12)
          texts.push(s("text", { x: x + width / 2, y: y + height / 2 + 4, class: "in", "text-anchor": "middle" }, first[0] === null ? "?" : String(first[0])));
        bin += run.bins;
      }
    },
    at: (bin) => `${name}: ${mixWords(find(runs, bin) ?? { bins: 0, mix: [] })}`,
  };
}

export const runAt = (runs: Run[], bin: number): Run | undefined => find(runs, bin);

function find<T extends { bins: number }>(runs: T[], bin: number): T | undefined {
  let end = 0;
  return runs.find((run) => (end += run.bins) > bin);
}

const threadAt = (r: Report, runs: ThreadRun[], bin: number): string => threadOf(r, find(runs, bin)?.tid ?? null);

function lines(r: Report, strip: Strip, scale: number): Line[] {
  const step = WIDTH / strip.bins;
  const far: Line = {
    name: "far share",
    height: 14 * scale,
    draw: (paths, y, height) =>
      strip.remote.forEach((share, bin) => {
        const x = bin * step;
        if (share === null) return;
        paths.box("near", x, y, step, height * (1 - share));
        paths.box("far", x, y + height * (1 - share), step, height * share);
      }),
    at: (bin) => `far share: ${percent(strip.remote[bin] ?? null)}${strip.exact ? ", counted" : ", of samples"}`,
  };
  const list = [
    ofRuns(r, strip, "node of the page", strip.node, scale),
    ofRuns(r, strip, "first touch", strip.first_touch, scale),
    ofRuns(r, strip, "main user", strip.user, scale),
    far,
  ];
  if (strip.repaired) list.push(ofRuns(r, strip, "with the repair", strip.repaired, scale));
  return list;
}

/** The strip in a table: small, without words. */
export function smallStrip(r: Report, strip: Strip): HTMLElement {
  return drawn(r, strip, false);
}

/** The strip with names, an axis and the answers to every place. */
export function strip(r: Report, of: Strip): HTMLElement {
  return drawn(r, of, true);
}

function drawn(r: Report, of: Strip, large: boolean): HTMLElement {
  const rows = lines(r, of, large ? 1.2 : 0.32);
  const left = large ? 112 : 0;
  const gap = large ? 3 : 1;
  const paths = new Paths();
  const texts: Child[] = [];
  let y = 1;
  const labels: Child[] = [];
  for (const row of rows) {
    row.draw(paths, y, row.height, large ? texts : []);
    if (large) labels.push(s("text", { x: 0, y: y + row.height / 2 + 4, class: "small" }, row.name));
    y += row.height + gap;
  }
  const object = r.objects[of.object];
  const end = of.axis === "offset" ? size(of.extent) : `${of.extent} allocations`;
  if (large) {
    labels.push(s("text", { x: left, y: y + 12, class: "small" }, of.axis === "offset" ? "0" : "first allocation"));
    labels.push(s("text", { x: left + WIDTH, y: y + 12, class: "small", "text-anchor": "end" }, end));
    y += 16;
  }
  const name = object?.name ?? "";
  const label = `${name}: ${rows.map((row) => row.at(0)).join("; ")} at its start; ${rows.map((row) => row.at(of.bins - 1)).join("; ")} at its end`;
  const svg = s(
    "svg",
    { viewBox: `0 0 ${left + WIDTH} ${y}`, class: large ? "strip" : "strip small", role: "img", "aria-label": label, preserveAspectRatio: large ? "xMidYMid" : "none" },
    s("g", { transform: `translate(${left})` }, ...paths.elements(), ...texts),
    ...labels,
  );
  if (!large) return h("span", { class: "smallstrip" }, svg);
  const answer = h("div", { class: "answer", role: "status" });
  const cursor = s("line", { y1: 0, y2: y - 16, class: "cursor", visibility: "hidden" });
  svg.append(cursor);
  let bin = 0;
  const show = (at: number): void => {
    bin = Math.max(0, Math.min(of.bins - 1, at));
    const x = left + ((bin + 0.5) * WIDTH) / of.bins;
    cursor.setAttribute("x1", String(x));
    cursor.setAttribute("x2", String(x));
    cursor.setAttribute("visibility", "visible");
    const from = (bin / of.bins) * of.extent;
    const to = ((bin + 1) / of.bins) * of.extent;
    const where = of.axis === "offset" ? `${size(from)} to ${size(to)}` : `allocations ${Math.floor(from) + 1} to ${Math.max(Math.floor(from) + 1, Math.ceil(to))}`;
    const thread = of.user_thread.length > 0 ? `; used most by ${threadAt(r, of.user_thread, bin)}` : "";
    answer.textContent = `${where}: ${rows.map((row) => row.at(bin)).join("; ")}; touched first by ${threadAt(r, of.first_thread, bin)}${thread}`;
  };
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event as MouseEvent).clientX - box.left) * ((left + WIDTH) / box.width) - left;
    show(Math.floor((x / WIDTH) * of.bins));
  });
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("focus", () => show(bin));
  svg.addEventListener("keydown", (event) => {
    const key = (event as KeyboardEvent).key;
    const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      show(bin + step * ((event as KeyboardEvent).shiftKey ? 16 : 1));
    }
  });
  const meant = of.repair === null ? null : h("p", { class: "lead" }, `repair: ${repair(of.repair)}`);
  return saveable(h("figure", { class: "stripbox" }, svg, answer, meant), `pages of ${name}`);
}

/** Which colour is which node. */
export function nodeLegend(r: Report, hatched = "unknown", blank = "blank: no use seen"): HTMLElement {
  const keys = r.machine.node_ids.slice(0, 8).map((id) => h("span", { class: "key" }, h("i", { class: nodeClass(r, id) }), `node ${id}`));
  const more = r.machine.node_ids.length > 8 ? "; colours repeat from node 8 on" : "";
  return tip(h("span", { class: "legend" }, ...keys, h("span", { class: "key" }, h("i", { class: "unknown" }), `${hatched}${more}`), h("span", {}, blank)), () => ["rows of a strip, from above: node of the page, first touch, main user, far share, and where the repair puts the pages"]);
}
