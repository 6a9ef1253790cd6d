// Small marks that all parts of the page share: bars of shares, legends, figures.
import { h } from "./dom";
import { percent, percentCi } from "./format";
import type { Interval } from "./report";
import { tip } from "./tip";

/** Near, far and unknown parts of a whole as a bar; parts are shares from 0 to 1. */
export function bar(near: number, far: number, unknown: number): HTMLElement {
  const own = h("span", { class: "bar", "aria-hidden": "true" }, h("i", { class: "near" }), h("i", { class: "far" }), h("i", { class: "unknown" }));
  setBar(own, near, far, unknown);
  return own;
}

/** Gives a bar other parts. */
export function setBar(own: HTMLElement, ...parts: [near: number, far: number, unknown: number]): void {
  parts.forEach((share, at) => ((own.children[at] as HTMLElement).style.width = `${Math.max(0, Math.min(1, share)) * 100}%`));
}

/** A share with its interval and its source on hover and focus. */
export function share(value: number | null, ci: Interval | null, source: string, exact = false): HTMLElement {
  const text = h("span", { class: value === null ? "figure none" : "figure" }, percent(value));
  return tip(text, () => {
    if (value === null) return ["unknown: nothing was seen that would tell", source];
    const range = exact ? "bounds of what was counted" : "95 % interval";
    return [ci ? `${percentCi(value, ci)}, ${range}` : `${percent(value)}, no interval`, source];
  });
}

const linked = new Set<string>();

/** Where a line of source is on the page. */
export const anchor = (at: string): string => `line-${encodeURIComponent(at)}`;

/** These lines of source are on the page: places that name them lead there. */
export const link = (places: Iterable<string>): void => {
  for (const at of places) linked.add(at);
};

/** A path by its last part, as the text report has it; the whole path is on hover. */
function path(at: string): HTMLElement {
  return h("code", { title: at }, at.slice(at.lastIndexOf("/") + 1));
}

/** `file:line` and function as a line of code. */
export function place(at: string | null, name: string | null): HTMLElement {
  if (at === null && name === null) return h("span", { class: "none" }, "unknown");
  return h("span", { class: "place" }, at === null ? null : linked.has(at) ? h("a", { href: `#${encodeURIComponent(anchor(at))}` }, path(at)) : path(at), name === null ? null : h("span", {}, ` ${name}`));
}

export function copyable(command: string): HTMLElement {
  const button = h("button", { type: "button", class: "copy", "aria-label": `copy: ${command}` }, "copy");
  // No line ends within a word: browsers break between the two hyphens of an option.
  const words = command.split(" ").flatMap((word, at) => [at > 0 ? " " : null, h("span", { class: "word" }, word)]);
  const code = h("code", { tabindex: "0" }, ...words);
  button.addEventListener("click", () => {
    const done = (text: string): void => {
      button.textContent = text;
      setTimeout(() => (button.textContent = "copy"), 1500);
    };
    const select = (): void => {
      getSelection()?.selectAllChildren(code);
      done("selected");
    };
    // Pages of file:// may have no clipboard.
    if (navigator.clipboard) navigator.clipboard.writeText(command).then(() => done("copied"), select);
    else select();
  });
  return h("div", { class: "command" }, code, button);
}

/** What colours are: pairs of class and words. */
export function keys(...list: [string, string][]): HTMLElement {
  return h("span", { class: "legend" }, ...list.map(([kind, text]) => h("span", { class: "key" }, h("i", { class: kind }), text)));
}

export function legend(): HTMLElement {
  return keys(["near", "near: the thread's own node"], ["far", "far: another node"], ["unknown", "unknown"]);
}
