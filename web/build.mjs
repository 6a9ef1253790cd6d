// Builds the page of `report --html` into crates/report/src/html/page.html, which is checked in so that cargo
// needs no Node. `--check` builds in memory and fails where the file is another.
import { build, transform } from "esbuild";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { types } from "./schema.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const check = process.argv.includes("--check");
const wrong = [];

function put(path, text) {
  if (existsSync(here(path)) && readFileSync(here(path), "utf8") === text) return;
  if (check) wrong.push(path);
  else writeFileSync(here(path), text);
}

/** A source of a content-security policy: what has these bytes may run, nothing else. */
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// Not checked in: a new field of the report changes the types and not the page.
writeFileSync(here("src/report.ts"), types(here("../docs/report.schema.json")));

const bundle = await build({
  entryPoints: [here("src/main.ts")],
  bundle: true,
  minify: true,
  charset: "ascii",
  format: "iife",
  target: "es2022",
  legalComments: "inline",
  write: false,
});
const script = bundle.outputFiles[0].text.trim();
const css = readFileSync(here("src/style.css"), "utf8");
const style = (await transform(css, { loader: "css", minify: true, charset: "ascii" })).code.trim();

const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'`;
const parts = { policy, style, script };
const page = readFileSync(here("src/page.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
put("../crates/report/src/html/page.html", page);

if (wrong.length > 0) {
  console.error(`not what the sources give: ${wrong.join(", ")}; run \`npm run build\` in web/`);
  process.exit(1);
}
