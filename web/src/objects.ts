// Objects: what the program calls its memory.
import type { Data } from "./data";
import { basis, sampled, shareName } from "./data";
import { type Child, h, section } from "./dom";
import { brief, count, percent, shorten, size } from "./format";
import { barOf, chosenPart, farOf, remoteOf, shareOf } from "./followed";
import type { Part } from "./chosen";
import { bar, place as placeOf, share } from "./marks";
import type { ObjectRow } from "./report";
import { pagesOverTime } from "./looks";
import { nodeLegend, smallStrip, strip } from "./strip";
import { table } from "./table";
import { PATTERNS, threadOf } from "./words";

/** Near, far and unknown parts of an object's share. */
export function parts(o: ObjectRow): HTMLElement {
  const known = o.stall_share * (1 - o.page_node_unknown_share);
  const far = o.remote_share === null ? 0 : known * o.remote_share;
  return bar(o.remote_share === null ? 0 : known - far, far, o.stall_share - (o.remote_share === null ? 0 : known));
}

function detail(d: Data, o: ObjectRow): HTMLElement {
  const source = sampled(d.report);
  const touched = o.first_touch.slice(0, 8).map((t) =>
    h("li", {}, `${count(t.pages)} pages on ${t.node === null ? "an unknown node" : `node ${t.node}`} by ${threadOf(d.report, t.thread)} (${t.how}) `, placeOf(t.at, t.function)),
  );
  const used = o.accessed_at.map((u) => h("li", {}, `${percent(u.stall_share)}, far `, share(u.remote_share, null, source), " ", placeOf(u.at, u.function)));
  const list = (title: string, items: Child[]): Child => (items.length === 0 ? null : h("div", {}, h("h4", {}, title), h("ul", {}, ...items)));
  const where = o.allocated_at === null ? null : h("p", {}, "allocated at ", placeOf(o.allocated_at, o.allocated_in), o.allocated_for === null ? "" : ` for ${brief(o.allocated_for)}`, o.allocated_through.length > 0 ? ` through ${o.allocated_through.join(", ")}` : "");
  const own = d.report.pictures.strips.find((one) => d.report.objects[one.object] === o);
  const p = o.pages;
  const pages = `${count(p.total)} pages: ${count(p.touched)} touched first here, ${count(p.inherited)} recycled, ${count(p.unseen)} present without a touch, ${count(p.absent_or_unknown)} absent or unknown`;
  return h("div", { class: "object" }, h("p", {}, `${o.name}, named by ${o.name_from}`), where, p.total > 0 ? h("p", {}, pages) : null, own ? strip(d.report, own) : null, own?.over_time ? pagesOverTime(d.report, o.name, own.extent, own.over_time) : null, h("div", { class: "columns" }, list("first touch", touched), list("used at", used)));
}

export function objects(d: Data): HTMLElement {
  const r = d.report;
  const source = sampled(r);
  const place = new Map(r.objects.map((o, at) => [o, at]));
  const of = (o: ObjectRow): Part | null | undefined => chosenPart(r, "objects", place.get(o) ?? -1);
  const rows = r.objects;
  const strips = new Map(r.pictures.strips.map((one) => [r.objects[one.object], one]));
  const all = table<ObjectRow>({
    id: "object-table",
    label: "objects",
    rows,
    text: (o) => `${o.name} ${o.kind} ${o.allocated_at ?? ""} ${PATTERNS[o.pattern]}`,
    detail: (o) => detail(d, o),
    columns: [
      { name: "object", about: "variable, symbol, mapping or allocation site", ascending: true, key: (o) => o.name, cell: (o) => h("span", { class: "name", title: o.name }, shorten(brief(o.name), 44), o.count > 1 ? h("small", {}, ` ×${count(o.count)}`) : null) },
      { name: "size", about: "bytes of all its objects", number: true, key: (o) => o.bytes, cell: (o) => size(o.bytes) },
      { name: shareName(r), follows: true, about: `share of all ${basis(r)}`, number: true, key: (o) => shareOf(of(o), o.stall_share), cell: (o) => share(shareOf(of(o), o.stall_share), null, source) },
      { name: "", follows: true, about: "near, far and unknown parts of that share", key: (o) => farOf(of(o), o.stall_share * (o.remote_share ?? 0)), cell: (o) => barOf(of(o), () => parts(o)) },
      { name: "far", follows: true, about: "share of its samples whose page is on another node, of those whose node is known", number: true, key: (o) => remoteOf(of(o), o.remote_share), cell: (o) => (of(o) === undefined ? share(o.remote_share, o.remote_share_ci, source, o.remote_share_exact) : share(remoteOf(of(o), null), null, source)) },
      { name: "pages", about: "along its addresses, from above: node of the page, first touch, main user, far share, with the repair", key: (o) => o.bytes, cell: (o) => { const own = strips.get(o); return own ? smallStrip(r, own) : null; } },
      { name: "used in", about: "how threads use its address range", ascending: true, key: (o) => PATTERNS[o.pattern], cell: (o) => PATTERNS[o.pattern] },
      { name: "allocated at", about: "line of the program that allocates it", ascending: true, key: (o) => o.allocated_for ?? o.allocated_at, cell: (o) => placeOf(o.allocated_for ?? o.allocated_at, null) },
    ],
  });
  return section("objects", "Objects", h("span", {}, "What the program calls its memory, most time first; ▸ opens one. Colours of pages: ", nodeLegend(r)), all);
}
