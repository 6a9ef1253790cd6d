// Before and after: the pages of diff and cure.
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { brief, cured, dir, embedded, jsonOf, open, part, percent, recording, run, skip, written } from "./common.mjs";

test("before and after: diff's page has the numbers of its JSON", async () => {
  const after = join(dir, "after.nearfar");
  const comparison = JSON.parse(run("diff", recording, after, "--as", "2x22", "--same-work", "--json"));
  const file = written("diff.html", "diff", recording, after, "--as", "2x22", "--same-work");
  const { page, problems, context } = await open(file);
  assert.equal(await page.textContent("#verdict .chip"), comparison.verdict.replace("_", " "));
  const rows = await page.$$eval("#object-table tbody tr", (lines) => lines.map((l) => [...l.cells].map((c) => c.innerText.trim())));
  comparison.objects.slice(0, rows.length).forEach((object, at) => {
    assert.ok(rows[at].includes(object.change.replace("_", " ")), `${object.name}: ${rows[at]}`);
    if (object.before) assert.ok(rows[at].includes(percent(object.before.remote_share)), `${object.name}: ${rows[at]}`);
    if (object.after) assert.ok(rows[at].includes(percent(object.after.remote_share)), `${object.name}: ${rows[at]}`);
  });
  assert.equal(await page.locator("figure.machine").count(), 2);
  assert.deepEqual(problems, []);
  await context.close();
});

test("a part of both runs is selected in diff's page, and both sides follow", async () => {
  const after = join(dir, "after.nearfar");
  const reports = [recording, after].map(jsonOf);
  const comparison = JSON.parse(run("diff", recording, after, "--as", "2x22", "--same-work", "--json"));
  const file = written("diff-brush.html", "diff", recording, after, "--as", "2x22", "--same-work");
  const { page, problems, context } = await open(file);
  const [before, then] = reports.map((r) => r.pictures.timeline);
  const svg = page.locator("#near-far-before svg.chart");
  await svg.scrollIntoViewIfNeeded();
  const box = await svg.boundingBox();
  const left = 110 / 560;
  const x = (part) => box.x + box.width * (left + (1 - left) * (part / before.parts));
  const [first, last] = [Math.floor(before.parts / 4), Math.floor(before.parts / 2)];
  await page.mouse.move(x(first + 0.5), box.y + 40);
  await page.mouse.down();
  await page.mouse.move(x(last + 0.5), box.y + 40, { steps: 4 });
  await page.mouse.up();
  await page.waitForSelector(`html[data-selected="${first}-${last + 1}"]`);
  for (const id of ["before", "after"]) assert.equal(await page.locator(`#selection-${id} strong`).count() > 0, true, id);
  const scale = then.parts / before.parts;
  const ranges = [[first, last + 1], [Math.floor(first * scale), Math.ceil((last + 1) * scale)]];
  for (const [id, table] of [["#object-table", "objects"], ["#function-table", "functions"]]) {
    assert.ok(await page.isVisible(`${id} .selected-range`));
    const rows = await page.$$eval(`${id} tbody tr`, (lines) => lines.map((l) => [...l.cells].map((c) => c.innerText.trim())));
    comparison[table].slice(0, rows.length).forEach((row, at) => {
      [row.before, row.after].forEach((side, which) => {
        if (!side) return;
        const timeline = reports[which].pictures.timeline;
        const own = side.rows.map((of) => timeline[table].find((one) => one.row === of));
        const share = own.includes(undefined) ? null : own.reduce((sum, w) => sum + part(timeline, w, ...ranges[which]).share, 0);
        assert.equal(rows[at][2 + which * 3], percent(share), `${table} ${at} ${which}: ${rows[at]}`);
      });
    });
  }
  await page.focus("#near-far-after svg.chart");
  await page.keyboard.press("Escape");
  await page.waitForSelector('html[data-selected=""]');
  assert.equal(await page.locator("#selection-before strong").count(), 0);
  assert.deepEqual(problems, []);
  await context.close();
});

/** The ladder has the predicted interval and the measured point of these data, at the places that its scale gives. */
async function ladder(page, data) {
  const { what_if: w } = data.before;
  const time = data.comparison.time;
  assert.ok(w && time, "predictions, and the modelled time of both runs");
  const steps = page.locator("#ladder .step");
  const outcome = page.locator("#ladder .step.outcome");
  assert.equal(await outcome.count(), 1);
  // The scale, from two ticks of the picture.
  const ticks = await page.$$eval("#ladder line.grid, #ladder line.one", (all) => all.map((e) => Number(e.getAttribute("x1"))));
  const names = await page.$$eval("#ladder .ladder svg > text", (all) => all.map((e) => (e.textContent === "as it is" ? 1 : Number(e.textContent))));
  const scale = (ticks.at(-1) - ticks[0]) / (names.at(-1) - names[0]);
  const x = (ratio) => ticks[0] + (ratio - names[0]) * scale;
  const near = (got, ratio, what) => assert.ok(Math.abs(Number(got) - x(ratio)) < 0.5, `${what}: ${got}, and ${ratio} is at ${x(ratio)}`);
  near(await outcome.locator(".range").getAttribute("x1"), time.low, "low end of what came out");
  near(await outcome.locator(".range").getAttribute("x2"), time.high, "high end of what came out");
  near((await outcome.locator(".dot").getAttribute("d")).match(/^M([\d.]+)/)[1], time.ratio, "what came out");
  const best = steps.filter({ hasText: "best combination" });
  near(await best.locator(".dot").getAttribute("cx"), w.best.predicted.ratio, "predicted");
  near(await best.locator(".range").getAttribute("x1"), w.best.predicted.low, "low end of what was predicted");
  await outcome.focus();
  const said = await page.textContent("#tip");
  assert.ok(said.includes(`ratio ${time.ratio.toFixed(2)} (${time.low.toFixed(2)} to ${time.high.toFixed(2)})`), said);
  assert.match(said, /source: lines counted in the second recording/);
  await best.focus();
  assert.match(await page.textContent("#tip"), /source: predicted by the time model/);
}

test("the ladder of cure's page has what was predicted and what came out", { skip }, async () => {
  const { page, problems, context } = await open(cured.page);
  const data = await embedded(page);
  assert.equal(await page.textContent("#verdict .chip"), data.comparison.verdict.replace("_", " "));
  await ladder(page, data);
  // What was wrong, what to change, and a command that works: all that the text has.
  assert.equal(await page.textContent("#wrong strong"), brief(data.before.findings[0].advice));
  const command = await page.textContent("#wrong .command code");
  const placement = command.match(/^nearfar run .*--placement (\S+) -- /)?.[1];
  assert.ok(existsSync(placement), command);
  const less = await page.textContent("#summary2 .big b");
  const saved = (more) => Math.round((1 - 1 / (1 + more)) * 100);
  assert.equal(less, `${saved(data.proof.gain.value)} % less (${saved(data.proof.gain.low)} to ${saved(data.proof.gain.high)} %)`);
  assert.deepEqual(problems, []);
  await context.close();
});

test("the ladder of diff's page has the second recording beside the predictions of the first", { skip }, async () => {
  const { page, problems, context } = await open(written("diff-counted.html", "diff", cured.before, cured.after));
  await ladder(page, await embedded(page));
  assert.deepEqual(problems, []);
  await context.close();
});

/** A page whose data have null for every object of a name. */
function without(page, name) {
  const key = `"${name}":{`;
  for (let at = page.indexOf(key); at >= 0; at = page.indexOf(key)) {
    let end = at + key.length;
    for (let open = 1; open > 0; end++) open += { "{": 1, "}": -1 }[page[end]] ?? 0;
    page = `${page.slice(0, at)}"${name}":null${page.slice(end)}`;
  }
  return page;
}

test("measured runs are a point of the ladder, also where nothing was predicted", async () => {
  const after = join(dir, "after.nearfar");
  const file = written("diff-measured.html", "diff", recording, after, "--as", "2x22", "--same-work");
  // As cure's page has it on a machine with several nodes.
  const page = readFileSync(file, "utf8");
  const proof = { how: "measured", runs: 12, gain: { value: 1, low: 0.6, high: 1.5 }, words: "faster" };
  writeFileSync(file, without(page, "sampled_gain").replace('"proof":null', `"proof":${JSON.stringify(proof)}`));
  const opened = await open(file);
  const outcome = opened.page.locator("#ladder .step.outcome");
  await outcome.focus();
  const said = await opened.page.textContent("#tip");
  assert.ok(said.includes("ratio 0.50 (0.40 to 0.63)") && said.includes("12 runs"), said);
  assert.match(await opened.page.textContent("#ladder .lead"), /Predictions: unknown/);
  assert.deepEqual(opened.problems, []);
  await opened.context.close();
});

test("no page has one number with two precisions", async () => {
  const after = join(dir, "after.nearfar");
  const files = [written("precisions.html", "report", recording, "--as", "2x22"), written("precisions-diff.html", "diff", recording, after, "--as", "2x22", "--same-work")];
  if (!skip) files.push(cured.page);
  // From 10 % on a share is whole: one with decimals is the same number written twice.
  const coarse = (text) => text.match(/(?<![\d.,])\d{2,}\.\d+(?=\s*%)/g) ?? [];
  assert.deepEqual(coarse("46.0 % and 9.5 %, 46 %"), ["46.0"]);
  for (const file of files) {
    const { page, context } = await open(file);
    // Every text of the page, also what is folded; neighbouring cells are not one number.
    const text = await page.evaluate(() => {
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const list = [];
      while (texts.nextNode()) if (texts.currentNode.parentElement.tagName !== "SCRIPT") list.push(texts.currentNode.data);
      return list.join(" | ");
    });
    assert.match(text, /\d %/, file);
    assert.deepEqual(coarse(text), [], file);
    await context.close();
  }
});
