// The page at an address of this machine, also while the recording runs.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { browser, dir, jsonOf, nearfar, program, recording, served } from "./common.mjs";

test("the page is served to who has its address, and to no other", async () => {
  const { url, server } = await served(recording, "--as", "2x22");
  try {
    const report = jsonOf(recording);
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
  const words = ["record", "-q", "-o", rec, "--", program, "256", "256", "256", "4000", "256", "16", "32"];
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
