// Functions, callers, source lines, instructions, and code in groups.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { dir, embedded, htmlOf, jsonOf, open, percent, phases, recording, run } from "./common.mjs";

test("places in code lead to their source, where it was asked for", async () => {
  const plain = await open(htmlOf("nosource.html", recording));
  assert.equal(await plain.page.locator("table.source").count(), 0, "source leaves the machine only when asked");
  await plain.context.close();
  const { page, problems, context } = await open(htmlOf("source.html", recording, "--source"));
  const place = page.locator("#function-table .place a").first();
  // The whole path is on hover.
  const at = await place.locator("code").getAttribute("title");
  assert.equal(await place.textContent(), at.split("/").at(-1));
  await place.focus();
  await page.keyboard.press("Enter");
  const line = page.locator("table.source tr:target");
  assert.ok(await line.isVisible());
  assert.equal(await line.locator("td").first().textContent(), at.split(":").at(-1));
  const report = jsonOf(recording);
  const cost = report.functions.flatMap((f) => f.lines).find((l) => l.at === at);
  const figures = (await line.locator("td").allTextContents()).slice(1, 4);
  assert.deepEqual(figures, [cost.stall_share, cost.near_share, cost.at_risk].map(percent));
  assert.deepEqual(problems, []);
  await context.close();
});

test("code is grouped by node, thread and object, with the numbers of --json", async () => {
  const report = jsonOf(recording);
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

test("code is grouped by phase, with the numbers of --json, and a program without phases says so", async () => {
  const report = jsonOf(phases);
  const groups = report.pictures.code_by_phase;
  const name = (g) => (g.phase === 0 ? "in no phase" : report.phases.nodes[g.phase].name);
  for (const phase of ["alpha", "beta", "gamma", "delta", "epsilon"]) assert.ok(groups.some((g) => name(g).includes(phase)), `${phase}: ${groups.map(name)}`);
  const { page, problems, context } = await open(htmlOf("phases.html", phases));
  await page.click('[role="tab"]:text-is("grouped")');
  await page.focus('[role="tab"]:text-is("by node")');
  await page.keyboard.press("ArrowLeft");
  const view = page.locator("#group-view-3");
  assert.ok(await view.isVisible(), "by phase is the last, reached by a key");
  const heads = await view.locator("summary .grouped").evaluateAll((all) => all.map((e) => [e.firstChild.textContent, e.lastChild.textContent]));
  assert.deepEqual(heads, groups.map((g) => [percent(g.share), name(g)]));
  const most = groups.findIndex((g) => name(g).includes("epsilon"));
  const inside = await view.locator("details").nth(most).locator(".leaf code").first().textContent();
  assert.equal(inside, report.functions[groups[most].functions[0].row].function);
  assert.deepEqual(problems, []);
  await context.close();
  const plain = await open(htmlOf("nophases.html", recording));
  assert.match(await plain.page.locator("#group-view-3").textContent(), /^No phases/);
  await plain.context.close();
});

test("source that was changed since, built anew or deleted is said", async () => {
  const own = join(dir, "changed");
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own);
  const [source, program, rec] = ["app.c", "app", "app.nearfar"].map((name) => join(own, name));
  const text = "#include <stdlib.h>\nint main(void) {\n  long n = 1 << 22; volatile long *a = malloc(n * sizeof *a);\n  for (int k = 0; k < 40; k++) for (long i = 0; i < n; i++) a[i] = a[(i * 7) % n] + 1;\n  return a[5] == 0;\n}\n";
  const compile = () => execFileSync("gcc", ["-g", "-O1", "-Wl,--build-id", source, "-o", program]);
  writeFileSync(source, text);
  compile();
  run("record", "-q", "--as", "2x22", "-o", rec, "--", program);
  const tab = async (name) => {
    const opened = await open(htmlOf(name, rec, "--source"));
    await opened.page.click('[role="tab"]:text-is("source")');
    const said = await opened.page.textContent('#code [role="tabpanel"]:not([hidden])');
    const { about } = await embedded(opened.page);
    assert.deepEqual(opened.problems, []);
    await opened.context.close();
    return { said, about };
  };
  const as = await tab("unchanged.html");
  assert.ok(as.about.sources.some((file) => file.file.endsWith("app.c") && file.changed === false) && !as.said.includes("changed since"), as.said);
  // A sample or two may be in the loader's or the C library's code, which nobody changed.
  const own_code = (about) => about.code.filter((listing) => listing.module === program);
  assert.ok(own_code(as.about).length > 0, "instructions of the file that was recorded");
  appendFileSync(source, "/* another line */\nint other;\n");
  compile();
  const then = await tab("changed.html");
  assert.match(then.said, /app\.c: changed since the recording: lines may have moved/);
  assert.deepEqual(own_code(then.about), [], "instructions of another build are not shown as those that ran");
  assert.ok(then.about.code_missing.some((why) => /app/.test(why) && then.said.includes(why)), String(then.about.code_missing));
  rmSync(source);
  const gone = await tab("gone.html");
  assert.ok(!gone.about.sources.some((file) => file.file.endsWith("app.c")));
  assert.ok(gone.about.sources_missing.some((why) => why.includes("app.c") && gone.said.includes(why)), String(gone.about.sources_missing));
});
