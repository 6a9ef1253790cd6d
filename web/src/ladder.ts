// The ladder of what-ifs: what each repair of each object would give, as intervals on one scale.
import { NARROW } from "./chart";
import type { Data } from "./data";
import { type Child, h, picture, s, section } from "./dom";
import { brief, gain, percent, shorten } from "./format";
import type { Predicted, Report, WhatIf } from "./report";
import { saveable } from "./save";
import { tip } from "./tip";
import { repair } from "./words";

interface Row {
  name: string;
  what: string;
  predicted: Predicted;
  remote: number | null;
  strong?: boolean;
  /** Where a point that was not predicted comes from. */
  source?: string;
  /** What a point is predicted from, if not from counted lines. */
  from?: string | null;
}

/** What came out, beside what was predicted. */
export interface Outcome {
  name: string;
  what: string;
  predicted: Predicted;
  remote: number | null;
  source: string;
}

const WIDTH = NARROW ? 760 : 960;
const LEFT = NARROW ? 380 : 440;
/** Where what is done begins, and letters of the objects before it. */
const WHAT = NARROW ? 195 : 240;
const NAME = NARROW ? 27 : 34;
const ROW = 24;

function predictions(w: WhatIf): Row[] {
  const rows: Row[] = w.repairs.map((r) => ({
    name: r.objects.length === 0 ? "whole program" : shorten(brief(r.objects.join(", ")), NAME),
    what: repair(r.repair),
    predicted: r.predicted,
    remote: r.remote_share,
  }));
  rows.sort((a, b) => a.predicted.ratio - b.predicted.ratio);
  const parts = (list: { object: string }[]): string => shorten(list.map((p) => brief(p.object)).join(", "), NAME);
  if (w.placeable) rows.unshift({ name: parts(w.placeable.parts), what: "best without a recompile", predicted: w.placeable.predicted, remote: w.placeable.remote_share, strong: true });
  // One repair for all objects comes before a better one that gains little more.
  const best = w.best && Math.round(100 * Math.min(...w.repairs.map((r) => r.predicted.ratio))) < Math.round(100 * w.best.predicted.ratio) ? "simplest within 3 % of the best" : "best combination";
  if (w.best) rows.unshift({ name: parts(w.best.parts), what: best, predicted: w.best.predicted, remote: w.best.remote_share, strong: true });
  rows.push({ name: "every line local", what: "bound for any placement", predicted: w.all_local, remote: 0 });
  if (w.one_node) rows.push({ name: "threads and memory", what: `all on node ${w.one_node.node}`, predicted: w.one_node.predicted, remote: 0 });
  return rows;
}

/** By samples: what findings repair, and all of it. */
function bySamples(r: Report): Row[] {
  const g = r.sampled_gain;
  if (!g) return [];
  const rows: Row[] = r.findings.flatMap((f) => {
    if (f.predicted === null) return [];
    const what = [...new Set(f.repairs.map((p) => repair(p.repair)))].join("; ");
    return [{ name: shorten(brief(f.objects.join(", ")), NAME), what, predicted: f.predicted, remote: null, from: f.predicted_from }];
  });
  return [...rows, { name: "every line local", what: "bound for any placement", predicted: g.every_line_local, remote: 0, from: g.source }];
}

/** `outcomes` are the points that a second recording, or runs, gave. */
export function ladder(d: Data, outcomes: Outcome[] = []): HTMLElement {
  const w = d.report.what_if;
  const why = `unknown: ${d.report.what_if_why ?? "nothing was counted"}`;
  const sampled = w ? [] : bySamples(d.report);
  if (!w && sampled.length === 0 && outcomes.length === 0) return section("ladder", "What if", null, h("p", { class: "none" }, why));
  const rows: Row[] = [...outcomes.map((o) => ({ ...o, strong: true })), ...(w ? predictions(w) : sampled)];
  const lead = `${w || sampled.length > 0 ? "Predicted time" : `Predictions: ${why}. Time`} with a repair over the time without: the dot is the best guess, the line its range. Left is faster.${outcomes.length > 0 ? " The diamond is what came out." : ""}`;
  const most = Math.max(1.05, ...rows.map((r) => r.predicted.high));
  const least = Math.min(0.9, ...rows.map((r) => r.predicted.low));
  const x = (ratio: number): number => LEFT + ((ratio - least) / (most - least)) * (WIDTH - LEFT - 20);
  const height = rows.length * ROW + 34;
  const shapes: Child[] = [];
  for (let tick = Math.ceil(least * 10) / 10; tick <= most; tick += 0.1) {
    const at = x(tick);
    const one = Math.abs(tick - 1) < 1e-9;
    shapes.push(s("line", { x1: at, x2: at, y1: 18, y2: height - 6, class: one ? "one" : "grid" }));
    shapes.push(s("text", { x: at, y: 12, class: "small", "text-anchor": "middle" }, one ? "as it is" : tick.toFixed(1)));
  }
  rows.forEach((one, at) => {
    const y = 32 + at * ROW;
    const p = one.predicted;
    const kind = p.high < 1 ? "better" : p.low > 1 ? "worse" : "same";
    const lines = (): string[] => [
      `${one.name}: ${one.what}`,
      `time: ${gain(p)}; ratio ${p.ratio.toFixed(2)} (${p.low.toFixed(2)} to ${p.high.toFixed(2)})`,
      `remote share then ${percent(one.remote)}; now ${percent(w ? w.remote_share : d.report.remote_share)}`,
      `source: ${one.source ?? one.from ?? "predicted by the time model from counted lines"}`,
    ];
    const row = s(
      "g",
      { class: `step ${kind}${one.source ? " outcome" : ""}` },
      s("rect", { x: 0, y: y - 13, width: WIDTH, height: ROW - 2, class: "hit" }),
      s("text", { x: 0, y: y + 4, class: one.strong ? "strong" : null }, one.name),
      s("text", { x: WHAT, y: y + 4, class: "small" }, one.what),
      s("line", { x1: x(p.low), x2: x(p.high), y1: y, y2: y, class: "range" }),
      one.source ? s("path", { d: `M${x(p.ratio)} ${y - 8}l8 8l-8 8l-8 -8z`, class: "dot" }) : s("circle", { cx: x(p.ratio), cy: y, r: one.strong ? 5.5 : 4, class: "dot" }),
    );
    shapes.push(tip(row, lines));
  });
  const not = (w?.not_worth ?? []).map((n) => h("li", {}, `${n.objects.join(", ")}: ${n.kind.replace(/_/g, " ")}, time ${gain(n.predicted)}`));
  return section(
    "ladder",
    "What if",
    lead,
    saveable(h("figure", { class: "ladder" }, picture(WIDTH, height, "predicted time of each repair", ...shapes)), "what if"),
    not.length > 0 ? h("div", {}, h("h4", {}, "findings not worth a change"), h("ul", {}, ...not)) : null,
  );
}
