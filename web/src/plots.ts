/** Plots over time: throughput, queue, round trip and volume in flight, and the states below them. */
import type { Column } from "./protocol";
import { type Axis, type Box, axes, element, label, line, picture, scale } from "./svg";
import { type Trace, MOST_TRACES, stateAt } from "./traces";

interface Plot {
  name: string;
  column: Column;
  unit: string;
  /** One unit of the plot, in units of the column. */
  per: number;
}

export const PLOTS: Plot[] = [
  { name: "Throughput", column: "goodput_mbps", unit: "Mbit/s", per: 1 },
  { name: "Queue", column: "queue_ms", unit: "ms", per: 1 },
  { name: "Round trip", column: "rtt_ms", unit: "ms", per: 1 },
  { name: "In flight", column: "inflight_bytes", unit: "kB", per: 1000 },
];

const LEFT = 52;
const RIGHT = 12;
const ROW = 16;

const OF_STATE: Record<string, string> = {
  Startup: "var(--amber)",
  SlowStart: "var(--amber)",
  ConservativeSlowStart: "var(--amber)",
  Drain: "var(--pink)",
  ProbeBW_DOWN: "var(--sky)",
  ProbeBW_CRUISE: "var(--grey)",
  ProbeBW: "var(--grey)",
  CongestionAvoidance: "var(--grey)",
  ProbeBW_REFILL: "var(--yellow)",
  ProbeBW_UP: "var(--orange)",
  Recovery: "var(--orange)",
  ProbeRTT: "var(--green)",
};

export function stateColour(state: string): string {
  return OF_STATE[state] ?? "var(--line)";
}

/** The time at which the last of them ends, in seconds. */
export function endOf(traces: Trace[]): number {
  return Math.max(0, ...traces.map(({ series }) => series.t_s.at(-1) ?? 0));
}

/** A picture over time with its cursor, which `move` puts to a moment. */
export interface Timed {
  picture: SVGElement;
  move: (t: number) => void;
}

function timed(svg: SVGElement, box: Box, x: Axis): Timed {
  const cursor = element("line", { class: "cursor", y1: box.top, y2: box.top + box.height });
  svg.append(cursor);
  const move = (t: number) => {
    const at = scale(t, x, box.left, box.width).toFixed(1);
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
  };
  return { picture: svg, move };
}

/** The moment under a pointer, in seconds. */
export function momentAt(event: PointerEvent, svg: SVGElement, end: number): number {
  const { left, width } = svg.getBoundingClientRect();
  const share = (event.clientX - left - LEFT) / (width - LEFT - RIGHT);
  return Math.min(Math.max(share, 0), 1) * end;
}

export function overTime(plot: Plot, traces: Trace[], width: number): Timed {
  const height = 170;
  const box: Box = { left: LEFT, top: 24, width: width - LEFT - RIGHT, height: height - 60 };
  const x: Axis = { low: 0, high: endOf(traces) || 1 };
  const columns = traces.map(({ series }) =>
    plot.column === "goodput_mbps" ? means(series.t_s, series.goodput_mbps, x.high / STRETCHES) : series[plot.column].map((value) => value / plot.per),
  );
  const y: Axis = { low: 0, high: 1.08 * most(plot, traces, columns) || 1 };
  const said = traces.slice(0, MOST_TRACES).map((trace, i) => `${trace.label} ${meanOf(columns[i]!)}`);
  const cut = columns.some((values) => values.some((value) => value > y.high));
  const svg = picture(width, height, `${plot.name} over time in ${plot.unit}, means: ${said.join(", ")}`);
  svg.append(axes(box, x, y, "s", `${plot.name}, ${plot.unit}${cut ? " (peaks are cut off)" : ""}`));
  traces.forEach((trace, i) => {
    const values = columns[i]!.map((value) => Math.min(value, y.high));
    const d = line(trace.series.t_s, values, box, x, y);
    svg.append(element("path", { class: "trace", d, style: `stroke: ${trace.colour}` }));
  });
  return timed(svg, box, x);
}

/** Throughput is drawn as the means of the run's parts, so many of them: in a shorter time it is a packet or none. */
const STRETCHES = 150;

/** At each moment the mean of the stretch that ends there. */
function means(moments: Float64Array, values: Float64Array, stretch: number): Float64Array {
  let [sum, first] = [0, 0];
  return values.map((value, i) => {
    sum += value;
    while (first < i && moments[first]! <= moments[i]! - stretch) {
      sum -= values[first]!;
      first += 1;
    }
    return sum / (i - first + 1);
  });
}

/** The top of a plot. Throughput has peaks after each loss, when the bytes behind the hole are read at once; they say little. */
function most(plot: Plot, traces: Trace[], columns: Float64Array[]): number {
  const highest = columns.reduce((all, values) => values.reduce((a, b) => (b > a ? b : a), all), 0);
  if (plot.column !== "goodput_mbps") return highest;
  const rates = traces.map(({ run }) => run.rate_mbps ?? Number.POSITIVE_INFINITY);
  const usual = columns.flatMap((values) => Array.from(values).filter((value) => value > 0)).sort((a, b) => a - b);
  return Math.min(highest, Math.max(...rates), 1.5 * (usual[Math.floor(0.98 * usual.length)] ?? highest));
}

function meanOf(values: Float64Array): string {
  const numbers = values.filter((value) => !Number.isNaN(value));
  return numbers.length === 0 ? "none" : label(Number((numbers.reduce((a, b) => a + b, 0) / numbers.length).toPrecision(3)));
}

/** The states of the flows over time, a strip for each. */
export function states(traces: Trace[], width: number): Timed {
  const shown = traces.slice(0, MOST_TRACES);
  const height = 24 + shown.length * (ROW + 16) + 8;
  const box: Box = { left: LEFT, top: 16, width: width - LEFT - RIGHT, height: height - 24 };
  const x: Axis = { low: 0, high: endOf(traces) || 1 };
  const said = shown.map((trace) => `${trace.label} ends in ${stateAt(trace.series, x.high) || "no state"}`);
  const svg = picture(width, height, `States over time: ${said.join(", ")}`);
  svg.append(element("g", { class: "axes" }, element("text", { class: "name", x: LEFT, y: 14 }, "State")));
  shown.forEach((trace, i) => {
    const top = 24 + i * (ROW + 16);
    svg.append(
      element("g", { class: "axes" }, element("text", { x: LEFT, y: top + 10, style: `fill: ${trace.colour}` }, trace.label)),
    );
    trace.series.states.forEach(({ from, state }, n, all) => {
      if (state === "") return;
      const left = scale(from, x, box.left, box.width);
      const right = scale(all[n + 1]?.from ?? x.high, x, box.left, box.width);
      const band = element("rect", {
        x: left.toFixed(1),
        y: top + 14,
        width: Math.max(right - left, 0.5).toFixed(1),
        height: ROW,
        style: `fill: ${stateColour(state)}`,
      });
      band.append(element("title", {}, `${state} from ${label(from)} s`));
      svg.append(band);
    });
  });
  return timed(svg, box, x);
}
