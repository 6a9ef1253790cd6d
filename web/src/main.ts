// The page of `nearfar report --html`, and of `diff` and `cure`: shows their JSON, computes nothing that it does not have.
import { code } from "./code";
import { compared } from "./compare";
import { type Data, read, sources } from "./data";
import { h, hatch, section } from "./dom";
import { ladder } from "./ladder";
import { objects } from "./objects";
import { head, summary } from "./summary";
import { installSourceLinks } from "./source";
import { themeSwitch } from "./theme";
import { threads } from "./threads";
import { time } from "./time";
import { installTips } from "./tip";

function one(d: Data): { head: HTMLElement; parts: HTMLElement[] } {
  const notes = h("ul", {}, ...[...sources(d.report), ...d.report.notes].map((note) => h("li", {}, note)));
  const parts = [summary(d), objects(d), ladder(d), time(d), code(d), threads(d), section("notes", "Sources and notes", null, notes)];
  return { head: head(d), parts };
}

const d = read();
const page = "comparison" in d ? compared(d) : one(d);
const links = page.parts.slice(1).map((part) => h("a", { href: `#${part.id}` }, part.getAttribute("aria-label") ?? part.id));
const bar = h("nav", { "aria-label": "parts of the page" }, h("a", { href: "#verdict", class: "brand" }, "nearfar"), ...links, themeSwitch());
const foot = h("footer", {}, `nearfar ${d.words.version} \u00b7 recording ${d.about.recording}`);
document.getElementById("page")?.replaceChildren(hatch(), bar, page.head, ...page.parts, foot);
installTips();
installSourceLinks(d.about.sources);
document.documentElement.dataset.ready = "true";
