// What the tests of the page share: headless Chromium, pages of recordings of real programs, by the nearfar that was built.
// web/check makes the recordings; NEARFAR_PAGE_DIR is where they and the pages are.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const nearfar = process.env.NEARFAR;
export const dir = process.env.NEARFAR_PAGE_DIR;
export const program = process.env.NEARFAR_PAGE_PROGRAM;
export const recording = join(dir, "iso.nearfar");
/** Of a program that names its phases. */
export const phases = join(dir, "phases.nearfar");
/** Counted on an emulated machine: what `cure` left. Not there without QEMU. */
export const cured = { page: join(dir, "cure.html"), before: join(dir, "cure", "before.nearfar"), after: join(dir, "cure", "after.nearfar") };
/** For `test`'s option: false, or why nothing was counted. */
export const skip = existsSync(cured.page) ? false : "nothing was counted: QEMU is not installed";
export let browser;

const args = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false, args });
});
after(async () => browser?.close());

/** Opens a page; what the browser complains of, and what it asks the network for, is in `problems`. */
export async function open(file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => (problems.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => request.url().startsWith("file:") || problems.push(`request: ${request.url()}`));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready]", { timeout: 30_000 });
  return { page, problems, context };
}

export function run(...words) {
  return execFileSync(nearfar, words, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });
}

/** The file that a command writes a page into; what was there is gone. */
export function written(name, ...words) {
  const file = join(dir, name);
  rmSync(file, { force: true });
  run(...words, "--html", file);
  return file;
}

export const htmlOf = (name, source, ...more) => written(name, "report", source, "--as", "2x22", ...more);
export const jsonOf = (source) => JSON.parse(run("report", source, "--as", "2x22", "--json"));

/** What is in the page for its script. */
export const embedded = (page) => page.evaluate(() => JSON.parse(document.getElementById("data").textContent));

/** As the text report prints shares (crates/figures/src/percent.rs). */
export const digits = (share) => {
  const p = Math.abs(share * 100);
  const decimals = p >= 9.95 || p === 0 ? 0 : p >= 0.095 ? 1 : Math.min(3, Math.max(1, Math.ceil(-Math.log10(p))));
  return share > 0 && share < 0.00001 ? "< 0.001" : (share * 100).toFixed(decimals);
};
/** Lines by the base name of their file, as the text report has them. */
export const brief = (text) => text.replace(/\S*\/([^\s/]+:\d+)/g, "$1");
export const percent = (share) => (share === null ? "unknown" : `${digits(share)} %`);
export const cell = (share) => (share > 0 && share < 0.00095 ? "<0.1" : digits(share));

/** What the page should say of a row in parts `first` to `end` of the run, from --json. */
export function part(timeline, own, first, end) {
  const add = (list) => list.slice(first, end).reduce((a, b) => a + b, 0);
  const all = (w) => add(w.near) + add(w.far) + add(w.other) + add(w.waiting);
  const known = add(own.near) + add(own.far);
  return { share: all(own) / all(timeline.all), remote: known > 0 ? add(own.far) / known : null };
}

/** A server of `report --web`: its address, and the process to end. */
export async function served(...words) {
  const server = spawn(nearfar, ["report", ...words, "--web"], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  for await (const part of server.stderr) {
    said += part;
    // The whole line: what is still being written when its reader goes away ends the server.
    const url = said.match(/(http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/)[^\n]*\n/)?.[1];
    if (url) return { url, server };
  }
  throw new Error(`no address: ${said}`);
}
