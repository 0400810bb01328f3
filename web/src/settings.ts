/** The values of the sliders, and the scenario and the address that it becomes. */
export interface Settings {
  /** Mbit/s. */
  rate: number;
  /** Milliseconds. */
  rtt: number;
  /** Bandwidth-delay products. */
  buffer: number;
  /** Percent. */
  loss: number;
  /** Seconds. */
  duration: number;
  /** Seconds between the starts of two flows. */
  gap: number;
  /** The algorithm of each flow. */
  cc: string[];
}

export type Slider = Exclude<keyof Settings, "cc">;

export const ALGORITHMS = ["bbr3", "bbr3x", "bbr3-linux", "bbr3x-linux", "bbr1", "cubic", "reno"];
export const MOST_FLOWS = 8;

interface Scale {
  label: string;
  values: number[];
  unit: string;
}

/** The positions of each slider. */
export const SCALES: Record<Slider, Scale> = {
  rate: {
    label: "Rate",
    values: [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000],
    unit: "Mbit/s",
  },
  rtt: {
    label: "Round trip",
    values: [1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 500],
    unit: "ms",
  },
  buffer: {
    label: "Buffer",
    values: [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32],
    unit: "BDP",
  },
  loss: {
    label: "Random loss",
    values: [0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1, 2, 3, 5, 7, 10, 15, 20],
    unit: "%",
  },
  duration: { label: "Duration", values: [1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60], unit: "s" },
  gap: { label: "Between starts", values: [0, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10], unit: "s" },
};

export const SLIDERS = Object.keys(SCALES) as Slider[];

export const DEFAULTS: Settings = {
  rate: 100,
  rtt: 40,
  buffer: 2,
  loss: 0,
  duration: 10,
  gap: 2,
  cc: ["bbr3", "cubic"],
};

export function toToml(settings: Settings): string {
  const path = [
    `rate = "${settings.rate}mbit"`,
    `rtt = "${settings.rtt}ms"`,
    `buffer = "${settings.buffer}bdp"`,
  ];
  if (settings.loss > 0) path.push(`loss = "${settings.loss}%"`);
  const lines = [`duration = "${settings.duration}s"`, `path = { ${path.join(", ")} }`];
  settings.cc.forEach((cc, i) => {
    lines.push("", "[[flow]]", `cc = "${cc}"`);
    const start = Math.round(i * settings.gap * 1000);
    if (start > 0) lines.push(`start = "${start}ms"`);
  });
  return `${lines.join("\n")}\n`;
}

export function toParameters(settings: Settings): URLSearchParams {
  const all = new URLSearchParams();
  for (const slider of SLIDERS) all.set(slider, String(settings[slider]));
  all.set("cc", settings.cc.join(","));
  return all;
}

/** Reads what {@link toParameters} made. A value that no slider has is that slider's default. */
export function fromParameters(parameters: URLSearchParams): Settings {
  const settings = { ...DEFAULTS, cc: [...DEFAULTS.cc] };
  for (const slider of SLIDERS) {
    const value = Number(parameters.get(slider) ?? Number.NaN);
    if (SCALES[slider].values.includes(value)) settings[slider] = value;
  }
  const cc = (parameters.get("cc") ?? "").split(",").filter((name) => ALGORITHMS.includes(name));
  if (cc.length > 0) settings.cc = cc.slice(0, MOST_FLOWS);
  return settings;
}
