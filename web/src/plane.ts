/** Kleinrock's plane: rate and round trip over the volume in flight, and where a run is in it. */
import type { Run } from "./protocol";
import { type Axis, type Box, axes, element, picture, scale } from "./svg";
import { type Trace, MOST_TRACES, meanOver } from "./traces";

/** The bottleneck in a stretch of time: what all flows of a run together do. */
interface Point {
  /** In flight, in bandwidth-delay products. */
  inflight: number;
  /** Round trip over the empty path's. */
  rtt: number;
  /** Goodput over the link's rate. */
  rate: number;
}

/** Points of a path behind the operating point. */
const TRAIL = 400;

/** True if the path has one rate, so that there is a BDP to measure in. */
export function hasPlane(run: Run): boolean {
  return run.rate_mbps !== null && run.empty_rtt_ms > 0;
}

/** The means of the stretch that ends at this moment: two round trips, and no less than a fiftieth of the run. */
function pointAt(run: Run, t: number, end: number): Point {
  const since = t - Math.max(end / 50, (2 * run.empty_rtt_ms) / 1000);
  const capacity = run.rate_mbps ?? 1;
  let [inflight, goodput, queue] = [0, 0, 0];
  for (const [i, series] of run.seriesOfFlows.entries()) {
    const flow = run.flows[i];
    if (flow === undefined || t < flow.start_s || t > flow.end_s + 1e-9) continue;
    inflight += meanOver(series, "inflight_bytes", since, t) || 0;
    goodput += meanOver(series, "goodput_mbps", since, t) || 0;
    queue = Math.max(queue, meanOver(series, "queue_ms", since, t) || 0);
  }
  const bdp = (capacity * 1000 * run.empty_rtt_ms) / 8;
  return { inflight: inflight / bdp, rtt: 1 + queue / run.empty_rtt_ms, rate: goodput / capacity };
}

/** The means of a whole run. */
function meanOf(run: Run): Point {
  const capacity = run.rate_mbps ?? 1;
  const rtt = (run.metrics["rtt_ms.mean"] ?? run.empty_rtt_ms) / run.empty_rtt_ms;
  let inflight = 0;
  for (const { inflight_bytes } of run.seriesOfFlows) {
    const second = inflight_bytes.subarray(inflight_bytes.length >> 1).filter((value) => !Number.isNaN(value));
    if (second.length > 0) inflight += second.reduce((a, b) => a + b, 0) / second.length;
  }
  const bdp = (capacity * 1000 * run.empty_rtt_ms) / 8;
  return { inflight: inflight / bdp, rtt, rate: (run.metrics.goodput_mbps ?? 0) / capacity };
}

/** The plane, and what puts the operating points to a moment and says where they are. */
export interface Plane {
  picture: SVGElement;
  move: (t: number) => string;
}

export function plane(traces: Trace[], end: number, width: number): Plane {
  const runs = [...new Set(traces.map((trace) => trace.run))].filter(hasPlane);
  const isMeans = runs.length > MOST_TRACES;
  const colours = runs.map((run) => {
    const own = traces.filter((trace) => trace.run === run);
    return own.length === 1 ? own[0]!.colour : "var(--blue)";
  });
  const trails = runs.map((run) =>
    isMeans ? [meanOf(run)] : Array.from({ length: TRAIL }, (_, i) => pointAt(run, ((i + 1) / TRAIL) * end, end)),
  );
  const all = trails.flat();
  const x: Axis = { low: 0, high: Math.max(2, ...all.map((p) => p.inflight)) * 1.05 };
  const up: Axis = { low: 0, high: Math.max(2, ...all.map((p) => p.rtt)) * 1.05 };
  const rate: Axis = { low: 0, high: 1.25 };
  const height = 380;
  const box = (top: number): Box => ({ left: 52, top, width: width - 64, height: 120 });
  const [above, below] = [box(26), box(206)];
  const svg = picture(width, height, "Kleinrock's plane: round trip and delivery rate over the volume in flight");
  svg.append(axes(above, x, up, "", "Round trip over the empty path's"));
  svg.append(axes(below, x, rate, "in flight, BDP", "Goodput over the link's rate"));

  const to = (b: Box, axis: Axis, inflight: number, value: number): [number, number] => [
    scale(inflight, x, b.left, b.width),
    scale(value, axis, b.top + b.height, -b.height),
  ];
  const polyline = (b: Box, axis: Axis, points: [number, number][], attributes: Record<string, string>) =>
    element("polyline", { points: points.map(([i, v]) => to(b, axis, i, v).map((n) => n.toFixed(1)).join(",")).join(" "), ...attributes });
  // The two limits: the path's delay and its rate.
  const most = Math.min(x.high, up.high);
  svg.append(polyline(above, up, [[0, 1], [1, 1], [most, most]], { class: "limit" }));
  svg.append(polyline(below, rate, [[0, 0], [1, 1], [x.high, 1]], { class: "limit" }));
  for (const [b, axis] of [[above, up], [below, rate]] as const) {
    const [cx, cy] = to(b, axis, 1, 1);
    const best = element("circle", { class: "best", cx, cy, r: 7 });
    best.append(element("title", {}, "Kleinrock's point: the whole rate without a queue"));
    svg.append(best);
  }
  const dots = runs.map((_, i) => {
    const style = `fill: ${colours[i]}; stroke: ${colours[i]}`;
    for (const p of trails[i]!) {
      const r = isMeans ? 3.5 : 1.6;
      const opacity = isMeans ? 0.9 : 0.35;
      const [ax, ay] = to(above, up, p.inflight, p.rtt);
      const [bx, by] = to(below, rate, p.inflight, p.rate);
      svg.append(element("circle", { class: "visited", cx: ax.toFixed(1), cy: ay.toFixed(1), r, style, opacity }));
      // After a loss the bytes behind the hole are read at once, faster than the link carries.
      if (p.rate > rate.high) continue;
      svg.append(element("circle", { class: "visited", cx: bx.toFixed(1), cy: by.toFixed(1), r, style, opacity }));
    }
    return [above, below].map(() => element("circle", { class: "now", r: 6, style }));
  });
  if (!isMeans) svg.append(...dots.flat());

  const move = (t: number): string => {
    if (isMeans) return `Each point is the mean of one of ${runs.length} runs.`;
    const said = runs.map((run, i) => {
      const p = pointAt(run, t, end);
      const places = [to(above, up, p.inflight, p.rtt), to(below, rate, p.inflight, p.rate)];
      dots[i]!.forEach((dot, n) => {
        dot.setAttribute("cx", places[n]![0].toFixed(1));
        dot.setAttribute("cy", Math.max(places[n]![1], n === 0 ? above.top : below.top).toFixed(1));
      });
      const who = runs.length === 1 ? "" : `${run.at.map(([, value]) => value).join(", ")}: `;
      return `${who}${p.inflight.toFixed(2)} BDP in flight, round trip ${p.rtt.toFixed(2)} times the empty path's, ${(100 * p.rate).toFixed(0)} % of the rate`;
    });
    return said.join("; ");
  };
  return { picture: svg, move };
}
