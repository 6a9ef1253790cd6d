// The page of `nearfar report --html`, and of `diff` and `cure`: shows their JSON, computes nothing that it does not have.
import { along } from "./along";
import { code } from "./code";
import { type Compared, compared } from "./compare";
import { type Data, read, sources } from "./data";
import { h, hatch, section } from "./dom";
import { ranksPage } from "./ranks";
import { ladder } from "./ladder";
import { objects } from "./objects";
import { head, summary } from "./summary";
import { linkSources } from "./source";
import { themeSwitch } from "./theme";
import { threads } from "./threads";
import { time } from "./time";
import { installTips } from "./tip";

/** What the first screen shows, and what is below it: that is made after the first has been painted. */
interface Page {
  first: HTMLElement[];
  rest: () => HTMLElement[];
}

function one(d: Data): Page {
  const notes = (): HTMLElement => section("notes", "Sources and notes", null, h("ul", {}, ...[...sources(d.report), ...d.report.notes].map((note) => h("li", {}, note))));
  return { first: [head(d), summary(d)], rest: () => [objects(d), ladder(d), time(d), code(d), threads(d), along(d.report), notes()].filter((part) => part !== null) };
}

function two(d: Compared): Page {
  const page = compared(d);
  return { first: [page.head, ...page.parts.slice(0, 1)], rest: () => page.parts.slice(1) };
}

const d = read();
linkSources(d.about.sources);
const page = "run" in d ? ranksPage(d) : "comparison" in d ? two(d) : one(d);
const links = h("span", { class: "links" });
const bar = h("nav", { "aria-label": "parts of the page" }, h("a", { href: "#verdict", class: "brand" }, "nearfar"), links, themeSwitch());
const main = document.getElementById("page");
main?.replaceChildren(hatch(), bar, ...page.first);
installTips();

function rest(): void {
  const parts = page.rest();
  links.append(...parts.map((part) => h("a", { href: `#${part.id}` }, part.getAttribute("aria-label") ?? part.id)));
  main?.append(...parts, h("footer", {}, `nearfar ${d.words.version} \u00b7 recording ${d.about.recording}`));
  // The part that the address names is there only now.
  if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  document.documentElement.dataset.ready = "true";
}

// After a frame; a tab that nobody looks at has none.
let done = false;
const once = (): void => {
  if (done) return;
  done = true;
  rest();
};
requestAnimationFrame(() => setTimeout(once));
setTimeout(once, 200);
