/** The lab in its worker. */
import type { Answer, Request } from "./protocol";
import wasmUrl from "./wasm/fullpipe_web_bg.wasm?url";

let compiled: Promise<WebAssembly.Module> | undefined;

/** The lab's code, fetched once. */
function compile(): Promise<WebAssembly.Module> {
  compiled ??= fetch(wasmUrl).then(async (response) => {
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    return WebAssembly.compile(await response.arrayBuffer());
  });
  return compiled;
}

type Hear = (answer: Answer) => void;

/** Runs one scenario at a time: a new one ends what is under way, and a failure ends the worker. */
export class Lab {
  #worker: Promise<Worker> | undefined;
  /** Requests without their last answer. */
  #pending = 0;
  #hasResults = false;
  #hear: Hear;
  #file: { resolve: (bytes: Uint8Array) => void; reject: (why: Error) => void } | undefined;

  constructor(hear: Hear) {
    this.#hear = hear;
  }

  /** True if there is something of which files can be made. */
  get hasResults(): boolean {
    return this.#hasResults;
  }

  async #start(): Promise<Worker> {
    const module = await compile();
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    const load: Request = { ask: "load", module };
    worker.postMessage(load);
    worker.onmessage = ({ data }: MessageEvent<Answer>) => this.#answer(data);
    worker.onerror = ({ message }) => this.#fail(message ? `the lab broke off: ${message}` : "the lab cannot be loaded");
    return worker;
  }

  /** Whatever the lab was at is lost: after a trap its memory is not to be used any more. */
  #fail(why: string): void {
    this.#end(why);
    this.#hear({ tell: "failure", why });
  }

  #answer(answer: Answer): void {
    if (answer.tell === "failure") {
      this.#fail(answer.why);
      return;
    }
    if (answer.tell === "over") this.#hasResults = true;
    if (answer.tell !== "progress" && answer.tell !== "run") this.#pending -= 1;
    if (answer.tell !== "file") {
      this.#hear(answer);
      return;
    }
    if (answer.bytes === null) this.#file?.reject(new Error(answer.why));
    else this.#file?.resolve(answer.bytes);
    this.#file = undefined;
  }

  /** Ends what is under way, if anything is. */
  stop(): void {
    if (this.#pending > 0) this.#end("it was stopped");
  }

  #end(why: string): void {
    this.#pending = 0;
    this.#hasResults = false;
    const end = (worker: Worker) => {
      worker.onmessage = null;
      worker.onerror = null;
      worker.terminate();
    };
    this.#worker?.then(end, () => undefined);
    this.#worker = undefined;
    this.#file?.reject(new Error(why));
    this.#file = undefined;
  }

  run(toml: string, name: string): void {
    this.stop();
    this.#ask({ ask: "run", toml, name });
  }

  story(run: number, flow: number): void {
    this.#ask({ ask: "story", run, flow });
  }

  /** A file of the results, when the runs are over. One at a time. */
  file(request: Extract<Request, { ask: "json" | "parquet" }>): Promise<Uint8Array> {
    if (this.#file !== undefined) return Promise.reject(new Error("another file is being made"));
    return new Promise((resolve, reject) => {
      this.#file = { resolve, reject };
      this.#ask(request);
    });
  }

  #ask(request: Request): void {
    this.#pending += 1;
    const worker = (this.#worker ??= this.#start());
    // It may have been ended while the module was compiled.
    const isWanted = () => worker === this.#worker;
    worker.then(
      (ready) => {
        if (isWanted()) ready.postMessage(request);
      },
      (why) => {
        // The next scenario tries it again.
        compiled = undefined;
        if (isWanted()) this.#fail(`the lab cannot be loaded: ${why instanceof Error ? why.message : why}`);
      },
    );
  }
}
