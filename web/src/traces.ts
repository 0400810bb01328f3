/** The lines of the plots, made of the runs that are shown. */
import type { TimeSeries, Run } from "./protocol";

/** A line in each plot: a flow of a run. */
export interface Trace {
  label: string;
  cc: string;
  colour: string;
  series: TimeSeries;
  run: Run;
}

/** Of algorithms where each has one line, as in the lab's own pictures. */
const OF_ALGORITHM: Record<string, string> = {
  bbr3: "var(--blue)",
  bbr1: "var(--green)",
  cubic: "var(--orange)",
  reno: "var(--pink)",
  "bbr3-linux": "var(--sky)",
  bbr3x: "var(--wine)",
  "bbr3x-linux": "var(--amber)",
};

const COLOURS = ["blue", "orange", "green", "pink", "amber", "sky", "wine", "grey"].map(
  (name) => `var(--${name})`,
);

/** More lines than this are told apart by nobody. */
export const MOST_TRACES = COLOURS.length;

/** True if the runs can be drawn beside each other: one flow each. */
export function standTogether(runs: Run[]): boolean {
  return runs.length > 1 && runs.every((run) => run.flows.length === 1);
}

export function nameOf(run: Run): string {
  const at = run.at.map(([axis, value]) => (axis === "cc" ? value : `${axis} ${value}`));
  return at.length === 0 ? run.scenario : at.join(", ");
}

/** The flows of one run, or of all runs beside each other. */
export function tracesOf(runs: Run[]): Trace[] {
  const isOne = runs.length === 1;
  const flows = runs.flatMap((run) => run.flows.map((flow, i) => ({ run, flow, series: run.seriesOfFlows[i] })));
  const algorithms = new Set(flows.map(({ flow }) => flow.cc));
  const byAlgorithm = algorithms.size === flows.length;
  return flows.flatMap(({ run, flow, series }, i) => {
    if (series === undefined) return [];
    const twin = flows.filter((other) => other.run === run && other.flow.name === flow.name).length > 1;
    const own = twin ? `${flow.name} (${run.flows.indexOf(flow) + 1})` : flow.name;
    const colour = (byAlgorithm ? OF_ALGORITHM[flow.cc] : undefined) ?? colourOf(i, flows.length);
    return [{ label: isOne ? own : nameOf(run), cc: flow.cc, colour, series, run }];
  });
}

/** One of the colours, or of a range from blue to orange where there are more lines than colours. */
function colourOf(i: number, all: number): string {
  if (all <= MOST_TRACES) return COLOURS[i]!;
  const share = Math.round((100 * i) / (all - 1));
  return `color-mix(in oklab, var(--orange) ${share}%, var(--blue))`;
}

/** The newest value of a column at a moment; NaN before the first. */
export function valueAt(series: TimeSeries, column: "goodput_mbps" | "rtt_ms" | "queue_ms" | "inflight_bytes", t: number): number {
  const next = firstAfter(series.t_s, t);
  return next === 0 ? Number.NaN : series[column][next - 1]!;
}

/** The first of the moments, which are in order, that is later than this one. */
function firstAfter(moments: Float64Array, t: number): number {
  let low = 0;
  let high = moments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moments[middle]! <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The mean of a column's values in a stretch of time; NaN where there is none. */
export function meanOver(series: TimeSeries, column: "goodput_mbps" | "queue_ms" | "inflight_bytes", from: number, to: number): number {
  let [sum, count] = [0, 0];
  for (let i = firstAfter(series.t_s, from); i < series.t_s.length && series.t_s[i]! <= to; i += 1) {
    const value = series[column][i]!;
    if (Number.isNaN(value)) continue;
    sum += value;
    count += 1;
  }
  return count === 0 ? Number.NaN : sum / count;
}

export function stateAt(series: TimeSeries, t: number): string {
  let state = "";
  for (const stay of series.states) {
    if (stay.from > t) break;
    state = stay.state;
  }
  return state;
}
