/** The page gives what the command gives. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";
import { command, download, open, over, scenario, write } from "./page";

for (const figure of ["fig1", "fig2", "fig3", "fig4", "fig5"]) {
  test(`${figure} has the results of fullpipe run --json`, async ({ page }) => {
    await open(page, `#figure=${figure}`);
    const { name, bytes } = await download(page, "JSON");
    expect(name).toBe(`${figure}.json`);
    const ours = JSON.parse(bytes.toString());
    const theirs = JSON.parse(command("run", `scenarios/figures/${figure}.toml`, "--json"));
    // The page has no file.
    theirs.scenarios[0].file = null;
    expect(ours.scenarios[0].runs.length).toBeGreaterThan(0);
    expect(JSON.stringify(ours)).toBe(JSON.stringify(theirs));
  });
}

test("sliders make the scenario whose results are shown", async ({ page }) => {
  await open(page, "#rate=50&rtt=20&buffer=1&loss=0.1&duration=5&gap=1&cc=bbr3,bbr1,reno");
  const ours = JSON.parse((await download(page, "JSON")).bytes.toString());
  const dir = mkdtempSync(join(tmpdir(), "fullpipe-page-"));
  const file = join(dir, "scenario.toml");
  writeFileSync(file, (await download(page, "TOML")).bytes);
  expect(readFileSync(file, "utf8")).toContain('loss = "0.1%"');
  const theirs = JSON.parse(command("run", file, "--json"));
  theirs.scenarios[0].file = null;
  expect(JSON.stringify(ours)).toBe(JSON.stringify(theirs));
});

test("the story is that of fullpipe explain", async ({ page }) => {
  await open(page, "#figure=fig5");
  await page.getByLabel("Flow", { exact: true }).selectOption("1/0");
  const told = page.locator("#story ol.story > li");
  const story = JSON.parse(command("explain", "scenarios/figures/fig5.toml", "--run", "1", "--json"));
  await expect(told).toHaveCount(story.chapters.length);
  await expect(page.locator("#story")).toContainText(story.chapters[1].why);
  const states = story.chapters.map((chapter: { state: string }) => chapter.state);
  expect(await told.locator("strong").allTextContents()).toEqual(states);
});

test("Parquet has each table, and SVG each plot", async ({ page }) => {
  await open(page);
  for (const table of ["summary", "flows", "links", "series"]) {
    const { name, bytes } = await download(page, `Parquet: ${table}`);
    expect(name).toBe(`scenario-${table}.parquet`);
    expect(bytes.subarray(0, 4).toString()).toBe("PAR1");
    expect(bytes.subarray(-4).toString()).toBe("PAR1");
  }
  const svg = (await download(page, "SVG")).bytes.toString();
  for (const name of ["Throughput", "Queue", "Round trip", "In flight", "State"]) expect(svg).toContain(name);
  const parsed = await page.evaluate((text) => {
    const xml = new DOMParser().parseFromString(text, "image/svg+xml");
    return { wrong: xml.querySelector("parsererror") !== null, variables: text.includes("stroke=\"var(") };
  }, svg);
  expect(parsed).toEqual({ wrong: false, variables: false });
});

test("figure 6 runs whole, and can be stopped", async ({ page }) => {
  await page.goto("/#figure=fig6");
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page.locator("#summary")).toHaveText("Stopped.");
  // And the page runs another one after it.
  await page.getByLabel("Experiment", { exact: true }).selectOption("fig4");
  await expect(page.locator("#summary")).toContainText("simulated in");
  await page.getByLabel("Experiment", { exact: true }).selectOption("fig6");
  await over(page);
  await expect(page.locator("#summary")).toContainText("18 runs");
  await expect(page.locator("#verdicts tbody tr")).toHaveCount(3);
});

test("60 s of a flow at 100 Mbit/s take less than half a second", async ({ page }) => {
  await open(page, "#rate=100&rtt=40&buffer=2&loss=0&duration=60&gap=0&cc=bbr3");
  const seconds: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    await write(page, `${await scenario(page)}\n# ${i}`);
    await over(page);
    seconds.push(await page.evaluate(() => Number(document.body.dataset.seconds)));
  }
  console.log(`60 s of one flow at 100 Mbit/s: ${seconds.map((s) => s.toFixed(3)).join(", ")} s`);
  expect(Math.min(...seconds)).toBeLessThan(0.5);
});
