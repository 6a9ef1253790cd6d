// Trees of calls: from the outermost function inward, or from the sampled one outward.
import { h } from "./dom";
import { shorten } from "./format";
import { bar, share } from "./marks";
import type { CallNode } from "./report";

/** Levels that are open at first: down to where the tree first branches, and no further than this. */
const OPEN = 4;

export function calls(nodes: CallNode[], label: string, name: string, source: string): HTMLElement {
  const children = new Map<number | null, number[]>();
  nodes.forEach((node, at) => children.set(node.parent, [...(children.get(node.parent) ?? []), at]));
  const item = (at: number, depth: number, open: boolean): HTMLElement => {
    const node = nodes[at]!;
    const under = children.get(at) ?? [];
    const far = node.remote_share === null ? 0 : node.share * node.remote_share;
    const line = h(
      "span",
      { class: "call" },
      h("span", { class: "number" }, share(node.share, null, source)),
      h("span", { class: "number quiet" }, share(node.own_share, null, source)),
      bar(node.remote_share === null ? 0 : node.share - far, far, node.remote_share === null ? node.share : 0),
      h("span", { class: "number" }, share(node.remote_share, null, source)),
      h("code", { title: node.function }, shorten(node.function, 90)),
    );
    line.style.setProperty("--depth", String(depth));
    if (under.length === 0) return h("div", { class: "leaf" }, line);
    const box = h("details", {}, h("summary", {}, line));
    let filled = false;
    const fill = (): void => {
      if (filled) return;
      filled = true;
      box.append(...under.map((child) => item(child, depth + 1, open && depth < OPEN && under.length === 1)));
    };
    box.addEventListener("toggle", fill);
    if (open) {
      fill();
      box.setAttribute("open", "");
    }
    return box;
  };
  const roots = children.get(null) ?? [];
  const head = h("div", { class: "call head" }, h("span", { class: "number" }, name), h("span", { class: "number" }, "own"), h("span", {}), h("span", { class: "number" }, "far"), h("span", {}, "function"));
  return h("div", { class: "calls", role: "group", "aria-label": label }, head, ...roots.slice(0, 60).map((root) => item(root, 0, roots.length === 1)));
}
