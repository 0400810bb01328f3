/**
 * Reads a report as people do who do not see it, who use no mouse, or who have a telephone:
 *
 *   node read-report.mjs REPORT.html
 *
 * Chromium gives the accessibility tree, which is what a screen reader has. From it, by headings,
 * captions of tables and headers of rows and columns alone, the program says which run was fastest,
 * with the unit, and whether expectations were met. Then it goes through a page 420 px wide with
 * Tab. It ends with 1 if something cannot be found or reached.
 */
import { existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** The reason why this machine cannot read a report, which is no fault of the report. */
function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(0);
}

const NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const directories = (process.env.PATH ?? "").split(delimiter);
const executablePath = NAMES.flatMap((name) => directories.map((dir) => join(dir, name))).find((path) => existsSync(path));
if (executablePath === undefined) skip("there is no Chromium (apt-get install chromium)");
const playwright = await import("@playwright/test").catch(() => skip("Playwright is not installed (npm ci in web)"));

const problems = [];

/** Says what is wrong, and goes on. */
function ask(isRight, otherwise) {
  if (!isRight) problems.push(otherwise);
}

/** The cells below the header of a column that begins with a name, by the header of their row. */
async function column(table, name) {
  const headers = await table.getByRole("columnheader").allInnerTexts();
  const header = headers.map((text) => text.replace(/\s+/g, " ").trim()).find((text) => text.startsWith(name));
  if (header === undefined) return undefined;
  // Of a header that spans no other column, the place in the first row is that of the cells.
  const first = await table.getByRole("row").first().getByRole("columnheader").allInnerTexts();
  const place = first.findIndex((text) => text.replace(/\s+/g, " ").trim() === header);
  const cells = new Map();
  for (const row of await table.getByRole("row").all()) {
    const of = row.getByRole("rowheader");
    if ((await of.count()) === 1) cells.set((await of.innerText()).trim(), (await row.getByRole("cell").nth(place - 1).innerText()).trim());
  }
  return { header, cells };
}

/** The results: by the caption of the table, then by the name of the column. */
async function results(page) {
  for (const table of await page.getByRole("table", { name: /^Results of / }).all()) {
    const goodput = await column(table, "goodput");
    if (goodput === undefined) {
      problems.push("a table of results has no column for goodput");
      continue;
    }
    const unit = goodput.header.replace("goodput", "").trim();
    ask(unit !== "", "goodput has no unit");
    const [fastest] = [...goodput.cells].sort(([, a], [, b]) => Number(b) - Number(a));
    ask(fastest !== undefined && Number(fastest[1]) > 0, "no run has a goodput");
    if (fastest !== undefined) console.log(`fastest of ${goodput.cells.size}: ${fastest[0]}, goodput ${fastest[1]} ${unit}`);
  }
}

async function expectations(page) {
  for (const table of await page.getByRole("table", { name: /^Expectations of / }).all()) {
    const verdicts = await column(table, "verdict");
    ask(verdicts !== undefined && verdicts.cells.size > 0, "a table of expectations has no verdicts");
    for (const [expectation, verdict] of verdicts?.cells ?? []) console.log(`${verdict}: ${expectation}`);
  }
}

/** Headings go down one level at a time, and each table stands below one. */
async function headings(page) {
  const all = await page.getByRole("heading").all();
  let before = 0;
  for (const heading of all) {
    const level = Number((await heading.evaluate((node) => node.tagName)).slice(1));
    const text = (await heading.innerText()).trim();
    console.log(`heading ${level}: ${text}`);
    ask(level <= before + 1, `the heading '${text}' skips a level`);
    ask(text !== "", "a heading is empty");
    before = level;
  }
  ask((await page.getByRole("heading", { level: 1 }).count()) === 1, "there is not one heading of level 1");
  for (const table of await page.getByRole("table").all()) {
    ask((await table.locator("caption").count()) === 1, "a table has no caption");
  }
  for (const picture of await page.getByRole("img").all()) {
    ask(((await picture.getAttribute("aria-label")) ?? "") !== "", "a picture has no words");
  }
}

/** On a telephone's width the page scrolls down only; what scrolls sideways inside it, Tab reaches. */
async function keyboard(page) {
  await page.setViewportSize({ width: 420, height: 900 });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  ask(width <= 420, `the page is ${width} px wide in a window of 420 px`);
  const wide = await page.evaluate(() => {
    const isWide = (node) => node.scrollWidth > node.clientWidth && ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
    const all = [...document.querySelectorAll("body *")].filter(isWide);
    all.forEach((node, i) => (node.dataset.wide = String(i)));
    return all.length;
  });
  const reached = new Set();
  const names = [];
  for (let i = 0; i < 500; i += 1) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const node = document.activeElement;
      if (node === null || node === document.body) return null;
      const again = node.dataset.seen !== undefined;
      node.dataset.seen = "";
      return { again, wide: node.dataset.wide, name: node.getAttribute("aria-label") ?? node.innerText.trim().slice(0, 60) };
    });
    if (at === null || at.again) break;
    ask(at.name !== "", "Tab stops where nothing has a name");
    names.push(at.name);
    if (at.wide === undefined) continue;
    await page.keyboard.press("ArrowRight");
    const moves = page.waitForFunction(() => document.activeElement.scrollLeft > 0, null, { timeout: 5_000 });
    ask(await moves.then(() => true, () => false), `'${at.name}' does not scroll with the arrow keys`);
    reached.add(at.wide);
  }
  for (const name of names) console.log(`Tab: ${name}`);
  ask(reached.size === wide, `Tab reaches ${reached.size} of the ${wide} parts that scroll sideways`);
  console.log(`at 420 px: ${wide} ${wide === 1 ? "part scrolls" : "parts scroll"} sideways, the page does not`);
}

const file = process.argv[2];
if (file === undefined) {
  console.error("read-report.mjs: give it a report; write node read-report.mjs REPORT.html");
  process.exit(2);
}
const browser = await playwright.chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto(pathToFileURL(resolve(file)).href);
  await headings(page);
  ask((await page.getByRole("table", { name: /^Results of / }).count()) > 0, "no table is named as results");
  await results(page);
  await expectations(page);
  await keyboard(page);
} finally {
  await browser.close();
}
for (const problem of new Set(problems)) console.error(`not accessible: ${problem}`);
process.exit(problems.length === 0 ? 0 : 1);
