// Names that anybody may have made.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { htmlOf, open, program, recording, run } from "./common.mjs";

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
  const all = await opened.page.evaluate(() => document.getElementById("page").textContent);
  assert.ok(!/[\u202a-\u202e]/.test(all) && all.includes("\\u{202e}"), "no mark of direction turns a line round: it is shown");
  await opened.context.close();
});

test("a program with a hostile name is recorded and its page is inert", async () => {
  // The directory is called `<`: its path closes an element.
  const own = mkdtempSync(join(tmpdir(), "nearfar-page-"));
  mkdirSync(join(own, "<"));
  const named = join(own, "<", `script><script>document.title='owned'<!--`);
  execFileSync("cp", [program, named]);
  const rec = join(own, "h.nearfar");
  run("record", "-q", "-o", rec, "--", named, "64", "64", "64", "2", "64", "16", "16");
  const { page, problems, context } = await open(htmlOf("named.html", rec));
  assert.deepEqual(problems, []);
  assert.ok((await page.textContent("#verdict .run code")).length > 10);
  assert.notEqual(await page.title(), "owned");
  await context.close();
  rmSync(own, { recursive: true });
});

test("what data could bring in does not run: the policy of the page refuses it", async () => {
  const { page, context } = await open(htmlOf("policy.html", recording));
  const policy = await page.getAttribute('meta[http-equiv="Content-Security-Policy"]', "content");
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; base-uri 'none'; form-action 'none'$/);
  const refused = await page.evaluate(async () => {
    const all = [];
    document.addEventListener("securitypolicyviolation", (event) => all.push(event.effectiveDirective));
    document.body.insertAdjacentHTML("beforeend", `<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" onerror="window.owned = 1">`);
    const script = document.createElement("script");
    script.textContent = "window.owned = 2";
    document.body.append(script);
    await fetch("http://127.0.0.1:9/").catch(() => null);
    while (all.length < 4) await new Promise((done) => setTimeout(done, 10));
    return { all, owned: window.owned ?? null };
  });
  assert.equal(refused.owned, null);
  for (const kind of ["img-src", "script-src-attr", "script-src-elem", "connect-src"]) assert.ok(refused.all.includes(kind), `${kind}: ${refused.all}`);
  await context.close();
});
