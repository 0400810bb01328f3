/** The page's state, in the fragment of its address: the sliders, a preset, or a scenario's text. */
import { PRESETS } from "./presets";
import { type Settings, DEFAULTS, fromParameters, toParameters } from "./settings";

export type Shown =
  | { from: "sliders"; settings: Settings }
  | { from: "preset"; name: string }
  | { from: "text"; toml: string };

export async function toFragment(shown: Shown): Promise<string> {
  switch (shown.from) {
    case "sliders":
      return toParameters(shown.settings).toString();
    case "preset":
      return `figure=${shown.name}`;
    case "text":
      return `toml=${await pack(shown.toml)}`;
  }
}

/** The state that a fragment holds; the sliders' defaults for a part that cannot be read. */
export async function fromFragment(fragment: string): Promise<Shown> {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ""));
  const figure = parameters.get("figure");
  if (PRESETS.some((preset) => preset.name === figure)) return { from: "preset", name: figure! };
  const packed = parameters.get("toml");
  if (packed !== null) {
    try {
      return { from: "text", toml: await unpack(packed) };
    } catch {
      return { from: "sliders", settings: DEFAULTS };
    }
  }
  return { from: "sliders", settings: fromParameters(parameters) };
}

/** More text than this is no scenario, but a link that was made to fill the memory. */
const MOST_BYTES = 1 << 20;

async function pack(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpack(packed: string): Promise<string> {
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const parts: Uint8Array[] = [];
  let size = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_BYTES) throw new Error("too long");
    parts.push(value);
  }
  return new Blob(parts as BlobPart[]).text();
}
