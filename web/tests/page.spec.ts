/** The page itself: keyboard, editor, links, size, phones and dark mode. */
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { expect, test } from "@playwright/test";
import { download, open, over, scenario, write } from "./page";

const SLIDERS: [string, RegExp][] = [
  ["Rate", /rate = "150mbit"/],
  ["Round trip", /rtt = "50ms"/],
  ["Buffer", /buffer = "3bdp"/],
  ["Random loss", /loss = "0.001%"/],
  ["Duration", /duration = "15s"/],
  ["Number of flows", /(cc = [^]*){3}/],
  ["Between starts", /start = "3000ms"/],
];

test("every slider is moved by keyboard, says its value and runs the scenario", async ({ page }) => {
  for (const [name, text] of SLIDERS) {
    await open(page);
    const slider = page.getByRole("slider", { name, exact: true });
    const before = await slider.getAttribute("aria-valuetext");
    await expect.poll(() => scenario(page)).not.toMatch(text);
    await slider.focus();
    await page.keyboard.press("ArrowRight");
    expect(await slider.getAttribute("aria-valuetext"), name).not.toBe(before);
    await expect.poll(() => scenario(page)).toMatch(text);
    await over(page);
    await expect(page.locator("#summary")).toContainText("simulated in");
    await page.keyboard.press("Home");
    await page.keyboard.press("End");
    await over(page);
  }
});

test("everything is reached with Tab, the editor too, and left again", async ({ page }) => {
  await open(page);
  const reached: string[] = [];
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press("Tab");
    const what = await page.evaluate(() => {
      const at = document.activeElement as HTMLElement | null;
      return at?.id || at?.getAttribute("aria-label") || at?.textContent?.slice(0, 20) || "";
    });
    reached.push(what);
  }
  for (const id of ["preset", "rate", "cc0", "Scenario, in TOML", "share", "play", "moment", "hero", "JSON", "SVG"]) {
    expect(reached, id).toContain(id);
  }
});

test("the first link goes to the results and leaves the scenario alone", async ({ page }) => {
  await open(page, "#rate=50&rtt=20&buffer=1&loss=0.1&duration=5&gap=1&cc=bbr3,bbr1");
  const [address, text] = [page.url(), await scenario(page)];
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(page.locator("#results")).toBeFocused();
  await expect(page.locator("body")).toHaveAttribute("data-state", "over");
  expect([page.url(), await scenario(page)]).toEqual([address, text]);
});

test("an algorithm is chosen for each flow", async ({ page }) => {
  await open(page);
  await page.getByLabel("Flow 2").selectOption("reno");
  await expect.poll(() => scenario(page)).toContain('cc = "reno"');
  await expect(page.locator("#legend li")).toHaveText(["bbr3", "reno"]);
});

test("a mistake is at its line, and gone when it is mended", async ({ page }) => {
  await open(page);
  const good = 'duration = "2s"\ncc = "bbr3"\n[path]\nrate = "10mbit"\nrtt = "40ms"\n';
  await write(page, good.replace("10mbit", "-5mbit"));
  await expect(page.getByRole("alert")).toContainText("Line 4: path.rate");
  const mark = page.locator(".cm-lint-marker-error");
  await expect(mark).toHaveCount(1);
  const number = page.locator(".cm-lineNumbers .cm-gutterElement", { hasText: /^4$/ });
  const [at, line] = [await mark.boundingBox(), await number.boundingBox()];
  expect(Math.abs(at!.y + at!.height / 2 - (line!.y + line!.height / 2))).toBeLessThan(line!.height / 2);
  await write(page, good);
  await over(page);
  await expect(mark).toHaveCount(0);
  await expect(page.locator("#mistake")).toBeEmpty();
  await expect(page.locator("#summary")).toContainText("bbr3");
});

test("no input makes the page fail", async ({ page }) => {
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  const texts = ["", "=", "duration = 1", "[[flow]]", 'path = { rate = "0mbit", rtt = "0ms" }', 'cc = "bbr3"\nduration = "1s"\npath = { trace = "x", rtt = "1ms" }'];
  await open(page);
  for (const text of texts) {
    await write(page, text);
    await expect(page.locator("#mistake"), JSON.stringify(text)).not.toBeEmpty();
  }
  for (const fragment of ["#toml=%%%", "#toml=AAAA", "#figure=none", "#rate=7e99&cc=x,,bbr3"]) {
    await open(page, fragment);
    await expect(page.locator("#summary"), fragment).toContainText("simulated in");
  }
  expect(errors).toEqual([]);
});

const SHORT = 'duration = "2s"\ncc = "bbr3"\npath = { rate = "10mbit", rtt = "40ms" }\n';
const OF_RESULTS = ["JSON", "Parquet: summary", "Parquet: flows", "Parquet: links", "Parquet: series"];

test("more memory than a page has is a mistake", async ({ page }) => {
  await open(page);
  await write(page, SHORT.replace('2s"', '10s"\ninterval = "1us"'));
  await expect(page.getByRole("alert")).toHaveText(
    /^Line 2: interval: each run makes 10 million rows, and the run would need about \S+ of memory, more than the 1GB that it may have; write something smaller$/,
  );
  await write(page, SHORT);
  await over(page);
  await expect(page.locator("#summary")).toContainText("simulated in");
});

for (const call of ["experiment_step", "experiment_story", "experiment_json"]) {
  test(`the page goes on after a trap in ${call}`, async ({ page }) => {
    const trap = `WebAssembly.Instance = new Proxy(WebAssembly.Instance, { construct: (Instance, given) => ({
      exports: { ...new Instance(...given).exports, ${call}() { throw new WebAssembly.RuntimeError("unreachable"); } },
    }) });`;
    await page.route("**/worker-*.js", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: `${trap}\n${await response.text()}` });
    }, { times: 1 });
    await open(page);
    if (call === "experiment_json") {
      await page.getByRole("button", { name: "JSON", exact: true }).click();
      await expect(page.locator("#downloaded")).toContainText("No scenario.json: the lab broke off");
    }
    await expect(page.locator("#summary")).toHaveText(/^No result: the lab broke off: .*unreachable/);
    for (const name of OF_RESULTS) await expect(page.getByRole("button", { name, exact: true })).toBeDisabled();
    await write(page, SHORT);
    await over(page);
    await expect(page.locator("#summary")).toContainText("simulated in");
    await expect(page.locator("#story ol")).not.toHaveCount(0);
    expect((await download(page, "JSON")).bytes.length).toBeGreaterThan(0);
  });
}

test("a lab that cannot be fetched is said, and fetched again", async ({ page }) => {
  await page.route("**/*.wasm", (route) => route.fulfill({ status: 503 }), { times: 1 });
  await open(page);
  await expect(page.locator("#summary")).toHaveText("No result: the lab cannot be loaded: the server answers 503");
  await write(page, SHORT);
  await over(page);
  await expect(page.locator("#summary")).toContainText("simulated in");
});

test("a mistake leaves the results, and Stop none", async ({ page }) => {
  await open(page);
  const before = (await download(page, "JSON")).bytes;
  await write(page, "duration = 1");
  await over(page);
  expect((await download(page, "JSON")).bytes.equals(before)).toBe(true);
  await page.getByLabel("Flow", { exact: true }).selectOption("0/1");
  await expect(page.locator("#story ol")).not.toHaveCount(0);
  await write(page, SHORT.replace("2s", "20000s"));
  await page.getByRole("button", { name: "Stop" }).click();
  await expect(page.locator("#summary")).toHaveText("Stopped.");
  for (const name of OF_RESULTS) await expect(page.getByRole("button", { name, exact: true })).toBeDisabled();
  await expect(page.getByLabel("Flow", { exact: true })).toBeDisabled();
  for (const name of ["TOML", "SVG"]) await expect(page.getByRole("button", { name, exact: true })).toBeEnabled();
});

test("a link shows what was shared: sliders, preset or text", async ({ page, context }) => {
  const shared = async () => {
    await page.getByRole("button", { name: "Copy link" }).click();
    await expect(page.locator("#shared")).not.toBeEmpty();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    expect(link).toBe(page.url());
    const other = await context.newPage();
    await other.goto(link);
    await over(other);
    const [ours, theirs] = [await scenario(page), await scenario(other)];
    expect(theirs).toBe(ours);
    await expect(other.locator("#legend")).toHaveText((await page.locator("#legend").textContent()) ?? "");
    await other.close();
  };
  await open(page);
  await page.getByRole("slider", { name: "Rate", exact: true }).focus();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => scenario(page)).toContain('rate = "70mbit"');
  await over(page);
  await shared();
  expect(page.url()).toContain("rate=70");
  await page.getByLabel("Experiment", { exact: true }).selectOption("fig4");
  await over(page);
  await shared();
  expect(page.url()).toContain("figure=fig4");
  await write(page, '# ü "&#?\nduration = "2s"\ncc = "cubic"\npath = { rate = "10mbit", rtt = "40ms" }\n');
  await over(page);
  await shared();
  expect(page.url()).toContain("toml=");
});

test("the moment moves the operating point, and is told in words", async ({ page }) => {
  await open(page);
  await page.getByRole("slider", { name: "Moment" }).focus();
  await page.keyboard.press("Home");
  const point = page.locator("#point");
  await expect(point).toContainText("0.00 BDP in flight");
  await page.keyboard.press("End");
  await expect(point).not.toContainText("0.00 BDP in flight");
  await expect(page.locator("#now li")).toHaveCount(2);
  await expect(page.locator("#plots").getByRole("img", { name: /^Queue over time in ms/ })).toBeVisible();
  await expect(page.locator("#summary")).toHaveAttribute("aria-live", "polite");
});

for (const [name, width, height] of [["phone", 360, 740], ["desktop", 1300, 900]] as const) {
  for (const colorScheme of ["light", "dark"] as const) {
    test(`${name}, ${colorScheme}: nothing is wider than the screen, and text can be read`, async ({ page }) => {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      for (const fragment of ["", "#figure=fig5"]) {
        await open(page, fragment);
        await expect(page.locator("#story ol")).not.toHaveCount(0);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      }
      const contrast = await page.evaluate(() => {
        const light = (colour: string) => {
          const [r, g, b] = colour.match(/[\d.]+/g)!.map(Number).map((c) => {
            const share = c / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
        };
        const behind = light(getComputedStyle(document.getElementById("results")!).backgroundColor);
        return ["#summary", "#point", ".hint", ".when", "#figures td"].map((selector) => {
          const text = light(getComputedStyle(document.querySelector(selector)!).color);
          return (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
        });
      });
      // WCAG 2.2, 1.4.3: at least 4.5 to 1.
      expect(Math.min(...contrast)).toBeGreaterThanOrEqual(4.5);
    });
  }
}

test("what a visitor loads is below 1.5 MB", async () => {
  const dist = new URL("../dist/", import.meta.url).pathname;
  const files = readdirSync(dist, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const sizes = files.map((file) => gzipSync(readFileSync(`${file.parentPath}/${file.name}`)).length);
  const size = sizes.reduce((a, b) => a + b, 0);
  console.log(`all files of the page, each with gzip: ${size} bytes`);
  expect(size).toBeLessThan(1_500_000);
});
