// Before and after: what a change or a repair brought.
import type { Data } from "./data";
import { basis, sampled, shareName } from "./data";
import { type Child, h, section } from "./dom";
import { brief, digits, gain, percent, percentCi, plural, shorten, signed } from "./format";
import { ladder, type Outcome } from "./ladder";
import { machinePicture } from "./machine";
import { barOf, type Chosen, chosenRows, farOf, remoteOf, shareOf } from "./followed";
import { bar, copyable, legend, place, share } from "./marks";
import { matrix } from "./matrix";
import type { Interval, Predicted, Report } from "./report";
import { nodeLegend, strip } from "./strip";
import { times as overTime } from "./time";
import { type Column, table } from "./table";
import { tip } from "./tip";

type Change = "repaired" | "better" | "no_effect" | "worse" | "unknown" | "only_before" | "only_after";

interface RowSide {
  rows: number[];
  share: number;
  remote_share: number | null;
  remote_share_ci: Interval | null;
  page_node_unknown_share: number;
  cpu_seconds: number | null;
}
interface RowChange {
  name: string;
  at: string | null;
  change: Change;
  before: RowSide | null;
  after: RowSide | null;
}
interface Side {
  recording: string;
  command: string[];
  wall_seconds: number | null;
  cpu_seconds: number | null;
  time: { seconds: number; low: number; high: number } | null;
  remote_share: number | null;
  remote_share_ci: Interval | null;
  samples: number;
}
export interface Compared {
  comparison: {
    verdict: Change;
    why: string;
    before: Side;
    after: Side;
    work_why: string | null;
    time: { ratio: number; low: number; high: number } | null;
    time_why: string | null;
    remote: { value: number; low: number; high: number } | null;
    remote_why: string | null;
    objects: RowChange[];
    functions: RowChange[];
    warnings: string[];
  };
  before: Report;
  after: Report;
  about: Data["about"];
  proof: { how: string; runs: number; gain: { value: number; low: number; high: number } | null; words: string } | null;
  words: Data["words"];
}

const WORDS: Record<Change, string> = {
  repaired: "repaired",
  better: "better",
  no_effect: "no effect",
  worse: "worse",
  unknown: "unknown",
  only_before: "only before",
  only_after: "only after",
};

const KIND: Record<Change, string> = { repaired: "clean", better: "clean", no_effect: "unknown", worse: "affected", unknown: "unknown", only_before: "unknown", only_after: "unknown" };

function big(name: string, before: string, after: string, lines: string[]): HTMLElement {
  return tip(h("div", { class: "big" }, h("small", {}, name), h("div", {}, h("span", { class: "was" }, before), h("span", { class: "arrow" }, " → "), h("b", {}, after))), () => lines);
}

/** More speed as time over the time before. */
function times(speed: { value: number; low: number; high: number }): Predicted {
  const ratio = (more: number): number => 1 / (1 + more);
  return { ratio: ratio(speed.value), low: ratio(speed.high), high: ratio(speed.low) };
}

function figures(d: Compared): HTMLElement {
  const c = d.comparison;
  const list: HTMLElement[] = [];
  if (d.proof?.gain) {
    const ratio = times(d.proof.gain);
    list.push(tip(h("div", { class: "big" }, h("small", {}, `time, ${d.proof.how}`), h("div", {}, h("b", {}, gain(ratio)))), () => [`${gain(ratio)}, ${plural(d.proof?.runs ?? 0, "run")} with and without the repair`, d.proof?.words ?? ""]));
  }
  const ms = (s: Side): string => (s.time ? `${digits(s.time.seconds * 1000)} ms` : "unknown");
  if (c.before.time && c.after.time) {
    const t = c.time;
    list.push(big("time of the counted work, modelled", ms(c.before), ms(c.after), [t ? `ratio ${t.ratio.toFixed(2)} (${t.low.toFixed(2)} to ${t.high.toFixed(2)})` : `not compared: ${c.time_why ?? ""}`, "source: lines counted on an emulated machine, time by its figures"]));
  } else if (c.before.cpu_seconds !== null && c.after.cpu_seconds !== null) {
    list.push(big("cpu time of the samples", `${digits(c.before.cpu_seconds)} s`, `${digits(c.after.cpu_seconds)} s`, [sampled(d.before), sampled(d.after), c.time_why ?? ""]));
  }
  const remote = c.remote ? `difference ${signed(c.remote.value)} points (${signed(c.remote.low)} to ${signed(c.remote.high)})` : `not compared: ${c.remote_why ?? ""}`;
  list.push(big(`far, of all ${basis(d.before)}`, percent(c.before.remote_share), percent(c.after.remote_share), [`${percentCi(c.before.remote_share, c.before.remote_share_ci)} before, ${percentCi(c.after.remote_share, c.after.remote_share_ci)} after`, remote]));
  return h("div", { class: "bigs" }, ...list);
}

function side(title: string, r: Report): HTMLElement {
  return h("div", { class: "side" }, h("h3", {}, title), machinePicture(r), r.node_matrix.length < 2 ? null : matrix(`${title}, % of ${basis(r)}`, r.machine.node_ids, r.node_matrix, () => [sampled(r)]));
}

function rows(id: "object-table" | "function-table", d: Compared): HTMLElement {
  const label = id === "object-table" ? "objects" : "functions";
  const list = d.comparison[label];
  const allocated: Column<RowChange> = { name: "at", about: "line that allocates it", ascending: true, key: (o) => o.at, cell: (o) => (o.at === null ? null : place(o.at, null)) };
  const of = (s: RowSide, r: Report): Chosen => chosenRows(r, label, s.rows);
  const side = (name: string, r: Report, get: (o: RowChange) => RowSide | null): Column<RowChange>[] => {
    const source = sampled(r);
    const shareIn = (s: RowSide): number | null => shareOf(of(s, r), s.share);
    const remoteIn = (s: RowSide): number | null => remoteOf(of(s, r), s.remote_share);
    const key = (value: (s: RowSide) => number | null) => (o: RowChange) => {
      const s = get(o);
      return s ? value(s) : null;
    };
    const cell = (make: (s: RowSide) => Child) => (o: RowChange) => {
      const s = get(o);
      return s ? make(s) : "–";
    };
    const whole = (s: RowSide): HTMLElement => {
      const known = s.remote_share === null ? 0 : s.share;
      return bar(known * (1 - (s.remote_share ?? 0)), known * (s.remote_share ?? 0), s.share - known);
    };
    return [
      { name: `${shareName(r)} ${name}`, follows: true, about: `share of all ${basis(r)}`, number: true, key: key(shareIn), cell: cell((s) => share(shareIn(s), null, source)) },
      { name: "", follows: true, about: "near, far and unknown parts of that share", key: key((s) => farOf(of(s, r), s.share * (s.remote_share ?? 0))), cell: (o) => (get(o) ? cell((s) => barOf(of(s, r), () => whole(s)))(o) : null) },
      { name: `far ${name}`, follows: true, about: "remote share where the node is known", number: true, key: key(remoteIn), cell: cell((s) => (of(s, r) === undefined ? share(s.remote_share, s.remote_share_ci, source, r.remote_share_exact) : share(remoteIn(s), null, source))) },
    ];
  };
  return table<RowChange>({
    id,
    label,
    rows: list,
    text: (o) => `${o.name} ${o.at ?? ""} ${WORDS[o.change]}`,
    columns: [
      { name: label.replace(/s$/, ""), about: "name", ascending: true, key: (o) => o.name, cell: (o) => h("span", { class: "name", title: o.name }, shorten(brief(o.name), 50)) },
      { name: "became", about: "what became of it, in the whole run", ascending: true, key: (o) => WORDS[o.change], cell: (o) => h("span", { class: `word ${KIND[o.change]}` }, WORDS[o.change]) },
      ...side("before", d.before, (o) => o.before),
      ...side("after", d.after, (o) => o.after),
      ...(label === "objects" ? [allocated] : []),
    ],
  });
}

/** Pages of the first objects, before and after. */
function strips(d: Compared): HTMLElement {
  const of = (r: Report, side: RowSide | null): HTMLElement | null => {
    const own = r.pictures.strips.find((s) => side?.rows.includes(s.object));
    return own ? strip(r, { ...own, repaired: null, repair: null }) : null;
  };
  const list = d.comparison.objects.slice(0, 6).flatMap((o) => {
    const [before, after] = [of(d.before, o.before), of(d.after, o.after)];
    return before || after ? [h("h4", {}, o.name), h("div", { class: "pair" }, h("div", {}, h("small", {}, "before"), before), h("div", {}, h("small", {}, "after"), after))] : [];
  });
  return section("pages", "Pages", h("span", {}, "Where each object's pages are, before and after. Colours of pages: ", nodeLegend(d.before)), ...list);
}

/** What was wrong before, and what to change in the source; commands, where a repair without a change was proven. */
function wrong(d: Compared): HTMLElement | null {
  const found = d.before.findings[0];
  if (!found) return null;
  const row = (name: string, ...values: Child[]): HTMLElement => h("div", { class: "row" }, h("dt", {}, name), h("dd", {}, ...values));
  const run = d.proof ? d.about.steps : [];
  return h(
    "article",
    { id: "wrong", class: "finding first" },
    h("h3", {}, `Before: ${d.words.findings[0] ?? found.kind}`),
    h("dl", {}, row("at", place(found.cause.at, found.cause.function), h("div", { class: "cause" }, brief(found.cause.text))), row(d.proof ? "to keep it" : "change", h("strong", {}, brief(found.advice))), ...run.map((step) => row("until then", copyable(step.command)))),
  );
}

export function compared(d: Compared): { head: HTMLElement; parts: HTMLElement[] } {
  const c = d.comparison;
  const words = (s: Side): string => s.command.join(" ");
  const command = (when: string, s: Side): Child => h("p", { class: "run" }, `${when}${s.recording === "" ? "" : `, ${s.recording}`}: `, h("code", {}, shorten(words(s), 90)));
  const once = words(c.before) === words(c.after) && c.before.recording === c.after.recording;
  const head = h(
    "header",
    { id: "verdict", class: KIND[c.verdict] },
    h("div", { class: "chip" }, WORDS[c.verdict]),
    h("div", { class: "words" }, h("h1", {}, d.words.headline), d.words.headline.includes(c.why.replace(/\.$/, "")) ? null : h("p", { class: "why" }, c.why), once ? command("before and after", c.before) : null, once ? null : command("before", c.before), once ? null : command("after", c.after)),
  );
  const minds = [c.work_why, ...c.warnings].filter((w): w is string => w !== null && w !== "");
  const summary = h(
    "section",
    { id: "summary2", "aria-label": "summary" },
    figures(d),
    wrong(d),
    h("div", { class: "pair" }, side("before", d.before), side("after", d.after)),
    legend(),
    minds.length > 0 ? h("ul", { class: "mind" }, ...minds.map((m) => h("li", {}, m))) : null,
  );
  const outcomes: Outcome[] = [];
  if (c.time) outcomes.push({ name: "the second recording", what: "time of its counted work", predicted: c.time, remote: c.after.remote_share, source: "lines counted in the second recording, time by the time model" });
  const runs = d.proof?.how === "measured" ? d.proof.gain : null;
  if (runs) outcomes.push({ name: "runs with the repair", what: "measured time", predicted: times(runs), remote: c.after.remote_share, source: `wall time of ${d.proof?.runs} runs with and without the repair` });
  const parts = [
    section("objects", "Objects", null, rows("object-table", d)),
    overTime(d.before, d.after),
    strips(d),
    ladder({ report: d.before, about: d.about, words: d.words }, outcomes),
    section("code", "Code", null, rows("function-table", d)),
  ];
  return { head, parts: [summary, ...parts.filter((part) => part !== null)] };
}
