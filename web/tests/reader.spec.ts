/** The task with a screen reader: a report says by its accessibility tree what its readers ask. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect, test } from "@playwright/test";
import { COMMAND, REPOSITORY } from "./page";

// It starts Chromium once for each page: a busy machine takes minutes.
test.describe.configure({ timeout: 600_000 });

const READ = `${REPOSITORY}web/scripts/read-report.mjs`;

/** Ways to spoil a report, and what its reader says then. */
const FAULTS: [string, string | RegExp, string, string][] = [
  ["a caption that does not say what the table is", /Results of experiment/g, "Table", "no table is named as results"],
  ["a column without its name", /goodput<br>Mbit\/s/, "", "no column for goodput"],
  ["a value without its unit", /goodput<br>Mbit\/s/, "goodput", "goodput has no unit"],
  ["a table without a caption", /<caption>Expectations.*<\/caption>/, "", "a table has no caption"],
  ["a picture without words", / aria-label="Plot[^"]*"/, "", "a picture has no words"],
  ["a heading that skips a level", /<h2>(.*)<\/h2>/, "<h4>$1</h4>", "skips a level"],
  ["a table that no key reaches", /tabindex="0"/, 'tabindex="-1"', "Tab reaches 0 of the 1"],
  ["a page wider than a phone", /<main>/, '<main style="width: 600px">', "in a window of 420 px"],
];

test("the task finds what is asked for, and a spoilt report is not read", () => {
  const dir = mkdtempSync(join(tmpdir(), "fullpipe-reader-"));
  const run = (program: string, ...args: string[]) => {
    const env = { ...process.env, PATH: `${dirname(COMMAND)}${delimiter}${process.env.PATH}` };
    return spawnSync(program, args, { cwd: dir, env, encoding: "utf8" });
  };
  try {
    const said = run("sh", `${REPOSITORY}docs/tasks/screen-reader.sh`);
    expect(said.stderr).toBe("");
    expect(said.status).toBe(0);
    for (const line of [
      /^heading 1: bbr3 and cubic$/m,
      /^fastest of 2: cubic, goodput 9\d\.\d+ Mbit\/s$/m,
      /^met: goodput_mbps\[bbr3\] >= 0\.95 \* goodput_mbps\[cubic\]$/m,
      /^met: queue_ms\.p50\[bbr3\] <= 5$/m,
      /^Tab: Results of experiment$/m,
      /^at 420 px: \d+ parts? scrolls? sideways, the page does not$/m,
    ]) expect(said.stdout).toMatch(line);
    const report = readFileSync(join(dir, "report.html"), "utf8");
    for (const [name, from, to, problem] of FAULTS) {
      const spoilt = report.replace(from, to);
      expect(spoilt, name).not.toBe(report);
      writeFileSync(join(dir, "spoilt.html"), spoilt);
      const { status, stderr } = run("node", READ, "spoilt.html");
      expect(stderr, name).toContain(problem);
      expect(status, name).toBe(1);
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
});
