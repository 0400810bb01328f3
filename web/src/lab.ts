/** The lab in its worker. */
import type { Answer, Request } from "./protocol";
import wasmUrl from "./wasm/fullpipe_web_bg.wasm?url";

const compiled = fetch(wasmUrl)
  .then((response) => response.arrayBuffer())
  .then((bytes) => WebAssembly.compile(bytes));

type Hear = (answer: Answer) => void;

/** Runs one scenario at a time: a new one ends what is under way. */
export class Lab {
  #worker: Promise<Worker> | undefined;
  /** Requests without their last answer. */
  #pending = 0;
  #hear: Hear;
  #file: { resolve: (bytes: Uint8Array) => void; reject: (why: Error) => void } | undefined;

  constructor(hear: Hear) {
    this.#hear = hear;
    this.#worker = this.#start();
  }

  async #start(): Promise<Worker> {
    const module = await compiled;
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    const load: Request = { ask: "load", module };
    worker.postMessage(load);
    worker.onmessage = ({ data }: MessageEvent<Answer>) => this.#answer(data);
    worker.onerror = (event) => this.#answer({ tell: "failure", why: event.message });
    return worker;
  }

  #answer(answer: Answer): void {
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
    if (this.#pending === 0) return;
    this.#pending = 0;
    const old = this.#worker;
    this.#worker = this.#start();
    void old?.then((worker) => {
      worker.onmessage = null;
      worker.terminate();
    });
    this.#file?.reject(new Error("another scenario was begun"));
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
    const worker = this.#worker;
    void worker?.then((ready) => {
      // It may have been ended while the module was compiled.
      if (worker === this.#worker) ready.postMessage(request);
    });
  }
}
