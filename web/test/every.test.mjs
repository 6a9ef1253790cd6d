// What every page of every kind keeps, in windows of both sizes and in both themes.
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, test } from "node:test";
import { cured, dir, open, phases, recording, skip, written } from "./common.mjs";

/** Name and file of each page. */
const pages = [];
before(() => {
  const as = ["--as", "2x22"];
  pages.push(["sampled", written("every-sampled.html", "report", recording, ...as, "--source")]);
  pages.push(["repaired", written("every-repaired.html", "report", join(dir, "after.nearfar"), ...as)]);
  pages.push(["eight nodes", written("every-eight.html", "report", recording, "--as", "8x6")]);
  pages.push(["four nodes", written("every-four.html", "report", recording, "--as", "4x12")]);
  pages.push(["phases", written("every-phases.html", "report", phases, ...as)]);
  pages.push(["diff", written("every-diff.html", "diff", recording, join(dir, "after.nearfar"), ...as, "--same-work")]);
  if (!skip) pages.push(["counted", written("every-counted.html", "report", cured.before)], ["counted, repaired", written("every-well.html", "report", cured.after)], ["cure", cured.page]);
});

/** Labels of pictures that lie over each other or over the edge of their picture. */
const collisions = (page) =>
  page.evaluate(() => {
    const found = [];
    for (const svg of document.querySelectorAll("main svg[role=img]")) {
      if (!svg.checkVisibility()) continue;
      const frame = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent !== "" && getComputedStyle(t).display !== "none").map((t) => ({ t: t.textContent, b: t.getBoundingClientRect() }));
      for (const { t, b } of texts) if (b.left < frame.left - 2 || b.right > frame.right + 2 || b.bottom > frame.bottom + 2) found.push(`cut: ${t}`);
      for (let i = 0; i < texts.length; i++)
        for (let k = i + 1; k < texts.length; k++) {
          const [a, b] = [texts[i].b, texts[k].b];
          const [wide, high] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
          // Boxes of letters are higher than the letters.
          if (wide > 2 && high > 0.4 * Math.min(a.height, b.height)) found.push(`overlap: ${texts[i].t} and ${texts[k].t}`);
        }
    }
    return found;
  });

test("every page: nothing is complained of, scrolls sideways, is cut or lies over something else", async () => {
  for (const [name, file] of pages)
    for (const viewport of [{ width: 1400, height: 900 }, { width: 800, height: 600 }])
      for (const colorScheme of ["light", "dark"]) {
        const { page, problems, context } = await open(file, { viewport, colorScheme });
        const where = `${name}, ${viewport.width} ${colorScheme}`;
        for (const opener of (await page.locator("#object-table .open").all()).slice(0, 2)) await opener.click();
        assert.deepEqual(await collisions(page), [], where);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${where}: scrolls sideways by ${wide}`);
        // Letters that are too small to be read.
        const small = await page.$$eval("main svg[role=img] text", (all) => all.filter((t) => t.checkVisibility() && Number.parseFloat(getComputedStyle(t).fontSize) * (t.getScreenCTM()?.a ?? 1) < 9).map((t) => t.textContent));
        assert.deepEqual(small, [], where);
        assert.deepEqual(problems, [], where);
        await context.close();
      }
});
