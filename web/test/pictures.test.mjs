// Pictures as files of their own.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { browser, cured, dir, open, percent, recording, run, skip, written } from "./common.mjs";

test("pictures for papers are files that a browser draws, and none is overwritten unasked", async () => {
  const pictures = join(dir, "pictures");
  rmSync(pictures, { recursive: true, force: true });
  run("report", recording, "--as", "2x22", "--svg-dir", pictures);
  const files = readdirSync(pictures);
  for (const name of ["machine.svg", "nodes-now.svg", "time.svg", "threads.svg"]) assert.ok(files.includes(name), `${name} is not in ${files}`);
  assert.ok(files.some((name) => name.startsWith("object-01-")));
  const page = await (await browser.newContext()).newPage();
  for (const name of files) {
    const text = readFileSync(join(pictures, name), "utf8");
    const wrong = await page.evaluate((svg) => new DOMParser().parseFromString(svg, "image/svg+xml").querySelector("parsererror")?.textContent, text);
    assert.equal(wrong, undefined, name);
  }
  await page.context().close();
  assert.throws(() => run("report", recording, "--svg-dir", pictures), /exists and is not overwritten/);
  run("report", recording, "--as", "2x22", "--svg-dir", pictures, "--force");
});

/** Of each band of the machine's picture: its class, and what it says on focus. */
async function bands(page) {
  const all = [];
  for (const band of await page.locator(".machine .band").all()) {
    await band.focus();
    all.push({ load: (await band.getAttribute("class")).match(/\bl[\du]\b/)?.[0], width: Number(await band.getAttribute("stroke-width")), said: await page.textContent("#tip") });
  }
  return all;
}

test("the machine's colours are what is used of what a way sustains, its widths are GB/s, with the numbers of --json", { skip }, async () => {
  const { flows } = JSON.parse(run("report", cured.before, "--json")).pictures.traffic;
  assert.ok(flows.length > 1 && flows.every((f) => f.load !== null && f.gb_per_s !== null));
  const { page, problems, context } = await open(written("counted.html", "report", cured.before));
  const shown = await bands(page);
  assert.equal(shown.length, flows.length);
  const widest = Math.max(...flows.map((f) => f.gb_per_s));
  for (const f of flows) {
    const own = shown.find((b) => b.said.startsWith(f.from === f.page_node ? `threads on node ${f.from}, memory on the same` : `threads on node ${f.from} use memory on node ${f.page_node}`));
    assert.equal(own.load, `l${[0.2, 0.4, 0.6, 0.8].filter((end) => f.load >= end).length}`, own.said);
    assert.ok(own.said.includes(percent(f.load)) && /GB\/s that it sustains/.test(own.said), own.said);
    const width = 2 + ((Math.max(...shown.map((b) => b.width)) - 2) * f.gb_per_s) / widest;
    assert.ok(Math.abs(own.width - width) < 0.01, `${own.width} for ${f.gb_per_s} GB/s, not ${width}`);
  }
  const legend = await page.textContent(".machine .scale");
  for (const part of ["Width: GB/s", "below 20 %", "20\u201340 %", "from 80 %"]) assert.ok(legend.includes(part), legend);
  const colours = await page.$$eval(".machine .scale i", (all) => all.map((e) => getComputedStyle(e).backgroundColor));
  assert.equal(new Set(colours).size, 5, String(colours));
  assert.deepEqual(problems, []);
  await context.close();
});

test("where samples count no bytes, the machine's colours are unknown and say so", async () => {
  const { page, context } = await open(written("uncounted.html", "report", recording, "--as", "2x22"));
  const shown = await bands(page);
  assert.ok(shown.length > 0);
  for (const band of shown) assert.ok(band.load === "lu" && band.said.includes("GB/s: unknown"), JSON.stringify(band));
  assert.match(await page.textContent(".machine .scale"), /Width: share of working time.*unknown: samples count no bytes/);
  assert.match(await page.locator(".machine .band").first().evaluate((e) => getComputedStyle(e).stroke), /#hatch/);
  await context.close();
});
