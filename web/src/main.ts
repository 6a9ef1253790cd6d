// The page of `nearfar report --html`: shows the report's JSON, computes nothing that it does not have.
import { code } from "./code";
import { read, sources } from "./data";
import { h, section } from "./dom";
import { objects } from "./objects";
import { head, summary } from "./summary";
import { themeSwitch } from "./theme";
import { threads } from "./threads";
import { installTips } from "./tip";

const d = read();
const parts = [objects(d), code(d), threads(d)];
const notes = h("ul", {}, ...[...sources(d.report), ...d.report.notes].map((note) => h("li", {}, note)));
parts.push(section("notes", "Sources and notes", null, notes));
const links = parts.map((part) => h("a", { href: `#${part.id}` }, part.getAttribute("aria-label") ?? part.id));
const bar = h("nav", { "aria-label": "parts of the page" }, h("a", { href: "#verdict", class: "brand" }, "nearfar"), ...links, themeSwitch());
const foot = h("footer", {}, `nearfar ${d.words.version} · recording ${d.about.recording}`);
document.getElementById("page")?.replaceChildren(bar, head(d), summary(d), ...parts, foot);
installTips();
document.documentElement.dataset.ready = "true";
