// A table that sorts by any column and filters by text.
import { anyChosen, follow } from "./chosen";
import { type Child, h } from "./dom";
import { count } from "./format";

export interface Column<T> {
  name: string;
  /** What the column is, with its unit. */
  about: string;
  /** What it sorts by; unknown comes last in both directions. */
  key: (row: T) => number | string | null;
  cell: (row: T) => Child;
  number?: boolean;
  /** First click sorts from the least; of numbers, from the most. */
  ascending?: boolean;
  /** Whether its cells are of the part of the run that is chosen: they are made anew with each choice. */
  follows?: boolean;
}

interface Options<T> {
  id: string;
  label: string;
  rows: T[];
  columns: Column<T>[];
  /** Column that it is sorted by at first, from the most; the order of `rows` without it. */
  sort?: number;
  /** What the filter looks in. */
  text: (row: T) => string;
  /** What a row shows when it is opened. */
  detail?: (row: T) => Node;
}

/** Rows drawn at first: thousands of rows would make the first paint wait. */
const FIRST = 20;

export function table<T>(o: Options<T>): HTMLElement {
  let sort = o.sort ?? -1;
  let down = true;
  let most = FIRST;
  let word = "";
  const body = h("tbody");
  // Lines are made once and kept: a row that is open stays open, whatever is sorted or chosen.
  const made = new Map<T, { cells: HTMLElement[]; lines: HTMLElement[]; choice: number }>();
  let choice = 0;
  /** Whether cells are of a chosen part and become those of another: their hints have no intervals. */
  let again = false;
  const status = h("span", { class: "count", role: "status" });
  const more = h("button", { type: "button", class: "more", click: () => ((most = Infinity), draw()) });
  const heads = o.columns.map((column, at) => {
    const button = h("button", { type: "button", title: column.about, click: () => by(at) }, column.name);
    return h("th", { scope: "col", class: column.number ? "number" : null }, button);
  });

  function by(at: number): void {
    down = sort === at ? !down : !(o.columns[at]?.ascending ?? !o.columns[at]?.number);
    sort = at;
    draw();
  }

  function order(rows: T[]): T[] {
    const column = o.columns[sort];
    if (!column) return rows;
    const keyed = rows.map((row, at) => ({ row, at, key: column.key(row) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null ? 1 : 0) - (b.key === null ? 1 : 0) || a.at - b.at;
      const less = a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
      return (down ? -less : less) || a.at - b.at;
    });
    return keyed.map((k) => k.row);
  }

  function row(of: T): HTMLElement[] {
    const own = made.get(of);
    if (own && own.choice !== choice) {
      own.choice = choice;
      o.columns.forEach((column, at) => {
        if (column.follows) replace(own.cells[at], column.cell(of));
      });
    }
    if (own) return own.lines;
    const cells = o.columns.map((column) => h("td", { class: column.number ? "number" : null }, column.cell(of)));
    const line = h("tr", {}, ...cells);
    const lines = o.detail ? [line, opened(of, cells[0], o.detail)] : [line];
    made.set(of, { cells, lines, choice });
    return lines;
  }

  /** Of two chosen parts, what is the same stays: each node that is replaced is laid out and painted again. */
  function replace(cell: HTMLElement | undefined, by: Child): void {
    const old = cell?.childNodes.length === 1 ? cell.firstChild : null;
    if (again && old && by instanceof Node && old.isEqualNode(by)) return;
    cell?.replaceChildren(by || "");
  }

  /** The line below a row, and the button before its first cell that opens it. */
  function opened(of: T, first: HTMLElement | undefined, detail: (row: T) => Node): HTMLElement {
    const under = h("tr", { class: "detail", hidden: true }, h("td", { colspan: o.columns.length }));
    const toggle = h("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": "details" }, "▸");
    toggle.addEventListener("click", () => {
      const shown = under.toggleAttribute("hidden") === false;
      toggle.setAttribute("aria-expanded", String(shown));
      toggle.textContent = shown ? "▾" : "▸";
      if (shown && !under.firstElementChild?.hasChildNodes()) under.firstElementChild?.append(detail(of));
    });
    first?.prepend(toggle);
    return under;
  }

  function draw(): void {
    const found = word === "" ? o.rows : o.rows.filter((r) => o.text(r).toLowerCase().includes(word));
    const shown = order(found).slice(0, most);
    const lines = shown.flatMap(row);
    if (lines.length !== body.childElementCount || lines.some((line, at) => body.children[at] !== line)) body.replaceChildren(...lines);
    status.textContent = `${count(found.length)} of ${count(o.rows.length)}`;
    more.hidden = shown.length === found.length;
    more.textContent = `show all ${count(found.length)}`;
    heads.forEach((head, at) => {
      if (at === sort) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  const filter = h("input", {
    type: "search",
    placeholder: "filter",
    "aria-label": `filter ${o.label}`,
    input: (event) => {
      word = (event.target as HTMLInputElement).value.toLowerCase();
      draw();
    },
  });
  draw();
  const range = h("span", { class: "selected-range", hidden: true }, `of the selected time: ${o.columns.filter((column) => column.follows && column.name !== "").map((column) => column.name).join(", ")}`);
  const whole = h(
    "div",
    { id: o.id, class: "table" },
    o.rows.length > 3 ? h("div", { class: "tools" }, filter, status, range) : range,
    h("div", { class: "scroll" }, h("table", { "aria-label": o.label }, h("thead", {}, h("tr", {}, ...heads)), body)),
    more,
  );
  if (o.columns.some((column) => column.follows))
    follow(() => {
      choice += 1;
      again = !range.hidden && anyChosen();
      range.hidden = !anyChosen();
      draw();
    }, whole);
  return whole;
}
