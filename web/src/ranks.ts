// The page of a run of several ranks: which ranks lose time to far memory, by host and rank.
import { type Child, h, s, section } from "./dom";
import { brief, count, digits, percent, percentCi, plural, shorten } from "./format";
import { place } from "./marks";
import type { Interval } from "./report";
import { saveable } from "./save";
import { table } from "./table";
import { tip } from "./tip";

type Verdict = "affected" | "clean" | "unknown";

interface Spread {
  ranks: number;
  min: number;
  median: number;
  max: number;
}
interface Rank {
  rank: number;
  host: string;
  state: string;
  end: string;
  class: number | null;
  seconds: number | null;
  cpu_seconds: number | null;
  samples: number | null;
  verdict: Verdict | null;
  verdict_why: string | null;
  far_share: number | null;
  far_share_ci: Interval | null;
  waiting_share: number | null;
  differs: string[];
}
interface Common {
  name: string;
  allocated_at: string | null;
  ranks: number;
  time_share: Spread;
  far_time_share: Spread | null;
  worst_rank: number | null;
}
interface CommonPhase {
  name: string;
  calls: Spread | null;
  seconds: Spread | null;
  own_seconds: Spread | null;
  far_share: Spread | null;
  longest_rank: number | null;
}
export interface Ranks {
  run: {
    launch: string;
    launcher: string;
    size: number | null;
    command: string[];
    judged_on: string | null;
    assumed: boolean;
    ranks: Rank[];
    missing: number[];
    missing_count: number | null;
    classes: { ranks: number[]; of: { program: string; verdict: Verdict; findings: string[] } }[];
    seconds: Spread | null;
    cpu_seconds: Spread | null;
    far_share: Spread | null;
    waiting_share: Spread | null;
    objects: Common[];
    phases: CommonPhase[];
    notes: string[];
  };
  verdict: Verdict;
  about: { recording: string; sources: never[] };
  words: { version: string; headline: string };
}

const CHIPS = { affected: "affected", clean: "clean", unknown: "no verdict" };
const LEFT = 110;
/** Of so many ranks, cells have numbers. */
const NUMBERS = 256;

const words = (r: Rank): string => {
  if (r.verdict === null) return "no summary";
  return `at risk ${percentCi(r.far_share, r.far_share_ci)} of its time${r.far_share_ci ? ", 95 % interval" : ""}; ${CHIPS[r.verdict]}`;
};

/** Hosts from above, their ranks from the left; the stronger, the more time is at risk. */
function heat(d: Ranks): HTMLElement {
  const { ranks } = d.run;
  const numbered = ranks.length <= NUMBERS;
  const [wide, high] = numbered ? [36, 24] : [12, 12];
  const WIDTH = numbered ? 758 : 1070;
  const across = Math.floor((WIDTH - LEFT) / wide);
  const hosts = new Map<string, Rank[]>();
  for (const one of ranks) hosts.set(one.host, [...(hosts.get(one.host) ?? []), one]);
  const most = Math.max(...ranks.map((one) => one.far_share ?? 0), 0.1);
  const shapes: Child[] = [];
  const cells: { rank: Rank; x: number; y: number }[] = [];
  let y = 4;
  for (const host of [...hosts.keys()].sort()) {
    const numbers = (hosts.get(host) ?? []).map((one) => one.rank);
    const inOrder = numbers.every((rank, at) => rank === (numbers[0] ?? 0) + at);
    shapes.push(s("text", { x: 0, y: y + high - 7 + (numbered ? 0 : 5) }, shorten(host, 9)));
    if (inOrder) shapes.push(s("text", { x: LEFT - 8, y: y + high - 7 + (numbered ? 0 : 5), class: "small", "text-anchor": "end" }, numbers.length === 1 ? `rank ${numbers[0]}` : `${numbers[0]}\u2013${numbers.at(-1)}`));
    (hosts.get(host) ?? []).forEach((rank, at) => {
      if (at > 0 && at % across === 0) y += high;
      const x = LEFT + (at % across) * wide;
      cells.push({ rank, x, y });
      const share = rank.far_share;
      shapes.push(s("rect", { x, y, width: wide - 2, height: high - 2, class: rank.verdict !== null && share === null ? "nu" : "cell" }));
      if (share !== null) shapes.push(s("rect", { x, y, width: wide - 2, height: high - 2, class: "fill far", "fill-opacity": share > 0 ? 0.08 + (0.92 * share) / most : 0 }));
      const text = rank.verdict === null ? "\u00d7" : share === null ? "?" : percent(share).replace(" %", "");
      if (numbered) shapes.push(s("text", { x: x + wide / 2 - 1, y: y + high / 2 + 3, "text-anchor": "middle", class: `number tight${(share ?? 0) / most > 0.55 ? " on" : ""}` }, text));
    });
    y += high + 6;
  }
  const mark = s("rect", { width: wide - 2, height: high - 2, class: "brush", visibility: "hidden" });
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${y}`, width: WIDTH, role: "img", tabindex: "0", "aria-label": `time at risk on far memory of ${plural(ranks.length, "rank")} on ${plural(hosts.size, "host")}` }, ...shapes, mark);
  const answer = h("div", { class: "answer", role: "status" });
  let now = 0;
  const show = (at: number): void => {
    now = Math.max(0, Math.min(cells.length - 1, at));
    const cell = cells[now];
    if (!cell) return;
    mark.setAttribute("x", String(cell.x));
    mark.setAttribute("y", String(cell.y));
    mark.setAttribute("visibility", "visible");
    answer.textContent = `rank ${cell.rank.rank} on ${cell.rank.host}: ${words(cell.rank)}; ${cell.rank.end}${cell.rank.samples === null ? "" : `; source: ${count(cell.rank.samples)} samples`}`;
  };
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const scale = WIDTH / box.width;
    const { clientX, clientY } = event as MouseEvent;
    const [x, top] = [(clientX - box.left) * scale, (clientY - box.top) * scale];
    const at = cells.findIndex((cell) => x >= cell.x && x < cell.x + wide && top >= cell.y && top < cell.y + high);
    if (at >= 0) show(at);
  });
  svg.addEventListener("focus", () => show(now));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[(event as KeyboardEvent).key];
    if (!step) return;
    event.preventDefault();
    show(now + step);
  });
  const lead = `Percent of each rank's time that is at risk on far memory, strongest at ${percent(most)}. Hatched and ?: unknown; \u00d7: no summary.`;
  return h("div", {}, h("h3", {}, "Time at risk on far memory, by host and rank"), h("p", { class: "lead" }, lead), saveable(h("figure", { class: "heat" }, svg, answer), "hosts and ranks"));
}

function spread(name: string, of: Spread | null, say: (x: number) => string, all: number): HTMLElement {
  const text = of === null ? "unknown" : say(of.median);
  const lines = of === null ? ["unknown of all ranks"] : [`least ${say(of.min)}, median ${say(of.median)}, most ${say(of.max)}`, of.ranks < all ? `of ${of.ranks} ranks; unknown of ${all - of.ranks}` : `of all ${plural(all, "rank")}`];
  const one = of === null || say(of.min) === say(of.max);
  const range = of === null || one ? null : h("span", { class: "quiet" }, ` ${say(of.min)} to ${say(of.max)}`);
  return tip(h("div", { class: "stat" }, h("b", {}, text, range), h("small", {}, of === null ? name : one ? `${name}, in each rank` : `${name}, median and range`)), () => lines);
}

/** `0.08 / 0.32 / 0.56 s`: over the ranks; one figure where they are the same, and the unit once. */
function over(x: Spread | null, say: (x: number) => string): string {
  if (x === null) return "unknown";
  const [min = "", median = "", max = ""] = [x.min, x.median, x.max].map(say);
  if (min === max) return min;
  const unit = / \S+$/.exec(max)?.[0] ?? "";
  return [min, median, max].map((text) => (unit && text.endsWith(unit) ? text.slice(0, -unit.length) : text)).join(" / ") + unit;
}

function phases(rows: CommonPhase[], share: (x: Spread | null) => string, seconds: (x: number) => string): HTMLElement {
  return table<CommonPhase>({
    id: "phase-table",
    label: "phases",
    rows,
    text: (p) => p.name,
    columns: [
      { name: "phase", about: "its path: a => b is b in a", ascending: true, key: (p) => p.name, cell: (p) => h("span", { class: "name" }, shorten(p.name, 60)) },
      { name: "calls", about: "how often it began", number: true, key: (p) => p.calls?.max ?? null, cell: (p) => over(p.calls, count) },
      { name: "in all", about: "time in it and in phases in it", number: true, key: (p) => p.seconds?.max ?? null, cell: (p) => over(p.seconds, seconds) },
      { name: "own time", about: "in it and in no phase in it", number: true, key: (p) => p.own_seconds?.max ?? null, cell: (p) => over(p.own_seconds, seconds) },
      { name: "far", about: "of its own samples whose node is known", number: true, key: (p) => p.far_share?.max ?? null, cell: (p) => share(p.far_share) },
      { name: "longest in rank", about: "rank that spent most time in it itself", number: true, key: (p) => p.longest_rank, cell: (p) => (p.longest_rank === null ? "unknown" : String(p.longest_rank)) },
    ],
  });
}

export function ranksPage(d: Ranks): { first: HTMLElement[]; rest: () => HTMLElement[] } {
  const r = d.run;
  const seconds = (x: number): string => `${digits(x)} s`;
  const of = r.size === null ? "an unknown number" : count(r.size);
  const hosts = new Set(r.ranks.map((one) => one.host)).size;
  const run = h("p", { class: "run" }, h("code", {}, shorten(r.command.join(" "), 90)), ` ${r.ranks.length} of ${of} ranks recorded, on ${plural(hosts, "host")}; ${r.launcher} ${r.launch}${r.judged_on === null ? "" : ` \u00b7 ${r.judged_on}${r.assumed ? " (assumed)" : ""}`}`);
  const gone = r.missing_count ? h("p", { class: "why" }, `${plural(r.missing_count, "rank")} without a recording: ${r.missing.slice(0, 20).join(", ")}${r.missing_count > 20 ? ", \u2026" : ""}`) : null;
  const header = h("header", { id: "verdict", class: d.verdict }, h("div", { class: "chip" }, CHIPS[d.verdict]), h("div", { class: "words" }, h("h1", {}, d.words.headline), gone, run));
  const all = r.ranks.length;
  const stats = h("div", { class: "stats" }, spread("at risk", r.far_share, percent, all), spread("time", r.seconds, seconds, all), spread("cpu time", r.cpu_seconds, seconds, all), spread("waiting for other threads or ranks", r.waiting_share, percent, all));
  const list = table<Rank>({
    id: "rank-table",
    label: "ranks",
    rows: r.ranks,
    text: (one) => `${one.rank} ${one.host} ${one.end} ${one.differs.join(" ")} ${one.verdict ?? "no summary"}`,
    columns: [
      { name: "rank", about: "its number", number: true, ascending: true, key: (one) => one.rank, cell: (one) => String(one.rank) },
      { name: "host", about: "where it ran", ascending: true, key: (one) => one.host, cell: (one) => one.host },
      { name: "verdict", about: "does NUMA placement cost it time", ascending: true, key: (one) => one.verdict, cell: (one) => (one.verdict === null ? h("span", { class: "none" }, "no summary") : tip(h("span", { class: `word ${one.verdict}` }, CHIPS[one.verdict]), () => [one.verdict_why ?? ""])) },
      { name: "at risk", about: "share of its time at risk on far memory", number: true, key: (one) => one.far_share, cell: (one) => tip(h("span", { class: one.far_share === null ? "figure none" : "figure" }, percent(one.far_share)), () => [words(one), one.samples === null ? "source: none" : `source: ${count(one.samples)} samples`]) },
      { name: "time", about: "wall time", number: true, key: (one) => one.seconds, cell: (one) => (one.seconds === null ? "unknown" : seconds(one.seconds)) },
      { name: "cpu time", about: "of its program", number: true, key: (one) => one.cpu_seconds, cell: (one) => (one.cpu_seconds === null ? "unknown" : seconds(one.cpu_seconds)) },
      { name: "waiting", about: "share of its samples that wait for other threads or ranks", number: true, key: (one) => one.waiting_share, cell: (one) => percent(one.waiting_share) },
      { name: "end", about: "what became of it", ascending: true, key: (one) => one.end, cell: (one) => one.end },
      { name: "differs from most in", about: "in what it differs from the largest class", ascending: true, key: (one) => one.differs.join("; ") || null, cell: (one) => one.differs.join("; ") },
    ],
  });
  const shares = (x: Spread | null): string => over(x, percent);
  const objects = table<Common>({
    id: "object-table",
    label: "objects",
    rows: r.objects,
    text: (o) => `${o.name} ${o.allocated_at ?? ""}`,
    columns: [
      { name: "object", about: "its name", ascending: true, key: (o) => o.name, cell: (o) => h("span", { class: "name", title: o.name }, shorten(brief(o.name), 50)) },
      { name: "ranks", about: "in whose summaries it is", number: true, key: (o) => o.ranks, cell: (o) => count(o.ranks) },
      { name: "time", about: "share of the ranks' time: least, median, most", number: true, key: (o) => o.time_share.max, cell: (o) => shares(o.time_share) },
      { name: "at risk", about: "share of the ranks' time on its far pages: least, median, most", number: true, key: (o) => o.far_time_share?.max ?? null, cell: (o) => shares(o.far_time_share) },
      { name: "most in rank", about: "rank with the largest part at risk", number: true, key: (o) => o.worst_rank, cell: (o) => (o.worst_rank === null || o.far_time_share === null ? "unknown" : o.far_time_share.max === 0 ? "none" : String(o.worst_rank)) },
      { name: "allocated at", about: "line of the program that allocates it", ascending: true, key: (o) => o.allocated_at, cell: (o) => place(o.allocated_at, null) },
    ],
  });
  const alike = r.classes.map((one) => h("li", {}, `${plural(one.ranks.length, "rank")} (${one.ranks.slice(0, 12).join(", ")}${one.ranks.length > 12 ? ", \u2026" : ""}): ${one.of.program}, ${CHIPS[one.of.verdict]}${one.of.findings.length > 0 ? `, ${one.of.findings.map((f) => f.replace(/_/g, " ")).join(", ")}` : ""}`));
  const map = h("section", { id: "hosts", "aria-label": "Hosts" }, stats, heat(d));
  const rest = (): HTMLElement[] => [
    section("ranks", "Ranks", "A rank's own page: nearfar report RUN --rank N --html FILE.", list),
    section("objects", "Objects", "Over ranks: least / median / most.", objects),
    r.phases.length === 0 ? null : section("phases", "Phases", "Over the ranks that were in it: least / median / most.", phases(r.phases, shares, seconds)),
    section("alike", "Ranks that are alike", null, h("ul", {}, ...alike)),
    r.notes.length === 0 ? null : section("notes", "Notes", null, h("ul", {}, ...r.notes.map((note) => h("li", {}, note)))),
  ].filter((part) => part !== null);
  return { first: [header, map], rest };
}
