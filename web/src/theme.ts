// Light and dark: as the system says, until the switch says otherwise.
import { h } from "./dom";

const NEXT: Record<string, string> = { auto: "light", light: "dark", dark: "auto" };

export function themeSwitch(): HTMLElement {
  const root = document.documentElement;
  let now = "auto";
  const button = h("button", { type: "button", id: "theme", title: "light or dark" });
  const show = (): void => {
    if (now === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", now);
    button.textContent = `theme: ${now}`;
  };
  button.addEventListener("click", () => {
    now = NEXT[now] ?? "auto";
    show();
  });
  show();
  return button;
}
