/** The sliders and the algorithms of the flows. */
import { ALGORITHMS, MOST_FLOWS, SCALES, SLIDERS, type Settings, type Slider } from "./settings";

/** An element with its properties and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function field(id: string, text: string, input: HTMLElement, ...more: Node[]): HTMLElement {
  input.id = id;
  return make("div", { className: "field" }, make("label", { htmlFor: id }, text), input, ...more);
}

/** A slider that says its value in words, with the unit. */
function slider(id: string, name: string, most: number, words: (at: number) => string, moved: (at: number) => void) {
  const input = make("input", { type: "range", min: "0", max: String(most), step: "1" });
  const output = make("output", { htmlFor: id as never });
  const show = (at: number) => {
    input.value = String(at);
    output.value = words(at);
    input.setAttribute("aria-valuetext", words(at));
  };
  input.addEventListener("input", () => {
    show(Number(input.value));
    moved(Number(input.value));
  });
  return { field: field(id, name, input, output), show };
}

export class Controls {
  #settings: Settings;
  #changed: (settings: Settings) => void;
  #shows: (() => void)[] = [];
  #algorithms = make("div");

  constructor(path: HTMLElement, flows: HTMLElement, settings: Settings, changed: (settings: Settings) => void) {
    this.#settings = settings;
    this.#changed = changed;
    path.append(...SLIDERS.filter((name) => name !== "gap").map((name) => this.#scale(name)));
    flows.append(this.#count(), this.#scale("gap"), this.#algorithms);
    this.show(settings);
  }

  show(settings: Settings): void {
    this.#settings = { ...settings, cc: [...settings.cc] };
    for (const show of this.#shows) show();
    this.#showAlgorithms();
  }

  #scale(name: Slider): HTMLElement {
    const { label, values, unit } = SCALES[name];
    const words = (at: number) => `${values[at]} ${unit}`;
    const made = slider(name, label, values.length - 1, words, (at) => {
      this.#settings[name] = values[at]!;
      this.#changed(this.#settings);
    });
    this.#shows.push(() => made.show(values.indexOf(this.#settings[name])));
    return made.field;
  }

  #count(): HTMLElement {
    const words = (at: number) => `${at + 1}`;
    const made = slider("count", "Number of flows", MOST_FLOWS - 1, words, (at) => {
      const { cc } = this.#settings;
      const last = cc.at(-1) ?? "bbr3";
      this.#settings.cc = Array.from({ length: at + 1 }, (_, i) => cc[i] ?? last);
      this.#showAlgorithms();
      this.#changed(this.#settings);
    });
    this.#shows.push(() => made.show(this.#settings.cc.length - 1));
    return made.field;
  }

  #showAlgorithms(): void {
    const fields = this.#settings.cc.map((cc, i) => {
      const select = make("select", {}, ...ALGORITHMS.map((name) => make("option", { value: name }, name)));
      select.value = cc;
      select.addEventListener("change", () => {
        this.#settings.cc[i] = select.value;
        this.#changed(this.#settings);
      });
      return field(`cc${i}`, `Flow ${i + 1}`, select);
    });
    this.#algorithms.replaceChildren(...fields);
  }
}
