/** Violations that axe-core finds in the page and in each kind of report: none. */
import { createRequire } from "node:module";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AxeResults } from "axe-core";
import { expect, test, type Page } from "@playwright/test";
import { command, open, write } from "./page";

// Four views of a page, and axe-core in each: a busy machine takes minutes.
test.describe.configure({ timeout: 600_000 });

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const VIEWS = [1400, 420].flatMap((width) => (["light", "dark"] as const).map((scheme) => ({ width, scheme })));

/** Each violation with its elements, in one line. */
async function violations(page: Page): Promise<string[]> {
  await page.addScriptTag({ path: AXE });
  const found: AxeResults = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })");
  // A run that checked nothing would find nothing either.
  expect(found.passes.length).toBeGreaterThan(10);
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html.slice(0, 200)} ${node.any.map((check) => check.message).join(" ")}`).join(" | ")}`);
}

async function inEachView(page: Page, name: string, show: () => Promise<void>): Promise<void> {
  const found: string[] = [];
  for (const { width, scheme } of VIEWS) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme });
    await show();
    if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `${name}-${width}-${scheme}.png`), fullPage: true });
    for (const violation of await violations(page)) found.push(`${width}, ${scheme}: ${violation}`);
  }
  expect(found).toEqual([]);
}

test("page", async ({ page }) => {
  for (const [name, fragment] of [["page", ""], ["page-fig5", "#figure=fig5"]] as const) {
    await inEachView(page, name, async () => {
      await open(page, fragment);
      await expect(page.locator("#story ol")).not.toHaveCount(0);
    });
  }
});

test("page with a mistake", async ({ page }) => {
  await inEachView(page, "page-mistake", async () => {
    await open(page);
    await write(page, 'duration = "2s"\ncc = "bbr3"\npath = { rate = "-5mbit", rtt = "40ms" }\n');
    await expect(page.getByRole("alert")).not.toBeEmpty();
  });
});

/** Two algorithms on two paths, with several flows, a verdict of each kind and intervals. */
const SCENARIO = `
name = "two paths"
cc = ["bbr3", "cubic"]
seed = [1, 2]
duration = "3s"
interval = "50ms"
path = { rate = "20mbit", rtt = "40ms" }
flow = [{ count = 2 }]
expect = ["jain >= 0.1", "jain > 2", { that = "goodput_mbps > 90", known_failure = "the link is slower" }]
[[variant]]
name = "deep"
path = { buffer = "6bdp" }
[[variant]]
name = "lossy"
path = { loss = "1%" }
`;

const WAY = {
  rate_mbps: 20, sent_packets: 10, delivered_packets: 10, delivered_bytes: 9000, payload_bytes: 9000, lost_packets: {},
  marked_packets: 0, corrupted_packets: 0, metrics: { goodput_mbps: 12.5, utilization: 0.7 },
};
const ROWS = [1, 2, 3].map((at_s) => ({ at_s, mbps: [9, 0.4], capacity_mbps: [20, 20], queue_ms: [3, 0], lost: [0, 0] }));

/** A verdict as judge --json prints it: judge itself runs other programs, and takes a minute. */
const VERDICT = {
  schema_version: 2, quick: false, looks_like: "a kind of its own", looks: { kind: "unknown", paced: null }, worse: null,
  interrupted: false, defects: [{ name: "stuck", about: "it does not move" }],
  checks: [{
    check: "fills the path", course: "clean", unit: "%", value: 31.5, good: 76, broken: 40, ours: { bbr3: 95, reno: 80 },
    grade: "broken", reason: null,
  }],
  runs: [{
    path: "clean", toml: "", command: ["iperf3"], ended: null, elapsed_s: 3, active_s: 3, rtt_ms: 40, down: WAY,
    up: { ...WAY, payload_bytes: 500 }, relay: null, server: null, pcap: null, interrupted: false, series: ROWS,
    emulator: { lateness_us: { p50: 1, p99: 2, p999: 3 }, trusted: true, warning: null },
  }],
};

/** Another stack as an install of it is described. */
const STACK = { name: "quic-go", version: "0.54", says: "quic-go 0.54", date: "2026-01-01 00:00 UTC" };
const MISSING = [{ name: "picoquic", reason: "needs python3.12" }];

/** The object of peers run --json: the stacks themselves would have to be installed. */
function peers(dir: string): object {
  const { scenarios } = JSON.parse(command("run", scenarioIn(dir, SCENARIO.replace(/expect = .*\n/, "")), "--json"));
  const result = scenarios[0].runs[0];
  const run = { path: "clean", copies: 1, result, error: null, before: null };
  const { runs, ...judged } = VERDICT;
  return {
    date: "2026-01-01 00:00 UTC", duration_s: 3, paths: ["clean", "slow"].map((name) => ({ name, path: "rate = \"20mbit\"" })),
    senders: [
      { name: "linux:bbr", stack: STACK, runs: [run, { ...run, path: "slow" }, { ...run, copies: 2 }], verdict: judged },
      { name: "quic-go:reno", stack: STACK, runs: [run, { ...run, path: "slow", result: null, error: "sent nothing" }], verdict: null },
    ],
    missing: MISSING, interrupted: true,
  };
}

/** The object of interop --json, with a cell of each grade. */
function interop(): object {
  const grades = ["passed", "unsupported", "not_checked", "failed"];
  const cells = grades.flatMap((grade, i) => ["server", "client"].map((role) => ({
    peer: "quic-go", role, case: ["handshake", "transfer", "retry", "goodput"][i],
    runs: [{ grade, notes: ["no keys"], elapsed_s: 1.5, kbps: i === 0 ? 9400 : null, tshark_agrees: null, logs: i === 3 ? "/out/logs" : null }],
  })));
  return { date: "2026-01-01 00:00 UTC", peers: [STACK], missing: MISSING, cases: ["handshake", "transfer", "retry", "goodput"], cells, interrupted: true };
}

/** The page that report makes of what a command printed with --json. */
function kept(dir: string, report: string, name: string, object: object): void {
  const file = join(dir, `${name}.json`);
  writeFileSync(file, JSON.stringify({ schema_version: VERDICT.schema_version, [name]: object }));
  command("report", file, "--report", report);
}

/** Fails as a command does whose expectations are not met: its report is there. */
function unmet(...args: string[]): void {
  try {
    command(...args);
  } catch (error) {
    if ((error as { status?: number }).status !== 1) throw error;
  }
}

const REPORTS: Record<string, (dir: string, report: string) => void> = {
  run: (dir, report) => unmet("run", scenarioIn(dir), "--report", report),
  "run-crowd": (dir, report) => command("run", scenarioIn(dir, SCENARIO.replace("count = 2", "count = 8").replace("seed = [1, 2]", "").replace(/expect = .*\n/, "")), "--report", report),
  "run-quic": (_, report) => command("run", "scenarios/quickstart.toml", "--stack", "noq", "--repeat", "2", "--report", report),
  compare: (_, report) => command("compare", "--stack", "sim", "--cc", "bbr3,cubic,bbr3x,bbr1,reno", "--duration", "3s", "--report", report),
  sweep: (dir, report) => unmet("sweep", scenarioIn(dir), "--out", join(dir, "sweep"), "--report", report),
  judge: (_, report) => command("judge", "--pcap", "scenarios/captures/bbr3.pcap.gz", "--report", report),
  verdict: (dir, report) => {
    writeFileSync(join(dir, "judge.json"), JSON.stringify(VERDICT));
    command("report", join(dir, "judge.json"), "--report", report);
  },
  link: (dir, report) => kept(dir, report, "link", VERDICT.runs[0]!),
  peers: (dir, report) => kept(dir, report, "peers", peers(dir)),
  interop: (dir, report) => kept(dir, report, "interop", interop()),
  survey: (dir) => command("survey", "--paths", "6", "--cc", "bbr3,cubic", "--shrink", "1", "--out", dir),
  figures: (dir) => command("figures", "fig2", "fig4", "tuning", "--out", dir),
};

const FILES: Record<string, string> = { figures: "figures.html" };

function scenarioIn(dir: string, text = SCENARIO): string {
  const file = join(dir, "scenario.toml");
  writeFileSync(file, text);
  return file;
}

for (const [name, make] of Object.entries(REPORTS)) {
  test(`report of ${name}`, async ({ page }) => {
    const dir = mkdtempSync(join(tmpdir(), "fullpipe-report-"));
    const report = join(dir, FILES[name] ?? "report.html");
    try {
      make(dir, report);
      await inEachView(page, name, async () => {
        await page.goto(`file://${report}`);
        await expect(page.locator("body")).toHaveAttribute("data-drawn", /\d/);
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(page.viewportSize()!.width);
      });
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
}
