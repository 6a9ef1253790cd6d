// Functions and their lines.
import type { Data } from "./data";
import { basis, sampled, shareName } from "./data";
import { h, section } from "./dom";
import { groups } from "./groups";
import { listing } from "./listing";
import { source } from "./source";
import { tabs } from "./tabs";
import { percent, shorten } from "./format";
import { calls } from "./calls";
import type { Part } from "./chosen";
import { barOf, chosenPart, farOf, remoteOf, shareOf } from "./followed";
import { bar, place, share } from "./marks";
import type { FunctionRow } from "./report";
import { table } from "./table";

export function code(d: Data): HTMLElement {
  const from = sampled(d.report);
  const row = new Map(d.report.functions.map((f, at) => [f, at]));
  const of = (f: FunctionRow): Part | null | undefined => chosenPart(d.report, "functions", row.get(f) ?? -1);
  const whole = (f: FunctionRow): HTMLElement => (f.remote_share === null ? bar(0, 0, f.stall_share) : bar(f.stall_share * (1 - f.remote_share), f.stall_share * f.remote_share, 0));
  const far = (f: FunctionRow): HTMLElement => (f.remote_share === null && f.waiting_share > 0.5 * f.stall_share ? h("span", { title: "its loops wait for other threads" }, "waits") : share(remoteOf(of(f), f.remote_share), null, from));
  const all = table<FunctionRow>({
    id: "function-table",
    label: "functions",
    rows: d.report.functions,
    text: (f) => `${f.function} ${f.module ?? ""} ${f.lines.map((l) => l.at ?? "").join(" ")}`,
    detail: (f) =>
      h("div", {}, h("p", {}, f.module ?? "module unknown"), h("ul", {}, ...f.lines.map((l) => h("li", {}, `${percent(l.stall_share)}, far `, share(l.remote_share, null, from), " ", place(l.at, l.function))))),
    columns: [
      { name: "function", about: "itself, without what it calls", ascending: true, key: (f) => f.function, cell: (f) => h("span", { class: "name", title: f.function }, shorten(f.function, 60)) },
      { name: shareName(d.report), follows: true, about: `share of all ${basis(d.report)}`, number: true, key: (f) => shareOf(of(f), f.stall_share), cell: (f) => share(shareOf(of(f), f.stall_share), null, from) },
      { name: "", follows: true, about: "near, far and unknown parts of that share", key: (f) => farOf(of(f), f.stall_share * (f.remote_share ?? 0)), cell: (f) => barOf(of(f), () => whole(f)) },
      { name: "far", follows: true, about: "share of its samples whose page is on another node, of those whose node is known", number: true, key: (f) => remoteOf(of(f), f.remote_share), cell: far },
      { name: "hottest line", about: "its line with most samples", ascending: true, key: (f) => f.lines[0]?.at ?? null, cell: (f) => place(f.lines[0]?.at ?? null, null) },
    ],
  });
  const p = d.report.pictures;
  const views: [string, HTMLElement][] = [["functions", all], ["callers (bottom-up)", calls(p.callers, "callers", shareName(d.report), from)], ["callees (top-down)", calls(p.callees, "callees", shareName(d.report), from)], ["grouped", groups(d)]];
  const { sources, sources_missing, code: listings, code_missing } = d.about;
  if (listings.length + code_missing.length > 0) views.push(["instructions", listing(d.report, listings, code_missing, from)]);
  if (sources.length + sources_missing.length > 0) views.splice(1, 0, ["source", source(d.report, sources, [...sources_missing, ...code_missing])]);
  return section("code", "Code", null, tabs("code", views));
}
