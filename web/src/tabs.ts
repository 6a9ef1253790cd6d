// One of several views at a time; arrows move between them.
import { h } from "./dom";

export function tabs(id: string, views: [string, HTMLElement][]): HTMLElement {
  const buttons = views.map(([name], at) => h("button", { type: "button", role: "tab", id: `${id}-tab-${at}`, "aria-controls": `${id}-view-${at}`, click: () => open(at) }, name));
  const panels = views.map(([, view], at) => h("div", { role: "tabpanel", id: `${id}-view-${at}`, "aria-labelledby": `${id}-tab-${at}` }, view));
  function open(at: number): void {
    panels.forEach((panel, i) => panel.toggleAttribute("hidden", i !== at));
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === at));
      button.setAttribute("tabindex", i === at ? "0" : "-1");
    });
  }
  const list = h("div", { role: "tablist", class: "tabs" }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const now = buttons.findIndex((button) => button.getAttribute("aria-selected") === "true");
    if (!step) return;
    const next = (now + step + buttons.length) % buttons.length;
    open(next);
    buttons[next]?.focus();
  });
  open(0);
  return h("div", {}, list, ...panels);
}
