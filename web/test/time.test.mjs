// Time, threads, and the part of the run that a reader selects.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cell, htmlOf, jsonOf, open, part, percent, recording } from "./common.mjs";

test("time answers at every place, and calls open from both ends", async () => {
  const { page, problems, context } = await open(htmlOf("time.html", recording));
  await page.focus("#near-far svg.chart");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#near-far .answer"), /of all; far .* where the node is known/);
  await page.focus("#code-tab-0");
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.isVisible("#code-view-1 .calls"));
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.isVisible("#code-view-2 .calls"));
  assert.deepEqual(problems, []);
  await context.close();
});

test("a part of the run is selected by pointer and by keyboard, and everything follows", async () => {
  const report = jsonOf(recording);
  const timeline = report.pictures.timeline;
  const { page, problems, context } = await open(htmlOf("brush.html", recording));
  const svg = page.locator("#near-far svg.chart");
  await svg.scrollIntoViewIfNeeded();
  const box = await svg.boundingBox();
  const x = (part) => box.x + box.width * (0.11 + 0.89 * (part / timeline.parts));
  const [first, last] = [Math.floor(timeline.parts / 4), Math.floor(timeline.parts / 2)];
  await page.mouse.move(x(first + 0.5), box.y + 40);
  await page.mouse.down();
  await page.mouse.move(x(last + 0.5), box.y + 40, { steps: 4 });
  await page.mouse.up();
  // What is out of sight follows when the reader pauses.
  await page.waitForSelector(`html[data-selected="${first}-${last + 1}"]`);
  assert.match(await page.textContent("#selection p"), / to .* of the run; far /);
  const rowsOf = (id) => page.$$eval(`${id} tbody tr:not(.detail)`, (lines) => lines.map((l) => [...l.cells].map((c) => c.innerText.trim())));
  for (const [id, table, all] of [["#object-table", "objects", report.objects], ["#function-table", "functions", report.functions]]) {
    assert.ok(await page.isVisible(`${id} .selected-range`));
    const rows = await rowsOf(id);
    all.slice(0, rows.length).forEach((row, at) => {
      const own = timeline[table].find((one) => one.row === at);
      const of = own ? part(timeline, own, first, last + 1) : { share: null, remote: null };
      assert.ok(rows[at].includes(percent(of.share)), `${table} ${at}: ${percent(of.share)} is not in ${rows[at]}`);
      assert.ok(rows[at].includes(percent(of.remote)), `${table} ${at}: ${percent(of.remote)} is not in ${rows[at]}`);
    });
  }
  const threads = await rowsOf("#thread-table");
  const tid = report.threads[0].tid;
  const thread = part(timeline, timeline.threads.find((t) => t.tid === tid), first, last + 1);
  assert.ok(threads[0].includes(percent(thread.share)), `${threads[0]}`);
  const cells = await page.$$eval("#selection .matrix text.number", (all) => all.map((e) => e.textContent));
  const sums = timeline.node_matrix[0].map((_, pair) => timeline.node_matrix.slice(first, last + 1).reduce((sum, p) => sum + p[pair], 0));
  const all = ["near", "far", "other", "waiting"].reduce((sum, k) => sum + timeline.all[k].slice(first, last + 1).reduce((a, b) => a + b, 0), 0);
  assert.deepEqual(cells, sums.map((s) => cell(s / all)));
  await page.keyboard.press("Escape");
  await page.waitForSelector('html[data-selected=""]');
  assert.equal(await page.locator("#selection strong").count(), 0);
  assert.ok((await rowsOf("#object-table"))[0].includes(percent(report.objects[0].stall_share)), "the whole run is back");
  await page.keyboard.press("Shift+ArrowRight");
  await page.keyboard.press("Shift+ArrowRight");
  await page.waitForSelector("#selection strong");
  assert.deepEqual(problems, []);
  await context.close();
});

test("an open row stays open while a part of the run is selected", async () => {
  const { page, context } = await open(htmlOf("open.html", recording));
  await page.click("#object-table .open >> nth=0");
  await page.focus("#near-far svg.chart");
  for (let i = 0; i < 3; i++) await page.keyboard.press("Shift+ArrowRight");
  await page.waitForSelector("#object-table .selected-range:visible");
  assert.ok(await page.isVisible("#object-table tr.detail >> nth=0"));
  await context.close();
});

test("threads over time answer at every place", async () => {
  const { page, problems, context } = await open(htmlOf("cpus.html", recording));
  await page.focus("#thread-cpus svg.chart");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#thread-cpus .answer"), /threads? seen: \d+ on cpu \d+/);
  assert.deepEqual(problems, []);
  await context.close();
});
