/** The plots of the runs that are chosen, and the moment that they are looked at. */
import { make } from "./controls";
import { PLOTS, type Timed, endOf, momentAt, overTime, states } from "./plots";
import { type Plane, hasPlane, plane } from "./plane";
import type { Run } from "./protocol";
import { file } from "./svg";
import { type Trace, MOST_TRACES, nameOf, standTogether, stateAt, tracesOf, valueAt } from "./traces";

type ById = <E extends HTMLElement = HTMLElement>(id: string) => E;

/** Time that the whole run takes when it is played, in milliseconds. */
const PLAYED_MS = 8000;
const STEPS = 1000;

export class View {
  #byId: ById;
  #tellStory: (run: number, flow: number) => void;
  #runs: Run[] = [];
  #traces: Trace[] = [];
  #timed: Timed[] = [];
  #plane: Plane | undefined;
  #end = 1;
  #playing = 0;
  #moment: HTMLInputElement;
  #choice: HTMLSelectElement;
  #hero: HTMLSelectElement;

  constructor(byId: ById, tellStory: (run: number, flow: number) => void) {
    this.#byId = byId;
    this.#tellStory = tellStory;
    this.#moment = byId<HTMLInputElement>("moment");
    this.#choice = byId<HTMLSelectElement>("run");
    this.#hero = byId<HTMLSelectElement>("hero");
    this.#choice.addEventListener("change", () => {
      this.#draw();
      this.askStory();
    });
    this.#hero.addEventListener("change", () => this.askStory());
    this.#moment.addEventListener("input", () => {
      this.#pause();
      this.#move();
    });
    byId("play").addEventListener("click", () => (this.#playing === 0 ? this.#play() : this.#pause()));
    let width = 0;
    new ResizeObserver(() => {
      if (this.#width() === width) return;
      width = this.#width();
      if (this.#runs.length > 0) this.#draw();
    }).observe(byId("plots"));
  }

  /** Shows the runs so far. */
  show(runs: Run[], isWhole: boolean): void {
    this.#runs = runs;
    // Of many runs the first is shown at once, and the others when all are there.
    if (runs.length > 1 && !isWhole) return;
    const all = standTogether(runs) ? [make("option", { value: "all" }, `All ${runs.length} runs`)] : [];
    const each = runs.map((run, i) => make("option", { value: String(i) }, nameOf(run)));
    this.#choice.replaceChildren(...all, ...each);
    this.#byId("choose").hidden = runs.length === 1;
    this.#draw();
  }

  /** Asks for the story of the flow that is chosen. */
  askStory(): void {
    const [run, flow] = this.#hero.value.split("/").map(Number);
    if (run !== undefined && flow !== undefined) this.#tellStory(run, flow);
  }

  /** The drawing, as one file. */
  svg(): string {
    const pictures = this.#timed.map(({ picture }) => picture);
    if (this.#plane !== undefined) pictures.push(this.#plane.picture);
    return file(pictures, getComputedStyle(document.body).backgroundColor);
  }

  #width(): number {
    return Math.max(260, Math.floor(this.#byId("plots").clientWidth));
  }

  #draw(): void {
    const all = this.#choice.value === "all";
    const chosen = all ? this.#runs : this.#runs.slice(Number(this.#choice.value), Number(this.#choice.value) + 1);
    this.#traces = tracesOf(chosen);
    this.#end = endOf(this.#traces) || 1;
    const width = this.#width();
    // More lines than colours are no plot; their means are on the plane.
    const isMany = this.#traces.length > MOST_TRACES;
    this.#timed = isMany ? [] : [...PLOTS.map((plot) => overTime(plot, this.#traces, width)), states(this.#traces, width)];
    for (const id of ["legend", "time", "now"]) this.#byId(id).hidden = isMany;
    this.#byId("plots").replaceChildren(...this.#timed.map(({ picture }) => picture));
    for (const { picture } of this.#timed) {
      picture.addEventListener("pointermove", (event) => {
        this.#pause();
        this.#moment.value = String(Math.round((momentAt(event, picture, this.#end) / this.#end) * STEPS));
        this.#move();
      });
    }
    this.#plane = chosen.some(hasPlane) ? plane(this.#traces, this.#end, width) : undefined;
    const none = make("p", {}, "The path's rate changes, so that there is no one BDP to measure in.");
    this.#byId("plane").replaceChildren(this.#plane?.picture ?? none);
    this.#legend();
    this.#heroes(chosen);
    this.#move();
  }

  #legend(): void {
    const items = this.#traces.map(({ label, colour }) => {
      const swatch = make("span", { className: "swatch", ariaHidden: "true" });
      swatch.style.background = colour;
      return make("li", {}, swatch, label);
    });
    this.#byId("legend").replaceChildren(...items);
  }

  #heroes(chosen: Run[]): void {
    const options = chosen.flatMap((run) =>
      run.flows.map((flow, i) => {
        const name = chosen.length > 1 ? nameOf(run) : run.flows.length > 1 ? `${i + 1}: ${flow.name}` : flow.name;
        return make("option", { value: `${run.run}/${i}` }, name);
      }),
    );
    this.#hero.replaceChildren(...options);
  }

  #move(): void {
    const t = (Number(this.#moment.value) / STEPS) * this.#end;
    const said = `${t.toFixed(this.#end > 5 ? 2 : 3)} s`;
    this.#byId<HTMLOutputElement>("at").value = said;
    this.#moment.setAttribute("aria-valuetext", said);
    for (const { move } of this.#timed) move(t);
    this.#byId("point").textContent = this.#plane?.move(t) ?? "";
    const now = this.#traces.slice(0, MOST_TRACES).map(({ label, series }) => {
      const value = (column: "goodput_mbps" | "rtt_ms" | "queue_ms", digits: number) => {
        const found = valueAt(series, column, t);
        return Number.isNaN(found) ? "–" : found.toFixed(digits);
      };
      const words = `${value("goodput_mbps", 1)} Mbit/s, round trip ${value("rtt_ms", 1)} ms, queue ${value("queue_ms", 1)} ms`;
      const state = stateAt(series, t);
      return make("li", {}, make("strong", {}, label), ` ${words}${state === "" ? "" : `, ${state}`}`);
    });
    this.#byId("now").replaceChildren(...now);
  }

  #play(): void {
    const from = this.#moment.value === String(STEPS) ? 0 : Number(this.#moment.value) / STEPS;
    const began = performance.now() - from * PLAYED_MS;
    this.#byId("play").textContent = "Pause";
    const frame = (now: number) => {
      const share = Math.min((now - began) / PLAYED_MS, 1);
      this.#moment.value = String(Math.round(share * STEPS));
      this.#move();
      if (share < 1) this.#playing = requestAnimationFrame(frame);
      else this.#pause();
    };
    this.#playing = requestAnimationFrame(frame);
  }

  #pause(): void {
    cancelAnimationFrame(this.#playing);
    this.#playing = 0;
    this.#byId("play").textContent = "Play";
  }
}
