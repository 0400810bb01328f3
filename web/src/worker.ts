/** Runs the lab beside the page, run by run. A worker that is not wanted any more is ended from outside. */
import type { Answer, TimeSeries, Request, Run, RunSummary, Verdict } from "./protocol";
import { COLUMNS } from "./protocol";
import { Experiment, initSync } from "./wasm/fullpipe_web";

type Row = Record<string, number | string | null>;

let experiment: Experiment | undefined;

function tell(answer: Answer, transfer: Transferable[] = []): void {
  postMessage(answer, { transfer });
}

/** The rows of a run, flow by flow and column by column. */
function seriesOf(rows: Row[], flows: number): TimeSeries[] {
  const counts = new Array<number>(flows).fill(0);
  for (const row of rows) counts[row.flow as number]! += 1;
  const all = counts.map((count) => {
    const series = { states: [] as TimeSeries["states"] } as TimeSeries;
    for (const column of COLUMNS) series[column] = new Float64Array(count);
    return series;
  });
  counts.fill(0);
  for (const row of rows) {
    const flow = row.flow as number;
    const series = all[flow]!;
    const at = counts[flow]!;
    counts[flow]! += 1;
    for (const column of COLUMNS) series[column][at] = (row[column] as number | null) ?? Number.NaN;
    const state = (row.state as string | null) ?? "";
    if (series.states.at(-1)?.state !== state) series.states.push({ from: row.t_s as number, state });
  }
  return all;
}

/** Says why there is no result. What is no text is not of the lab's errors, but a trap: it ends the worker. */
function words(why: unknown): string {
  if (typeof why === "string") return why;
  throw why;
}

function results(): Experiment {
  if (experiment === undefined) throw "there are no results";
  return experiment;
}

function run(toml: string, name: string): void {
  const began = performance.now();
  try {
    const read = new Experiment(toml, name);
    experiment?.free();
    experiment = read;
  } catch (why) {
    tell({ tell: "mistake", mistake: JSON.parse(words(why)) });
    return;
  }
  const runs = experiment.runs;
  try {
    for (let i = 0, more = runs > 0; more; i += 1) {
      more = experiment.step((done: number) => tell({ tell: "progress", done, run: i, runs }));
      const { series, ...summary } = JSON.parse(experiment.run(i)) as RunSummary & { series?: Row[] };
      const result: Run = { ...summary, seriesOfFlows: seriesOf(series ?? [], summary.flows.length) };
      const buffers = result.seriesOfFlows.flatMap((flow) => COLUMNS.map((column) => flow[column].buffer));
      tell({ tell: "run", run: result, runs }, buffers);
    }
    const verdicts = JSON.parse(experiment.expectations()) as Verdict[];
    tell({ tell: "over", verdicts, seconds: (performance.now() - began) / 1000 });
  } catch (why) {
    tell({ tell: "failure", why: words(why) });
  }
}

function story(run: number, flow: number): void {
  try {
    const story = JSON.parse(results().story(run, flow));
    tell({ tell: "story", run, flow, story, why: "" });
  } catch (why) {
    tell({ tell: "story", run, flow, story: null, why: words(why) });
  }
}

function file(make: () => Uint8Array): void {
  try {
    const bytes = make();
    tell({ tell: "file", bytes, why: "" }, [bytes.buffer]);
  } catch (why) {
    tell({ tell: "file", bytes: null, why: words(why) });
  }
}

addEventListener("message", ({ data }: MessageEvent<Request>) => {
  switch (data.ask) {
    case "load":
      initSync({ module: data.module });
      break;
    case "run":
      run(data.toml, data.name);
      break;
    case "story":
      story(data.run, data.flow);
      break;
    case "json":
      file(() => new TextEncoder().encode(results().json()));
      break;
    case "parquet":
      file(() => results().parquet(data.table));
      break;
  }
});
