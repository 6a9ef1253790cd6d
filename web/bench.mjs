// How long pages take in a browser: `node web/bench.mjs PAGE.html …` prints a table and what of the goals holds.
// Asserts nothing: a busy machine is slower. web/bench makes the pages.
// Each page is opened five times, and the median is printed: first paint, until everything is there, and of forty steps of
// a brush over the first chart the median and the longest time until all that follows is drawn.
import { statSync } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const RUNS = 5;
/** First paint, and a step of a brush, in ms. */
const GOALS = { paint: 1000, step: 100 };
const missed = [];
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", chromiumSandbox: false, args: ["--disable-quic", "--disable-background-networking"] });
console.log("| page | kB | first paint, ms | ready, ms | brush step, ms | longest step, ms |\n|---|---|---|---|---|---|");
for (const file of process.argv.slice(2)) {
  const seen = { paint: [], ready: [], step: [], longest: [] };
  for (let run = 0; run < RUNS; run++) {
    const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
    const page = await context.newPage();
    await page.goto(pathToFileURL(file).href);
    await page.waitForSelector("html[data-ready]", { timeout: 60_000 });
    const ready = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
    const paint = await page.evaluate(() => performance.getEntriesByType("paint").find((e) => e.name === "first-contentful-paint")?.startTime ?? null);
    seen.ready.push(ready);
    if (paint !== null) seen.paint.push(paint);
    const chart = page.locator("svg.brushable").first();
    if (await chart.count()) {
      await chart.scrollIntoViewIfNeeded();
      // From the event until the frame after it is drawn: scripts, style, layout and paint.
      const steps = await chart.evaluate(async (svg) => {
        const box = svg.getBoundingClientRect();
        const at = (part) => ({ clientX: box.left + box.width * part, clientY: box.top + 20, button: 0, pointerId: 1, bubbles: true });
        svg.setPointerCapture = () => {};
        svg.dispatchEvent(new PointerEvent("pointerdown", at(0.3)));
        const times = [];
        for (let i = 1; i <= 40; i++) {
          const begin = performance.now();
          svg.dispatchEvent(new PointerEvent("pointermove", at(0.3 + i * 0.015)));
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          times.push(performance.now() - begin);
        }
        svg.dispatchEvent(new PointerEvent("pointerup", at(0.9)));
        return times;
      });
      seen.step.push(median(steps));
      seen.longest.push(Math.max(...steps));
    }
    await context.close();
  }
  for (const [what, goal] of Object.entries(GOALS)) {
    if (seen[what].length > 0 && median(seen[what]) >= goal) missed.push(`${basename(file)}: ${what} ${median(seen[what]).toFixed(0)} ms, goal ${goal} ms`);
  }
  const ms = (list) => (list.length === 0 ? "none" : median(list).toFixed(0));
  console.log(`| ${basename(file)} | ${Math.ceil(statSync(file).size / 1000)} | ${ms(seen.paint)} | ${ms(seen.ready)} | ${ms(seen.step)} | ${ms(seen.longest)} |`);
}
await browser.close();
console.log(`\nfirst paint below ${GOALS.paint} ms and brush steps below ${GOALS.step} ms: ${missed.length === 0 ? "held by all pages" : missed.join("; ")}`);
