/** The results in words and tables. */
import { make } from "./controls";
import { stateColour } from "./plots";
import type { Run, Story, Verdict } from "./protocol";
import { nameOf } from "./traces";

function number(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 1000 ? String(Math.round(value)) : String(Number(value.toPrecision(digits)));
}

function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${number(100 * share)} %`;
}

function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${number(value / 1e3)} kB` : `${number(value / 1e6)} MB`;
}

/** More runs than this are told as one. */
const MOST_TOLD = 4;

/** One sentence for each run, for who cannot see the plots. */
export function summaryOf(runs: Run[], seconds: number): string {
  const simulated = runs.reduce((all, run) => all + (run.metrics.elapsed_s ?? 0), 0);
  const few = runs.map((run) => {
    const isAlone = runs.length > 1 && run.flows.length === 1;
    const flows = run.flows.map((flow) => `${isAlone ? "" : `${flow.name} `}${number(flow.metrics.goodput_mbps)} Mbit/s`).join(", ");
    const queue = `queue ${number(run.metrics["queue_ms.mean"])} ms on average, ${number(run.metrics["queue_ms.max"])} ms at most`;
    return `${runs.length > 1 ? `${nameOf(run)}: ` : ""}${flows}; ${queue}; ${percent(run.metrics.retransmit_rate)} sent again.`;
  });
  const range = (metric: string) => {
    const all = runs.map((run) => run.metrics[metric]).filter((value) => typeof value === "number");
    return `${number(Math.min(...all))} to ${number(Math.max(...all))}`;
  };
  const many = [`${runs.length} runs: ${range("goodput_mbps")} Mbit/s, queue ${range("queue_ms.mean")} ms on average.`];
  return [...(runs.length > MOST_TOLD ? many : few), `${number(simulated)} s simulated in ${number(seconds, 2)} s.`].join(" ");
}

function table(caption: string, head: string[], rows: (string | Node)[][]): HTMLTableElement {
  const cells = (row: (string | Node)[]) => row.map((cell, i) => make(i === 0 ? "th" : "td", {}, cell));
  const made = make("table", {}, make("caption", {}, caption));
  made.append(make("thead", {}, make("tr", {}, ...head.map((name) => (name === "" ? make("td", {}) : make("th", { scope: "col" }, name))))));
  made.append(make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row)))));
  return made;
}

/** Rows of a table on the page; the downloads have all. */
const MOST_ROWS = 60;

export function figuresOf(runs: Run[]): HTMLElement {
  const rows = runs.flatMap((run) =>
    run.flows.map(({ name, metrics }) => [
      runs.length > 1 ? `${nameOf(run)}${run.flows.length > 1 ? `: ${name}` : ""}` : name,
      number(metrics.goodput_mbps),
      percent(metrics.share),
      number(metrics["rtt_ms.p50"]),
      number(metrics["rtt_ms.p95"]),
      number(run.metrics["queue_ms.mean"]),
      number(run.metrics["queue_ms.p95"]),
      percent(metrics.retransmit_rate),
      percent(run.metrics.utilization),
    ]),
  );
  const head = ["", "Mbit/s", "share", "RTT p50, ms", "RTT p95, ms", "queue mean, ms", "queue p95, ms", "sent again", "utilization"];
  const more = rows.length > MOST_ROWS ? `, the first ${MOST_ROWS} of ${rows.length}` : "";
  return table(`Each flow${more}`, head, rows.slice(0, MOST_ROWS));
}

export function verdictsOf(verdicts: Verdict[]): HTMLElement | string {
  if (verdicts.length === 0) return "";
  const rows = verdicts.map((v) => [
    v.name,
    v.met ? "met" : v.known_failure === undefined ? "not met" : "known not to be met",
    `${number(v.value, 4)} ${v.comparison} ${number(v.bound, 4)}`,
    v.known_failure ?? "",
  ]);
  return table("Expectations", ["", "verdict", "value and bound", "why"], rows);
}

/** Stays that are told at first; the others open on request. */
const CHAPTERS = 12;

export function storyOf(story: Story): Node[] {
  const { truth, whereabouts } = story;
  const intro = make(
    "p",
    {},
    `${story.cc} on ${story.path}: the path carries ${number(truth.carries_bps / 1e6)} Mbit/s${truth.changes ? " on average" : ""}, its shortest round trip is ` +
      `${number(truth.min_rtt_ms)} ms, and so ${bytes(truth.bdp_bytes)} fill it. In flight were ${bytes(whereabouts.inflight_bytes)} ` +
      `on average, ${bytes(whereabouts.queue_bytes)} of them in the queue.`,
  );
  const chapters = story.chapters.map((c) => {
    const lost = c.lost_bytes > 0 ? `, ${bytes(c.lost_bytes)} lost` : "";
    const swatch = make("span", { className: "swatch", ariaHidden: "true" });
    swatch.style.background = stateColour(c.state);
    return make(
      "li",
      {},
      make("span", { className: "when" }, `${c.t_s.toFixed(3)} s`),
      swatch,
      make("strong", {}, c.state),
      ` for ${number(c.lasted_s * 1000)} ms: ${c.why}. Queue ${number(c.queue_mean_ms)} ms on average, ${number(c.queue_max_ms)} ms at most; ` +
        `${bytes(c.delivered_bytes)} delivered${lost}.`,
    );
  });
  const told: Node[] = [intro, make("ol", { className: "story" }, ...chapters.slice(0, CHAPTERS))];
  const rest = chapters.slice(CHAPTERS);
  if (rest.length > 0) {
    const list = make("ol", { className: "story", start: CHAPTERS + 1 }, ...rest);
    told.push(make("details", {}, make("summary", {}, `${rest.length} stays more`), list));
  }
  const head = ["State", "visits", "time", "queue mean, ms", "share of waiting", "lost"];
  const rows = story.states.map((s) => [
    s.state,
    String(s.visits),
    percent(s.time_share),
    number(s.queue_mean_ms),
    percent(s.waiting_share),
    bytes(s.lost_bytes),
  ]);
  const wide = make("div", { className: "wide", tabIndex: 0, role: "group", ariaLabel: "By state" }, table("By state", head, rows));
  told.push(wide);
  return told;
}
