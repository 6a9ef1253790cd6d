// A figure's source, interval and number of samples, shown where the pointer or the keyboard is.
import { h } from "./dom";

type Lines = () => string[];
const about = new WeakMap<Element, Lines>();
const box = h("div", { id: "tip", role: "tooltip", hidden: true });

function show(element: Element): void {
  const lines = about.get(element);
  if (!lines) return;
  box.replaceChildren(...lines().map((line) => h("div", {}, line)));
  box.hidden = false;
  const at = element.getBoundingClientRect();
  const own = box.getBoundingClientRect();
  const x = Math.max(4, Math.min(at.left, document.documentElement.clientWidth - own.width - 4));
  const below = at.bottom + 6;
  const y = below + own.height < innerHeight ? below : Math.max(4, at.top - own.height - 6);
  box.style.left = `${x}px`;
  box.style.top = `${y}px`;
}

const hide = (): void => {
  box.hidden = true;
};

/** Says `lines` of an element on hover and focus; the keyboard reaches it unless it is one of very many. */
export function tip<E extends Element>(element: E, lines: Lines, focus = true): E {
  about.set(element, lines);
  if (focus) element.setAttribute("tabindex", "0");
  element.setAttribute("aria-describedby", "tip");
  element.classList.add("tip");
  return element;
}

export function installTips(): void {
  document.body.append(box);
  const of = (event: Event): Element | null => {
    let at = event.target instanceof Element ? event.target : null;
    while (at && !about.has(at)) at = at.parentElement;
    return at;
  };
  const react = (event: Event): void => {
    const element = of(event);
    if (element) show(element);
    else hide();
  };
  document.addEventListener("mouseover", react);
  document.addEventListener("focusin", react);
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}
