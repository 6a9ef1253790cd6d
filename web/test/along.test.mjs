// What was counted beside the samples: values, their sources, and what is unknown with why.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { cured, dir, htmlOf, jsonOf, open, recording, skip } from "./common.mjs";

const rows = (page, id) => page.$$eval(`#${id} tbody tr`, (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));

test("counters are on the page with their sources, and unknown ones with the reason", async () => {
  const along = jsonOf(recording).counted_along;
  const { page, problems, context } = await open(htmlOf("along.html", recording));
  const shown = await rows(page, "counter-table");
  assert.equal(shown.length, Math.min(20, along.program.length));
  for (const [at, value] of along.program.slice(0, 20).entries()) {
    const [name, of, text, , source, note] = shown[at];
    assert.deepEqual([name, of, source, note], [value.name, value.of, value.source, value.why ?? ""]);
    if (value.value === null) assert.equal(text, "unknown", name);
    else assert.notEqual(text, "unknown", name);
  }
  const unknown = along.program.find((v) => v.value === null);
  if (unknown) assert.ok(unknown.why.length > 0 && shown.some((row) => row[2] === "unknown" && row[5] === unknown.why), unknown.name);
  const lead = await page.textContent("#along .lead");
  assert.match(lead, along.remote_share === null ? /^Remote share by counters is unknown: ./ : /% of the lines from memory/);
  assert.ok(along.remote_share !== null || lead.includes(along.remote_share_why));
  assert.equal((await rows(page, "counted-thread-table")).length, Math.min(20, along.threads.length));
  assert.deepEqual(problems, []);
  await context.close();
});

/** The page with another report in it. */
function changed(name, change) {
  const html = readFileSync(htmlOf(`of-${name}`, recording), "utf8");
  const [, begin, data, end] = html.match(/^([\s\S]*<script[^>]*id="?data"?[^>]*>)([\s\S]*?)(<\/script>[\s\S]*)$/);
  const parsed = JSON.parse(data);
  change(parsed.report);
  const file = join(dir, name);
  writeFileSync(file, begin + JSON.stringify(parsed).replaceAll("<", "\\u003c") + end);
  return file;
}

test("a counter of the processor that took turns, and remote lines that the samples contradict", async () => {
  const value = (name, value, more) => ({ name, of: "the counted threads", value, unit: "", running_share: 1, source: "0xd3", why: null, ...more });
  const file = changed("along-pmu.html", (r) => {
    r.counted_along = {
      program: [value("remote lines", 1234567, { running_share: 0.25 }), value("cycles", null, { running_share: null, why: "the kernel refuses it" })],
      threads_share: 0.5,
      threads: [{ tid: r.threads[0].tid, name: "app", cpu_seconds: 2, page_faults: 1, context_switches: null, cpu_migrations: null, instructions: 300, cycles: 200, last_level_misses: null, local_lines: 10, remote_lines: 30 }],
      host: [value("bytes read", 2.5e9, { of: "node 0", unit: "bytes", source: "uncore_imc" })],
      host_seconds: 4,
      remote_share: 0.75,
      remote_share_why: null,
      agrees: false,
    };
  });
  const { tid, index } = jsonOf(recording).threads[0];
  const { page, problems, context } = await open(file);
  assert.deepEqual(await rows(page, "counter-table"), [
    ["remote lines", "the counted threads", "1,234,567", "25 %", "0xd3", ""],
    ["cycles", "the counted threads", "unknown", "unknown", "0xd3", "the kernel refuses it"],
  ]);
  assert.deepEqual(await rows(page, "counted-thread-table"), [[`${index} app tid ${tid}`, "2.00 s", "1", "300", "10", "30", "1.50"]]);
  assert.deepEqual(await rows(page, "host-counter-table"), [["bytes read", "node 0", "2.500 GB", "100 %", "uncore_imc", ""]]);
  assert.match(await page.textContent("#along .lead"), /75 % of the lines from memory; the samples disagree/);
  assert.match(await page.textContent("#along"), /These ran for 50 % of the CPU time/);
  assert.deepEqual(problems, []);
  await context.close();
});

test("what is predicted from samples is in the ladder with its source", async () => {
  const file = changed("ladder-samples.html", (r) => {
    r.what_if = null;
    const every_line_local = { ratio: 0.7, low: 0.6, high: 0.9 };
    const source = "samples of the processor and of the clock";
    r.sampled_gain = { every_line_local, source, slices: 1, explained_share: 1, far_over_near: 1.6, latencies_from: "samples" };
  });
  const { page, problems, context } = await open(file);
  const last = page.locator("#ladder .step").last();
  assert.match(await last.textContent(), /every line local/);
  await last.hover();
  assert.match(await page.textContent("body"), /source: samples of the processor and of the clock/);
  assert.deepEqual(problems, []);
  await context.close();
});

test("a counted run has no such part: all its counts are exact", { skip }, async () => {
  const { page, context } = await open(htmlOf("along-none.html", cured.before));
  assert.equal(await page.locator("#along").count(), 0);
  await context.close();
});
