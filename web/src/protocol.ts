/** The messages between page and worker. */

/** A mistake in a scenario. */
export interface Mistake {
  line: number | null;
  field: string;
  message: string;
}

/** A run as the lab gives it, without its time series. */
export interface RunSummary {
  run: number;
  scenario: string;
  at: [string, string][];
  seed: number;
  rate_mbps: number | null;
  empty_rtt_ms: number;
  metrics: Figures;
  flows: { name: string; cc: string; start_s: number; end_s: number; metrics: Figures }[];
}

export type Figures = Record<string, number | null>;

/** Columns of a time series; what a flow does not say is NaN. */
export const COLUMNS = ["t_s", "goodput_mbps", "rtt_ms", "queue_ms", "inflight_bytes"] as const;
export type Column = (typeof COLUMNS)[number];

/** One flow over time. */
export interface TimeSeries extends Record<Column, Float64Array> {
  /** Stays in a state: from when on, in seconds. */
  states: { from: number; state: string }[];
}

export interface Run extends RunSummary {
  seriesOfFlows: TimeSeries[];
}

export interface Verdict {
  name: string;
  met: boolean;
  value: number | null;
  bound: number;
  comparison: string;
  known_failure?: string;
}

export interface Story {
  cc: string;
  path: string;
  truth: { carries_bps: number; min_rtt_ms: number; bdp_bytes: number; changes: boolean };
  elapsed_s: number;
  received_bytes: number;
  chapters: Chapter[];
  states: {
    state: string;
    visits: number;
    time_share: number;
    queue_mean_ms: number;
    waiting_share: number;
    lost_bytes: number;
  }[];
  whereabouts: { inflight_bytes: number; queue_bytes: number; path_bytes: number };
}

export interface Chapter {
  t_s: number;
  lasted_s: number;
  state: string;
  why: string;
  queue_mean_ms: number;
  queue_max_ms: number;
  lost_bytes: number;
  delivered_bytes: number;
}

export type Table = "summary" | "flows" | "links" | "series";

export type Request =
  | { ask: "load"; module: WebAssembly.Module }
  | { ask: "run"; toml: string; name: string }
  | { ask: "story"; run: number; flow: number }
  | { ask: "json" }
  | { ask: "parquet"; table: Table };

export type Answer =
  | { tell: "mistake"; mistake: Mistake }
  | { tell: "failure"; why: string }
  | { tell: "progress"; done: number; run: number; runs: number }
  | { tell: "run"; run: Run; runs: number }
  | { tell: "over"; verdicts: Verdict[]; seconds: number }
  | { tell: "story"; run: number; flow: number; story: Story | null; why: string }
  | { tell: "file"; bytes: Uint8Array | null; why: string };
