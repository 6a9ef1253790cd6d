// Numbers as the text report prints them. What is unknown is "unknown", never 0.
import type { Interval, Predicted } from "./report";

export const UNKNOWN = "unknown";

/** Decimals of a share in percent: from 10 % on none, below one, and of the smallest as many as the first digit needs. */
function decimals(share: number): number {
  const p = Math.abs(share * 100);
  if (p >= 9.95 || p === 0) return 0;
  return p >= 0.095 ? 1 : Math.min(3, Math.max(1, Math.ceil(-Math.log10(p))));
}

/** `46`, `9.4`, `0.03`: a share in percent without its unit. */
export const number = (share: number): string => (share > 0 && share < 0.00001 ? "< 0.001" : (share * 100).toFixed(decimals(share)));

export const percent = (share: number | null | undefined): string => (share === null || share === undefined || !Number.isFinite(share) ? UNKNOWN : `${number(share)} %`);

/** A change with its sign: `+6.6`, `-12`, `0`. */
export function signed(by: number): string {
  const text = (by * 100).toFixed(Math.min(1, decimals(by)));
  return /^-?0(\.0)?$/.test(text) ? text.replace("-", "") : by > 0 ? `+${text}` : text;
}

/** The interval, rounded outward: what an end excludes is excluded. */
export function interval(ci: Interval | null, of = 1): string {
  if (!ci) return "";
  const end = (share: number, round: (x: number) => number, shift: number): string => {
    const digits = Math.min(decimals(share), Math.max(1, decimals(of)));
    const unit = 10 ** digits;
    const p = Math.max(0, round(share * 100 * unit + shift)) / unit;
    return p === 0 ? "0" : p.toFixed(digits);
  };
  return `${end(ci.low, Math.floor, 1e-5)}–${end(ci.high, Math.ceil, -1e-5)}`;
}

export function percentCi(share: number | null, ci: Interval | null): string {
  return share !== null && ci ? `${percent(share)} (${interval(ci, share)})` : percent(share);
}

export function size(bytes: number | null): string {
  if (bytes === null) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toFixed(unit > 0 && value < 99.95 ? 1 : 0)} ${units[unit]}`;
}

export const count = (n: number): string => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");

export const plural = (n: number, what: string): string => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

/** Three digits that matter. */
export function digits(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return UNKNOWN;
  const abs = Math.abs(value);
  return abs >= 100 ? value.toFixed(0) : abs >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** What a repair makes of the time, as the text report says it: `49 % less (43 to 55 %)`; `37 % less (0.5 % more to 44 % less)`. */
export function gain(predicted: Predicted): string {
  const [time, least, most] = [predicted.ratio, predicted.high, predicted.low].map((ratio) => signed(1 - ratio));
  const size = (text: string | undefined): string => (text ?? "").replace(/^[-+]/, "");
  const way = (text: string | undefined): string => ((text ?? "").startsWith("-") ? "more" : "less");
  const ways = [time, least, most].map(way);
  if (ways.every((one) => one === "less")) return `${size(time)} % less (${size(least)} to ${size(most)} %)`;
  // From the least on, as above.
  if (ways.every((one) => one === "more")) return `${size(time)} % more (${size(most)} to ${size(least)} %)`;
  return `${size(time)} % ${ways[0]} (${size(least)} % ${ways[1]} to ${size(most)} % ${ways[2]})`;
}

/** The same without a best guess: "85 to 97 %". */
export function between(predicted: Predicted): string {
  return `${signed(1 - predicted.high)} to ${signed(1 - predicted.low)} %`.replace(/\+/g, "");
}

/** Lines by the base name of their file, as the text report has them: `at /home/me/a.c:12` is `at a.c:12`. */
export const brief = (text: string): string => text.replace(/(?<=^|[\s(])(?:[^\s:/]*\/)+([^\s:/]+:\d+)/g, "$1");

/** Shortened in the middle: the start of a path says where, its end says what. */
export function shorten(text: string, most: number): string {
  const letters = [...text];
  if (letters.length <= most) return text;
  const head = Math.floor((most - 1) / 2);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (most - 1 - head)).join("")}`;
}
