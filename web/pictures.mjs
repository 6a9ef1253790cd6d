// A picture of the first screen of a page: node web/pictures.mjs PAGE.html OUT.png WIDTH HEIGHT light|dark
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, to, width, height, colorScheme] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false });
const context = await browser.newContext({ viewport: { width: Number(width), height: Number(height) }, colorScheme });
const page = await context.newPage();
await page.goto(pathToFileURL(resolve(file)).href);
await page.waitForSelector("html[data-ready]", { timeout: 30_000 });
await page.screenshot({ path: to });
await browser.close();
