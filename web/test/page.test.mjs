// The page in a real browser: headless Chromium, pages of recordings of real programs, by the nearfar that was built.
// NEARFAR_PAGE_DIR is where web/check put recordings and pages.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const nearfar = process.env.NEARFAR;
const dir = process.env.NEARFAR_PAGE_DIR;
const recording = join(dir, "iso.nearfar");
let browser;

const args = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false, args });
});
after(async () => browser?.close());

/** Opens a page; what the browser complains of, and what it asks the network for, is in `problems`. */
async function open(file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => (problems.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => request.url().startsWith("file:") || problems.push(`request: ${request.url()}`));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready]", { timeout: 10_000 });
  return { page, problems, context };
}

function run(...words) {
  return execFileSync(nearfar, words, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "pipe"] });
}

function htmlOf(name, source, ...more) {
  const file = join(dir, name);
  rmSync(file, { force: true });
  run("report", source, "--as", "2x22", "--html", file, ...more);
  return file;
}

/** As the text report prints shares (crates/model/src/percent.rs). */
const digits = (share) => {
  const p = Math.abs(share * 100);
  const decimals = p >= 9.95 || p === 0 ? 0 : p >= 0.095 ? 1 : Math.min(3, Math.max(1, Math.ceil(-Math.log10(p))));
  return share > 0 && share < 0.00001 ? "< 0.001" : (share * 100).toFixed(decimals);
};
const percent = (share) => (share === null ? "unknown" : `${digits(share)} %`);
const cell = (share) => (share > 0 && share < 0.00095 ? "<0.1" : digits(share));

test("verdict and top finding are on the first screen at both sizes, and nothing is complained of", async () => {
  const file = htmlOf("first.html", recording);
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
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
      assert.equal(await page.textContent(".finding.first strong"), finding.advice);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `the page scrolls sideways by ${wide} at ${viewport.width}`);
    assert.deepEqual(problems, []);
    await context.close();
  }
});

test("numbers are those of --json", async () => {
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
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
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
  const { page, problems, context } = await open(htmlOf("strips.html", recording));
  assert.equal(await page.locator("#object-table .smallstrip").count(), Math.min(20, report.pictures.strips.length));
  await page.click("#object-table .open >> nth=0");
  const svg = page.locator("#object-table .stripbox svg").first();
  await svg.focus();
  const answer = page.locator("#object-table .stripbox .answer").first();
  const first = await answer.textContent();
  assert.match(first, /node of the page: node 0 100 %/);
  assert.match(first, new RegExp(`touched first by thread ${report.pictures.strips[0].first_thread[0].tid}`));
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
  assert.notEqual(await answer.textContent(), first);
  const box = await svg.boundingBox();
  await page.mouse.move(box.x + box.width - 4, box.y + 10);
  assert.match(await answer.textContent(), /MiB to .* MiB/);
  assert.deepEqual(problems, []);
  await context.close();
});

test("the matrix after the repair is that of --json", async () => {
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
  const { page, context } = await open(htmlOf("repaired.html", recording));
  const shown = await page.locator(".matrix").count();
  const repaired = report.pictures.repaired;
  assert.equal(shown, report.findings.length > 0 && repaired ? 2 : 1);
  if (shown === 2) {
    const cells = await page.$$eval(".matrix >> nth=1 >> text.number", (all) => all.map((e) => e.textContent));
    assert.deepEqual(cells, repaired.node_matrix.flat().map(cell));
  }
  await context.close();
});

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

/** What the page should say of a row in parts `first` to `end` of the run, from --json. */
function part(timeline, own, first, end) {
  const add = (list) => list.slice(first, end).reduce((a, b) => a + b, 0);
  const all = (w) => add(w.near) + add(w.far) + add(w.other) + add(w.waiting);
  const known = add(own.near) + add(own.far);
  return { share: all(own) / all(timeline.all), remote: known > 0 ? add(own.far) / known : null };
}

test("a part of the run is selected by pointer and by keyboard, and everything follows", async () => {
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
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

test("threads over time answer at every place", async () => {
  const { page, problems, context } = await open(htmlOf("cpus.html", recording));
  await page.focus("#thread-cpus svg.chart");
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#thread-cpus .answer"), /threads? seen: \d+ on cpu \d+/);
  assert.deepEqual(problems, []);
  await context.close();
});

test("places in code lead to their source, where it was asked for", async () => {
  const plain = await open(htmlOf("nosource.html", recording));
  assert.equal(await plain.page.locator("table.source").count(), 0, "source leaves the machine only when asked");
  await plain.context.close();
  const { page, problems, context } = await open(htmlOf("source.html", recording, "--source"));
  const place = page.locator("#function-table .place a").first();
  const at = await place.textContent();
  await place.focus();
  await page.keyboard.press("Enter");
  const line = page.locator("table.source tr:target");
  assert.ok(await line.isVisible());
  assert.equal(await line.locator("td").first().textContent(), at.split(":").at(-1));
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
  const cost = report.functions.flatMap((f) => f.lines).find((l) => l.at === at);
  const figures = (await line.locator("td").allTextContents()).slice(1, 4);
  assert.deepEqual(figures, [cost.stall_share, cost.near_share, cost.at_risk].map(percent));
  assert.deepEqual(problems, []);
  await context.close();
});

test("code is grouped by node, thread and object, with the numbers of --json", async () => {
  const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
  const { page, problems, context } = await open(htmlOf("groups.html", recording));
  await page.click('[role="tab"]:text-is("grouped")');
  const shares = (view) => page.$$eval(`#group-view-${view} summary .grouped`, (all) => all.map((e) => e.firstChild.textContent));
  assert.deepEqual(await shares(0), report.pictures.code_by_node.map((g) => percent(g.share)));
  const first = await page.textContent("#group-view-0 .leaf code");
  assert.equal(first, report.functions[report.pictures.code_by_node[0].functions[0].row].function);
  await page.click('[role="tab"]:text-is("by thread")');
  assert.deepEqual(await shares(1), report.pictures.code_by_thread.map((g) => percent(g.share)));
  await page.click('[role="tab"]:text-is("by object")');
  assert.deepEqual(await shares(2), report.objects.slice(0, 20).map((o) => percent(o.stall_share)));
  assert.deepEqual(problems, []);
  await context.close();
});

test("instructions around the hottest ones are shown where source was asked for", async () => {
  const file = htmlOf("listing.html", recording, "--source");
  const { page, problems, context } = await open(file);
  const about = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).about);
  assert.ok(about.code.length > 0, String(about.code_missing));
  await page.click('[role="tab"]:text-is("instructions")');
  const hot = page.locator("table.listing tr.hot");
  assert.ok((await hot.count()) > 0 && (await hot.first().isVisible()));
  assert.match(await hot.first().locator(".figure").first().textContent(), /%/);
  assert.deepEqual(problems, []);
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

/** A server of `report --web`: its address, and the process to end. */
async function served(...words) {
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

test("the page is served to who has its address, and to no other", async () => {
  const { url, server } = await served(recording, "--as", "2x22");
  try {
    const report = JSON.parse(run("report", recording, "--as", "2x22", "--json"));
    const context = await browser.newContext();
    const page = await context.newPage();
    const problems = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
    page.on("request", (request) => request.url().startsWith(new URL(url).origin) || problems.push(`request: ${request.url()}`));
    const answer = await page.goto(url);
    await page.waitForSelector("html[data-ready]");
    assert.deepEqual(await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).report), report);
    assert.equal(answer.headers()["refresh"], undefined, "what is finished does not change");
    assert.deepEqual(problems.filter((p) => !p.includes("favicon") && !p.includes("404")), []);
    await context.close();
    const { port } = new URL(url);
    assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 404);
    assert.equal((await fetch(`http://127.0.0.1:${port}/${"0".repeat(32)}/`)).status, 404);
    assert.equal((await fetch(url, { method: "POST" })).status, 400);
  } finally {
    server.kill();
  }
});

test("a recording that is still running is shown while it runs, and as it is when it has ended", async () => {
  const rec = join(dir, "live.nearfar");
  rmSync(rec, { recursive: true, force: true });
  const words = ["record", "-q", "-o", rec, "--", process.env.NEARFAR_PAGE_PROGRAM, "256", "256", "256", "4000", "256", "16", "32"];
  const recorder = spawn(nearfar, words, { stdio: "ignore", env: { ...process.env, OMP_NUM_THREADS: "2" } });
  const ended = new Promise((done) => recorder.on("exit", done));
  try {
    let open;
    // The recorder makes its directory first, and writes what it has each second.
    while (!open) {
      await new Promise((done) => setTimeout(done, 300));
      assert.equal(recorder.exitCode, null, "the program runs for long");
      open = await served(rec).catch(() => null);
    }
    const text = async () => JSON.parse((await (await fetch(open.url)).text()).match(/id="data">(.*?)<\/script>/s)[1]);
    const first = await fetch(open.url);
    assert.match(first.headers.get("refresh"), /^\d+$/);
    const live = (await text()).report;
    assert.ok(live.ended_early.includes("still running") && live.verdict !== "clean", live.ended_early);
    assert.ok(live.notes.some((note) => note.includes("still running")), String(live.notes));
    recorder.kill("SIGTERM");
    await ended;
    // The page is made again when a reader asks for it later than its own interval.
    let last;
    do {
      await new Promise((done) => setTimeout(done, 500));
      last = await fetch(open.url);
    } while (last.headers.get("refresh") !== null);
    assert.ok(!(await text()).report.notes.some((note) => note.includes("still running")));
    open.server.kill();
  } finally {
    recorder.kill("SIGKILL");
  }
});

test("before and after: diff's page has the numbers of its JSON", async () => {
  const after = join(dir, "after.nearfar");
  const comparison = JSON.parse(run("diff", recording, after, "--as", "2x22", "--same-work", "--json"));
  const file = join(dir, "diff.html");
  rmSync(file, { force: true });
  run("diff", recording, after, "--as", "2x22", "--same-work", "--html", file);
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
  const reports = [recording, after].map((one) => JSON.parse(run("report", one, "--as", "2x22", "--json")));
  const comparison = JSON.parse(run("diff", recording, after, "--as", "2x22", "--same-work", "--json"));
  const file = join(dir, "diff-brush.html");
  rmSync(file, { force: true });
  run("diff", recording, after, "--as", "2x22", "--same-work", "--html", file);
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

test("an open row stays open while a part of the run is selected", async () => {
  const { page, context } = await open(htmlOf("open.html", recording));
  await page.click("#object-table .open >> nth=0");
  await page.focus("#near-far svg.chart");
  for (let i = 0; i < 3; i++) await page.keyboard.press("Shift+ArrowRight");
  await page.waitForSelector("#object-table .selected-range:visible");
  assert.ok(await page.isVisible("#object-table tr.detail >> nth=0"));
  await context.close();
});

test("a run of several ranks has a page: hosts and ranks with the shares of --json", async () => {
  const rec = join(dir, "ranks.nearfar");
  rmSync(rec, { recursive: true, force: true });
  for (const [rank, init] of ["first-touch", "serial", "first-touch"].entries()) {
    const env = { ...process.env, SLURM_JOB_ID: "77", SLURM_STEP_ID: "0", SLURM_PROCID: String(rank), SLURM_NTASKS: "4", SLURM_LOCALID: String(rank), OMP_NUM_THREADS: "2" };
    execFileSync(nearfar, ["record", "-q", "--as", "2x22", "-o", rec, "--", process.env.NEARFAR_PAGE_PROGRAM, "256", "256", "256", "3", "256", "16", "32", "--init", init], { env, stdio: "ignore" });
  }
  const json = JSON.parse(run("report", rec, "--json"));
  const file = join(dir, "ranks.html");
  rmSync(file, { force: true });
  run("report", rec, "--html", file);
  const { page, problems, context } = await open(file, { viewport: { width: 800, height: 600 } });
  assert.deepEqual(await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).run), json);
  const cells = await page.$$eval(".heat text.number", (all) => all.map((e) => e.textContent));
  assert.deepEqual(cells, json.ranks.map((one) => (one.verdict === null ? "\u00d7" : one.far_share === null ? "?" : digits(one.far_share))));
  assert.match(await page.textContent("#verdict"), /1 rank without a recording: 3/);
  await page.focus(".heat svg");
  await page.keyboard.press("ArrowRight");
  const said = await page.textContent(".heat .answer");
  assert.ok(said.startsWith(`rank 1 on ${json.ranks[1].host}: at risk ${percent(json.ranks[1].far_share)}`) && said.includes("source:"), said);
  const rows = await page.$$eval("#rank-table tbody tr", (lines) => lines.map((l) => l.cells[3].innerText.trim()));
  assert.deepEqual(rows, json.ranks.map((one) => percent(one.far_share)));
  assert.deepEqual(problems, []);
  await context.close();
});

test("the page prints: nothing is wider than the paper, and what only a screen needs is left out", async () => {
  const { page, problems, context } = await open(htmlOf("print.html", recording), { viewport: { width: 794, height: 1123 } });
  await page.emulateMedia({ media: "print" });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `wider than the paper by ${wide}`);
  for (const part of ["nav", ".save", ".copy", ".tools"]) assert.ok(await page.locator(part).first().isHidden(), `${part} is printed`);
  assert.equal((await page.pdf({ format: "A4", printBackground: true })).subarray(0, 5).toString(), "%PDF-");
  assert.deepEqual(problems, []);
  await context.close();
});

test("every figure that is hovered or focused says its source", async () => {
  const { page, context } = await open(htmlOf("tips.html", recording));
  await page.focus("#object-table .figure");
  assert.match(await page.textContent("#tip"), /source: .*samples/);
  await page.keyboard.press("Escape");
  assert.ok(await page.isHidden("#tip"));
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

const hostile = `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'">'"&lt;\u202e`;

test("hostile names are inert wherever they stand", async () => {
  const file = htmlOf("hostile.html", recording);
  const page = readFileSync(file, "utf8");
  const [before, rest] = page.split(`id="data">`);
  const data = rest.slice(0, rest.indexOf("</script>"));
  const fixed = new Set(["schema", "verdict", "kind", "basis", "region", "class", "pattern", "source", "axis", "clock", "binds", "roof"]);
  const poison = (value, key) => {
    if (typeof value === "string") return fixed.has(key) ? value : hostile + value;
    if (Array.isArray(value)) return value.map((v) => poison(v, key));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, poison(v, k)]));
    return value;
  };
  const bad = JSON.stringify(poison(JSON.parse(data), "")).replace(/</g, "\\u003c");
  writeFileSync(file, `${before}id="data">${bad}${rest.slice(data.length)}`);
  const opened = await open(file);
  for (const button of await opened.page.$$("#object-table .open")) await button.click();
  assert.deepEqual(opened.problems, []);
  assert.notEqual(await opened.page.title(), "owned");
  assert.equal(await opened.page.locator("img, iframe, object, embed, base, form, link").count(), 0);
  assert.ok((await opened.page.textContent("h1")).includes("</script>"), "the name is shown as it is");
  await opened.context.close();
});

test("a program with a hostile name is recorded and its page is inert", async () => {
  // The directory is called `<`: its path closes an element.
  const own = mkdtempSync(join(tmpdir(), "nearfar-page-"));
  mkdirSync(join(own, "<"));
  const program = join(own, "<", `script><script>document.title='owned'<!--`);
  execFileSync("cp", [process.env.NEARFAR_PAGE_PROGRAM, program]);
  const rec = join(own, "h.nearfar");
  run("record", "-q", "-o", rec, "--", program, "64", "64", "64", "2", "64", "16", "16");
  const { page, problems, context } = await open(htmlOf("named.html", rec));
  assert.deepEqual(problems, []);
  assert.ok((await page.textContent("#verdict .run code")).length > 10);
  assert.notEqual(await page.title(), "owned");
  await context.close();
  rmSync(own, { recursive: true });
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
