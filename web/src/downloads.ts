/** Files of what is shown. */
import { make } from "./controls";
import type { Lab } from "./lab";
import type { Table } from "./protocol";

const TABLES: Table[] = ["summary", "flows", "links", "series"];

interface Source {
  lab: Lab;
  /** The scenario's name. */
  name: () => string;
  toml: () => string;
  svg: () => string;
}

/** Makes the buttons; what is returned enables those of results, or disables them. */
export function downloads(buttons: HTMLElement, status: HTMLElement, source: Source): (hasResults: boolean) => void {
  const add = (label: string, end: string, type: string, bytes: () => Promise<BlobPart>) => {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", async () => {
      const file = `${source.name()}${end}`;
      status.textContent = `Making ${file} …`;
      try {
        save(file, new Blob([await bytes()], { type }));
        status.textContent = `${file} is downloaded.`;
      } catch (why) {
        status.textContent = `No ${file}: ${why instanceof Error ? why.message : why}`;
      }
    });
    buttons.append(button);
    return button;
  };
  add("TOML", ".toml", "application/toml", async () => source.toml());
  const ofResults = [add("JSON", ".json", "application/json", async () => (await source.lab.file({ ask: "json" })) as BlobPart)];
  for (const table of TABLES) {
    const make = async () => (await source.lab.file({ ask: "parquet", table })) as BlobPart;
    ofResults.push(add(`Parquet: ${table}`, `-${table}.parquet`, "application/vnd.apache.parquet", make));
  }
  add("SVG", ".svg", "image/svg+xml", async () => source.svg());
  return (hasResults) => {
    for (const button of ofResults) button.disabled = !hasResults;
  };
}

function save(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
