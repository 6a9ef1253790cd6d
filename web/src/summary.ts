// The first screen: the verdict, what to change and what that brings, and where the traffic goes.
import type { Data } from "./data";
import { basis, sampled, shareName } from "./data";
import { h } from "./dom";
import { between, brief, gain, percent, percentCi, shorten } from "./format";
import { machinePicture } from "./machine";
import { copyable, legend, place } from "./marks";
import { matrix } from "./matrix";
import type { Finding, Report } from "./report";
import { tip } from "./tip";
import { repair } from "./words";

const VERDICTS = { affected: "affected", clean: "clean", unknown: "no verdict" };

export function head(d: Data): HTMLElement {
  const r = d.report;
  const command = r.command.length === 0 ? "(attached)" : r.command.join(" ");
  const run = r.basis === "dram_lines" ? "" : `, ${r.seconds.toFixed(1)} s`;
  const machine = r.machine.assumed ? `judged on ${r.machine.name} (assumed), recorded on ${r.recorded_on}` : r.machine.name;
  return h(
    "header",
    { id: "verdict", class: r.verdict },
    h("div", { class: "chip" }, VERDICTS[r.verdict]),
    h(
      "div",
      { class: "words" },
      h("h1", {}, d.words.headline),
      h("p", { class: "why" }, brief(r.verdict_why)),
      h("p", { class: "run" }, h("code", {}, shorten(command, 90)), ` ${r.exit ?? "exit status unknown"}${run} · ${machine}`),
    ),
  );
}

/** What a finding's repair brings: predicted where lines were counted or the processor sampled loads, else what is at risk. */
function badge(r: Report, f: Finding): HTMLElement {
  // What cores wait for lines that they take from each other has no best guess.
  const shared = f.kind === "false_sharing" || f.kind === "contended_line";
  const time = shareName(r);
  const lines = [
    shared ? `at risk: up to ${percent(f.at_risk)} of the cores' time waits for these lines` : `at risk: ${percent(f.at_risk)} of the ${time} is on these objects' far pages`,
    f.predicted === null ? `no prediction: ${f.predicted_why ?? "unknown"}` : `predicted time after the repair over the time before, with its range; from ${f.predicted_from ?? "counted lines"}`,
    sampled(r),
  ];
  const text = f.predicted === null ? percent(f.at_risk) : shared ? between(f.predicted) : gain(f.predicted);
  const name = f.predicted === null ? `at risk, of the ${time}` : shared ? "less of the cores' time, predicted" : "time, predicted";
  return tip(h("div", { class: "gain" }, h("b", {}, text), h("small", {}, name)), () => lines);
}

function row(name: string, ...values: (Node | string | null)[]): HTMLElement {
  return h("div", { class: "row" }, h("dt", {}, name), h("dd", {}, ...values));
}

/** The lines that use the finding's objects most. */
function used(r: Report, f: Finding): HTMLElement[] {
  const seen = new Set<string>();
  const places: HTMLElement[] = [];
  for (const object of r.objects.filter((o) => f.objects.includes(o.name))) {
    const use = object.accessed_at.find((u) => u.at !== f.cause.at) ?? object.accessed_at[0];
    if (!use || use.at === null || seen.has(use.at) || places.length === 3) continue;
    seen.add(use.at);
    places.push(place(use.at, use.function === null ? null : shorten(use.function, 40)));
  }
  return places;
}

function card(d: Data, f: Finding, at: number): HTMLElement {
  const r = d.report;
  const title = `${f.rank}. ${d.words.findings[at] ?? f.kind}`;
  const objects = f.objects.slice(0, 4).map((name) => shorten(brief(name), 40)).join(", ");
  const rest = f.objects.length > 4 ? ` and ${f.objects.length - 4} more` : "";
  const repairs = [...new Set(f.repairs.map((p) => repair(p.repair)))].join("; ");
  const body = h(
    "dl",
    {},
    row("change", h("strong", {}, brief(f.advice))),
    row("at", place(f.cause.at, f.cause.function), h("div", { class: "cause" }, brief(f.cause.text))),
    used(r, f).length > 0 ? row("used at", ...used(r, f)) : null,
    objects === "" ? null : row("objects", objects + rest),
    repairs === "" ? null : row("placement", repairs),
  );
  const evidence = h("details", { class: "evidence" }, h("summary", {}, "evidence"), h("ul", {}, ...f.evidence.map((e) => h("li", {}, brief(e)))));
  if (at === 0) {
    return h("article", { class: "finding first" }, h("div", { class: "top" }, h("h3", {}, title), badge(r, f)), body, evidence);
  }
  return h("details", { class: "finding" }, h("summary", {}, h("span", {}, title), badge(r, f)), body, evidence);
}

function findings(d: Data): HTMLElement {
  const r = d.report;
  if (r.findings.length === 0) {
    const text = r.verdict === "clean" ? "Nothing to change." : "No finding.";
    return h("div", { id: "findings" }, h("article", { class: "finding first none" }, h("h3", {}, text)));
  }
  const steps = d.about.steps.map((step) => h("li", {}, h("span", {}, step.what), copyable(step.command)));
  return h(
    "div",
    { id: "findings" },
    card(d, r.findings[0]!, 0),
    steps.length > 0 ? h("ol", { class: "steps", "aria-label": "commands" }, ...steps) : null,
    ...r.findings.slice(1).map((f, at) => card(d, f, at + 1)),
  );
}

function shares(r: Report): HTMLElement {
  const known = r.remote_share_exact ? "counted" : "95 % interval";
  const item = (name: string, value: string, lines: string[]): HTMLElement =>
    tip(h("div", { class: "stat" }, h("b", {}, value), h("small", {}, name)), () => lines);
  const what = basis(r);
  const list = [
    item(`far, of all ${what}`, percent(r.remote_time_share), [percentCi(r.remote_time_share, r.remote_time_share_ci), known, sampled(r)]),
    item("far, where the node of the page is known", percent(r.remote_share), [percentCi(r.remote_share, r.remote_share_ci), known, sampled(r)]),
    item("node of the page unknown", percent(r.page_node_unknown_share), ["of what touches memory", sampled(r)]),
  ];
  if (r.basis === "stall_time") {
    list.push(item("touches no memory", percent(r.compute_share), ["samples of instructions that touch none", sampled(r)]));
    list.push(item("waiting for other threads", percent(r.spinning_share), ["samples in a runtime's wait loops", sampled(r)]));
  }
  return h("div", { class: "stats" }, ...list);
}

/** The matrix as the repairs would make it. */
function then(r: Report): HTMLElement | null {
  const repaired = r.pictures.repaired;
  if (r.node_matrix.length < 2 || r.findings.length === 0) return null;
  if (!repaired) return h("p", { class: "none after" }, `after the repair: unknown, ${r.pictures.repaired_why ?? ""}`);
  const of = repaired.objects.length > 3 ? `${repaired.objects.length} objects` : repaired.objects.map((o) => shorten(brief(o), 24)).join(", ");
  const lines = [`with ${of} repaired and everything else as it was`, `far then ${percent(repaired.remote_share)} where the node is known`, sampled(r)];
  return matrix(`after the repair of ${of}`, r.machine.node_ids, repaired.node_matrix, () => lines);
}

export function summary(d: Data): HTMLElement {
  const r = d.report;
  const quiet = r.findings.length === 0;
  const now = r.node_matrix.length < 2 ? null : matrix(`now, % of ${basis(r)}`, r.machine.node_ids, r.node_matrix, () => [`of ${basis(r)}`, sampled(r)]);
  const nodes = h("div", { class: "nodes" }, h("div", { class: "matrices" }, now, then(r)), legend());
  return h(
    "section",
    { id: "summary", "aria-label": "summary" },
    h("div", { class: "change" }, findings(d), ...(quiet ? [shares(r), nodes] : [])),
    h("div", { class: "traffic" }, machinePicture(r), ...(quiet ? [] : [nodes, shares(r)])),
  );
}
