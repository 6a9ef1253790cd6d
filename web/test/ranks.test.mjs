// A run of several ranks.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { browser, digits, dir, embedded, nearfar, open, percent, program, run, served, written } from "./common.mjs";

const recordings = join(dir, "ranks.nearfar");
/** The environment of a launcher. */
const rank = (number, job) => ({ ...process.env, SLURM_JOB_ID: job, SLURM_STEP_ID: "0", SLURM_PROCID: String(number), SLURM_NTASKS: "4", SLURM_LOCALID: String(number), OMP_NUM_THREADS: "2" });
const words = (to, steps, init) => ["record", "-q", "--as", "2x22", "-o", to, "--", program, "256", "256", "256", String(steps), "256", "16", "32", "--init", init];

before(() => {
  rmSync(recordings, { recursive: true, force: true });
  for (const [number, init] of ["first-touch", "serial", "first-touch"].entries()) execFileSync(nearfar, words(recordings, 3, init), { env: rank(number, "77"), stdio: "ignore" });
});

const shown = (one) => (one.verdict === null ? "\u00d7" : one.far_share === null ? "?" : digits(one.far_share));

test("a run of several ranks has a page: hosts and ranks with the shares of --json", async () => {
  const json = JSON.parse(run("report", recordings, "--json"));
  const { page, problems, context } = await open(written("ranks.html", "report", recordings), { viewport: { width: 800, height: 600 } });
  assert.deepEqual((await embedded(page)).run, json);
  assert.deepEqual(await page.$$eval(".heat text.number", (all) => all.map((e) => e.textContent)), json.ranks.map(shown));
  assert.match(await page.textContent("#verdict"), /1 rank without a recording: 3/);
  await page.focus(".heat svg");
  await page.keyboard.press("ArrowRight");
  const said = await page.textContent(".heat .answer");
  assert.ok(said.startsWith(`rank 1 on ${json.ranks[1].host}: at risk ${percent(json.ranks[1].far_share)}`) && said.includes("source:"), said);
  const rows = await page.$$eval("#rank-table tbody tr", (lines) => lines.map((l) => l.cells[3].innerText.trim()));
  assert.deepEqual(rows, json.ranks.map((one) => percent(one.far_share)));
  const most = await page.$$eval("#object-table tbody tr", (lines) => lines.map((l) => l.cells[4].innerText.trim()));
  assert.deepEqual(most, json.objects.map((o) => (o.far_time_share === null ? "unknown" : o.far_time_share.max === 0 ? "none" : String(o.worst_rank))));
  assert.deepEqual(problems, []);
  await context.close();
});

test("a run's picture for papers has the shares of --json", async () => {
  const json = JSON.parse(run("report", recordings, "--json"));
  const pictures = join(dir, "rank-pictures");
  rmSync(pictures, { recursive: true, force: true });
  run("report", recordings, "--svg-dir", pictures);
  assert.deepEqual(readdirSync(pictures), ["hosts-and-ranks.svg"]);
  const page = await (await browser.newContext()).newPage();
  const cells = await page.evaluate((svg) => [...new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll('text[text-anchor="middle"]')].map((e) => e.textContent), readFileSync(join(pictures, "hosts-and-ranks.svg"), "utf8"));
  assert.deepEqual(cells, json.ranks.map(shown));
  await page.context().close();
  assert.throws(() => run("report", recordings, "--svg-dir", pictures), /exists and is not overwritten/);
});

test("a run's page is served, and what only one rank has is refused with what to type", async () => {
  const { url, server } = await served(recordings);
  try {
    const answer = await fetch(url);
    assert.equal(answer.headers.get("refresh"), null, "no rank runs any more");
    const page = await answer.text();
    assert.deepEqual(JSON.parse(page.match(/id="data">(.*?)<\/script>/s)[1]).run, JSON.parse(run("report", recordings, "--json")));
  } finally {
    server.kill();
  }
  for (const flag of [["--phases"], ["--callers"], ["--html", "-", "--source"]]) assert.throws(() => run("report", recordings, ...flag), /add --rank N/, flag.join(" "));
});

test("a run with a rank that still runs is shown as that, and made anew when it has ended", async () => {
  const rec = join(dir, "ranks-live.nearfar");
  rmSync(rec, { recursive: true, force: true });
  const recorder = spawn(nearfar, words(rec, 4000, "serial"), { stdio: "ignore", env: rank(0, "78") });
  const ended = new Promise((done) => recorder.on("exit", done));
  let open;
  const states = async () => {
    const answer = await fetch(open.url);
    return { refresh: answer.headers.get("refresh"), run: JSON.parse((await answer.text()).match(/id="data">(.*?)<\/script>/s)[1]).run };
  };
  try {
    // The recorder makes its directory first.
    while (!open) {
      await new Promise((done) => setTimeout(done, 200));
      assert.equal(recorder.exitCode, null, "the program runs for long");
      if (!anyRuns(rec)) continue;
      open = await served(rec);
    }
    const first = await states();
    assert.match(first.refresh, /^\d+$/);
    assert.deepEqual(first.run.ranks.map((one) => one.state), ["running"]);
    recorder.kill("SIGTERM");
    await ended;
    let last;
    do {
      await new Promise((done) => setTimeout(done, 200));
      last = await states();
    } while (last.refresh !== null);
    assert.notEqual(last.run.ranks[0].state, "running");
    assert.notEqual(last.run.ranks[0].verdict, null);
  } finally {
    open?.server.kill();
    recorder.kill("SIGKILL");
  }
});

/** Whether a rank of the run is being recorded; none is while there is no run yet. */
function anyRuns(rec) {
  try {
    return JSON.parse(run("report", rec, "--json")).ranks.some((one) => one.state === "running");
  } catch {
    return false;
  }
}
