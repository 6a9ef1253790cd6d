// The page of one recording: its first screen, tables, strips and pictures; both themes, print, and no scripts.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { brief, browser, cell, cured, dir, htmlOf, jsonOf, open, percent, recording, run, skip, written } from "./common.mjs";

test("verdict and top finding are on the first screen at both sizes, and nothing is complained of", async () => {
  const file = htmlOf("first.html", recording);
  const report = jsonOf(recording);
  for (const viewport of [{ width: 1400, height: 900 }, { width: 800, height: 600 }]) {
    const { page, problems, context } = await open(file, { viewport });
    const chip = await page.textContent("#verdict .chip");
    assert.equal(chip, { affected: "affected", clean: "clean", unknown: "no verdict" }[report.verdict]);
    const finding = report.findings[0];
    if (finding) {
      for (const selector of [".finding.first h3", ".finding.first .gain", ".finding.first strong"]) {
        const box = await page.locator(selector).first().boundingBox();
        assert.ok(box && box.y + box.height <= viewport.height, `${selector} is below the first screen: ${JSON.stringify(box)}`);
      }
      assert.equal(await page.textContent(".finding.first strong"), brief(finding.advice));
      const apply = page.locator(".steps .command").first();
      // As the text report does: where a cache may have held what is used, no placement is offered.
      const offered = run("report", recording, "--as", "2x22").includes("nearfar fix");
      assert.match(await apply.textContent(), offered ? /^nearfar fix / : /^nearfar record /);
      const box = await apply.boundingBox();
      assert.ok(box.y + box.height <= viewport.height, "the command that applies the repair is on the first screen");
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `the page scrolls sideways by ${wide} at ${viewport.width}`);
    assert.deepEqual(problems, []);
    await context.close();
  }
});

test("numbers are those of --json", async () => {
  const report = jsonOf(recording);
  const { page, context } = await open(htmlOf("numbers.html", recording));
  const rows = await page.$$eval("#object-table tbody tr:not(.detail)", (lines) => lines.map((l) => [...l.cells].map((c) => c.innerText.trim())));
  assert.equal(rows.length, Math.min(20, report.objects.length));
  report.objects.slice(0, rows.length).forEach((object, at) => {
    assert.ok(rows[at].includes(percent(object.stall_share)), `${object.name}: ${rows[at]}`);
    assert.ok(rows[at].includes(percent(object.remote_share)), `${object.name}: ${rows[at]}`);
  });
  const embedded = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).report);
  assert.deepEqual(embedded, report);
  await context.close();
});

/** Also a range that reaches from a loss to a gain, and ends below one percent. */
test("a gain is the text report's, whatever its sign", { skip }, async () => {
  const text = readFileSync(written("gain.html", "report", cured.before), "utf8");
  const { page, context } = await open(join(dir, "gain.html"));
  const card = page.locator(".finding.first .gain b");
  const [said] = run("report", cured.before).match(/gain: .*/);
  assert.equal(await card.textContent(), said.replace("gain: ", "").replace(" time (", " ("));
  const file = join(dir, "gain-changed.html");
  for (const [ratio, low, high, expected] of [[0.632, 0.56, 1.0049, "37 % less (0.5 % more to 44 % less)"], [1.11, 0.985, 1.18, "11 % more (18 % more to 1.5 % less)"], [1.2, 1.1, 1.3, "20 % more (10 to 30 %)"], [0.971, 0.94, 1, "2.9 % less (0 to 6.0 %)"]]) {
    writeFileSync(file, text.replace(/"predicted":(null|{[^}]*})/, `"predicted":${JSON.stringify({ ratio, low, high })}`));
    const changed = await open(file);
    assert.equal(await changed.page.textContent(".finding.first .gain b"), expected);
    await changed.context.close();
  }
  await context.close();
});

test("tables sort and filter, by pointer and by keyboard", async () => {
  const { page, problems, context } = await open(htmlOf("tables.html", recording));
  const names = () => page.$$eval("#object-table tbody tr:not(.detail) .name", (all) => all.map((e) => e.textContent));
  await page.click("#object-table th button:text-is('object')");
  const up = await names();
  assert.deepEqual(up, [...up].sort((a, b) => (a < b ? -1 : 1)));
  await page.focus("#object-table th button:text-is('object')");
  await page.keyboard.press("Enter");
  assert.deepEqual(await names(), [...up].reverse());
  const all = await names();
  await page.fill("#object-table input", "vel");
  const found = await names();
  assert.ok(found.length > 0 && found.length < all.length && found.every((n) => n.includes("vel")), String(found));
  await page.click("#object-table .open");
  assert.ok(await page.isVisible("#object-table tr.detail"));
  assert.deepEqual(problems, []);
  await context.close();
});

test("an object's strip answers at every place, by pointer and by keyboard", async () => {
  const report = jsonOf(recording);
  // One thread has one number wherever it is shown: not the operating system's.
  const numberOf = (tid) => report.threads.find((t) => t.tid === tid).index;
  const { page, problems, context } = await open(htmlOf("strips.html", recording));
  assert.equal(await page.locator("#object-table .smallstrip").count(), Math.min(20, report.pictures.strips.length));
  await page.click("#object-table .open >> nth=0");
  const svg = page.locator("#object-table .stripbox svg").first();
  await svg.focus();
  const answer = page.locator("#object-table .stripbox .answer").first();
  const first = await answer.textContent();
  assert.match(first, /node of the page: node 0 100 %/);
  assert.match(first, new RegExp(`touched first by thread ${numberOf(report.pictures.strips[0].first_thread[0].tid)}(;|$)`));
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
  assert.notEqual(await answer.textContent(), first);
  const box = await svg.boundingBox();
  await page.mouse.move(box.x + box.width - 4, box.y + 10);
  assert.match(await answer.textContent(), /MiB to .* MiB/);
  assert.deepEqual(problems, []);
  await context.close();
});

test("the matrix after the repair is that of --json", async () => {
  const report = jsonOf(recording);
  const { page, context } = await open(htmlOf("repaired.html", recording));
  const shown = await page.locator("#summary .matrix").count();
  const repaired = report.pictures.repaired;
  assert.equal(shown, report.findings.length > 0 && repaired ? 2 : 1);
  if (shown === 2) {
    const cells = await page.$$eval("#summary .matrix >> nth=1 >> text.number", (all) => all.map((e) => e.textContent));
    assert.deepEqual(cells, repaired.node_matrix.flat().map(cell));
  }
  await context.close();
});

test("a picture is saved as an SVG of its own", async () => {
  const { page, problems, context } = await open(htmlOf("svg.html", recording));
  const waiting = page.waitForEvent("download");
  await page.focus(".machine .save");
  await page.keyboard.press("Enter");
  const svg = readFileSync(await (await waiting).path(), "utf8");
  assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  assert.ok(!svg.includes("class=") && svg.includes("rgb("), "colours are its own");
  assert.deepEqual(problems, []);
  await context.close();
});

test("every figure says its source on hover and on focus", async () => {
  const { page, problems, context } = await open(htmlOf("tips.html", recording));
  for (const tab of ["callers (bottom-up)", "grouped", "functions"]) await page.click(`[role="tab"]:text-is("${tab}")`);
  const figures = page.locator(".figure:visible, .stat:visible, .gain:visible, .band:visible");
  const all = await figures.count();
  assert.ok(all > 20, `${all} figures`);
  for (let at = 0; at < all; at++) {
    await figures.nth(at).focus();
    assert.match(await page.textContent("#tip"), /source: .*samples/, await figures.nth(at).evaluate((e) => e.outerHTML));
  }
  await page.keyboard.press("Escape");
  assert.ok(await page.isHidden("#tip"));
  await page.locator("#object-table .figure").first().hover();
  assert.match(await page.textContent("#tip"), /95 % interval|no interval/);
  assert.deepEqual(problems, []);
  await context.close();
});

test("the keyboard reaches everything that answers, in the order of the page", async () => {
  const { page, problems, context } = await open(htmlOf("keys.html", recording, "--source"));
  const wanted = await page.evaluate(() => {
    const can = "a[href], button, input, summary, svg[tabindex], .tip[tabindex]";
    const own = (e) => e.getAttribute("tabindex") !== "-1" && e.checkVisibility() && !e.closest("details:not([open]) > :not(summary)");
    const all = [...document.querySelectorAll(can)].filter(own);
    all.forEach((e, at) => (e.dataset.key = String(at)));
    return all.length;
  });
  assert.ok(wanted > 40, `${wanted} stops`);
  const seen = [];
  // Some stops, such as boxes that scroll, are the browser's own.
  for (let press = 0; press < wanted * 2 && seen.at(-1) !== wanted - 1; press++) {
    await page.keyboard.press("Tab");
    const key = await page.evaluate(() => document.activeElement?.dataset.key ?? null);
    if (key !== null) seen.push(Number(key));
  }
  assert.deepEqual(seen, [...Array(wanted).keys()]);
  assert.deepEqual(problems, []);
  await context.close();
});

/** Colours as people without one kind of cones see them (Machado, Oliveira and Fernandes 2009, severity 1). */
const KINDS = {
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
/** CIE L*a*b* of linear sRGB. */
function lab([r, g, b]) {
  const xyz = [0.4124 * r + 0.3576 * g + 0.1805 * b, 0.2126 * r + 0.7152 * g + 0.0722 * b, 0.0193 * r + 0.1192 * g + 0.9505 * b];
  const [x, y, z] = xyz.map((v, i) => Math.max(v, 0) / [0.9505, 1, 1.089][i]).map((v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("colours that must be told apart can be, by people without one kind of cones, in both themes", async () => {
  const file = htmlOf("colours.html", recording);
  for (const colorScheme of ["light", "dark"]) {
    const { page, context } = await open(file, { colorScheme });
    const names = ["near", "far", "ground", "l0", "l1", "l2", "l3", "l4", "n0", "n1"];
    const hex = await page.evaluate((all) => all.map((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()), names);
    const colour = Object.fromEntries(names.map((name, at) => {
      const full = hex[at].length === 4 ? hex[at].replace(/[0-9a-f]/g, "$&$&") : hex[at];
      return [name, [1, 3, 5].map((i) => linear(Number.parseInt(full.slice(i, i + 2), 16) / 255))];
    }));
    for (const [kind, rows] of Object.entries({ trichromacy: [[1, 0, 0], [0, 1, 0], [0, 0, 1]], ...KINDS })) {
      const seen = (name) => lab(rows.map((row) => Math.min(1, Math.max(0, row.reduce((sum, w, i) => sum + w * colour[name][i], 0)))));
      // 10: clearly different side by side.
      for (const [a, b] of [["near", "far"], ["l0", "l1"], ["l1", "l2"], ["l2", "l3"], ["l3", "l4"], ["ground", "l0"], ["n0", "n1"]]) {
        const apart = Math.hypot(...seen(a).map((v, i) => v - seen(b)[i]));
        assert.ok(apart > 10, `${a} and ${b} are ${apart.toFixed(1)} apart in ${kind}, ${colorScheme}`);
      }
      const light = ["l0", "l1", "l2", "l3", "l4"].map((name) => seen(name)[0]);
      const order = [...light].sort((a, b) => (colorScheme === "light" ? b - a : a - b));
      assert.deepEqual(light, order, `more is ${colorScheme === "light" ? "darker" : "lighter"} in ${kind}`);
    }
    await context.close();
  }
});

test("the page prints: nothing is wider than the paper, and what only a screen needs is left out", async () => {
  const { page, problems, context } = await open(htmlOf("print.html", recording), { viewport: { width: 794, height: 1123 } });
  await page.emulateMedia({ media: "print" });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `wider than the paper by ${wide}`);
  for (const part of ["nav", ".save", ".copy", ".tools"]) assert.ok(await page.locator(part).first().isHidden(), `${part} is printed`);
  // What is high and kept together leaves a sheet empty before it.
  const kept = await page.evaluate(() => [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().height > 500 && getComputedStyle(e).breakInside !== "auto").map((e) => `${e.tagName} ${e.id} ${e.className}`));
  assert.deepEqual(kept, []);
  assert.equal((await page.pdf({ format: "A4", printBackground: true })).subarray(0, 5).toString(), "%PDF-");
  assert.deepEqual(problems, []);
  await context.close();
});

test("both themes, by the system and by the switch", async () => {
  const file = htmlOf("themes.html", recording);
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const seen = {};
  for (const colorScheme of ["light", "dark"]) {
    const { page, problems, context } = await open(file, { colorScheme });
    seen[colorScheme] = await ground(page);
    assert.deepEqual(problems, []);
    await context.close();
  }
  assert.notEqual(seen.light, seen.dark);
  const { page, context } = await open(file, { colorScheme: "light" });
  await page.click("#theme");
  assert.equal(await ground(page), seen.light);
  await page.click("#theme");
  assert.equal(await ground(page), seen.dark);
  await context.close();
});

test("without scripts the page is the text report", async () => {
  const file = htmlOf("text.html", recording);
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(pathToFileURL(file).href);
  const text = run("report", recording, "--as", "2x22", "--details", "--width", "100", "--color", "never");
  assert.equal((await page.textContent("noscript pre")).trim(), text.trim());
  await context.close();
});

test("a page of a normal recording is small, and what exists is not overwritten unasked", () => {
  const file = htmlOf("size.html", recording);
  assert.ok(statSync(file).size < 3e6, `${statSync(file).size} bytes`);
  assert.throws(() => run("report", recording, "--html", file), /exists and is not overwritten/);
  run("report", recording, "--html", file, "--force");
  const folder = join(dir, "folder.html");
  if (!existsSync(folder)) mkdirSync(folder);
  assert.throws(() => run("report", recording, "--html", folder, "--force"), /not a regular file/);
});
