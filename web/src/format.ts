// Numbers as the text report prints them. What is unknown is "unknown", never 0.
import type { Interval, Predicted } from "./report";

export const UNKNOWN = "unknown";

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return UNKNOWN;
  // A share that rounds to nothing is still there.
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(share * 100).toFixed(1)} %`;
}

/** The interval, rounded outward: an upper end of 0.04 % does not print as 0.0. */
export function interval(ci: Interval | null): string {
  if (!ci) return "";
  const low = Math.max(0, Math.floor(ci.low * 1000 + 1e-6)) / 10;
  const high = Math.max(0, Math.ceil(ci.high * 1000 - 1e-6)) / 10;
  return `${low.toFixed(1)}–${high.toFixed(1)}`;
}

export function percentCi(share: number | null, ci: Interval | null): string {
  return share !== null && ci ? `${percent(share)} (${interval(ci)})` : percent(share);
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

/** What a repair saves of the time. */
export function gain(predicted: Predicted): string {
  const saved = (ratio: number) => Math.round((1 - ratio) * 100);
  return `${saved(predicted.ratio)} % (${saved(predicted.high)} to ${saved(predicted.low)})`;
}

/** Shortened in the middle: the start of a path says where, its end says what. */
export function shorten(text: string, most: number): string {
  const letters = [...text];
  if (letters.length <= most) return text;
  const head = Math.floor((most - 1) / 2);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (most - 1 - head)).join("")}`;
}
