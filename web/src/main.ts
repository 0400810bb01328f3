/** The page: what is chosen becomes a scenario, the lab runs it, and what comes back is shown. */
import "./style.css";
import { Controls, make } from "./controls";
import { downloads } from "./downloads";
import { Editor } from "./editor";
import { Lab } from "./lab";
import { PRESETS } from "./presets";
import type { Answer, Mistake, Run } from "./protocol";
import { DEFAULTS, toToml } from "./settings";
import { type Shown, fromFragment, toFragment } from "./share";
import { View } from "./view";
import { figuresOf, storyOf, summaryOf, verdictsOf } from "./words";

function byId<E extends HTMLElement = HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

const [preset, progress, stop] = [byId<HTMLSelectElement>("preset"), byId<HTMLProgressElement>("progress"), byId("stop")];

/** In the place of a story that was asked for. */
const WAITS = "…";

let shown: Shown = { from: "sliders", settings: DEFAULTS };
let runs: Run[] = [];

const lab = new Lab(hear);
const editor = new Editor(byId("editor"), (toml) => show({ from: "text", toml }, 300));
const controls = new Controls(byId("path"), byId("flows"), DEFAULTS, (settings) =>
  show({ from: "sliders", settings: { ...settings, cc: [...settings.cc] } }, 30),
);
const view = new View(byId, tellStory);

preset.append(make("option", { value: "sliders" }, "By the sliders"));
preset.append(make("option", { value: "text", hidden: true }, "Your own scenario"));
const group = make("optgroup", { label: "The BBR paper (Cardwell et al., 2017)" });
group.append(...PRESETS.map(({ name, title }) => make("option", { value: name }, title)));
preset.append(group);
preset.addEventListener("change", () => {
  if (preset.value === "sliders") show({ from: "sliders", settings: DEFAULTS });
  else show({ from: "preset", name: preset.value });
});

stop.addEventListener("click", () => {
  lab.stop();
  over("Stopped.");
});

byId("share").addEventListener("click", async () => {
  await address();
  try {
    await navigator.clipboard.writeText(location.href);
    byId("shared").textContent = "The link is in the clipboard.";
  } catch {
    byId("shared").textContent = "The link is in the address bar.";
  }
});

const offer = downloads(byId("downloads"), byId("downloaded"), {
  lab,
  name: nameOf,
  toml: () => editor.text,
  svg: () => view.svg(),
});

// The address is what is shown, and no place on the page.
document.querySelector(".skip")!.addEventListener("click", (event) => {
  event.preventDefault();
  byId("results").focus();
});

addEventListener("hashchange", async () => show(await fromFragment(location.hash)));
void fromFragment(location.hash).then((first) => show(first));

function nameOf(): string {
  return shown.from === "preset" ? shown.name : "scenario";
}

let waiting: ReturnType<typeof setTimeout> | undefined;

/** Shows this, and runs it after so many milliseconds without another change. */
function show(next: Shown, delay = 0): void {
  shown = next;
  if (next.from === "sliders") {
    if (delay === 0) controls.show(next.settings);
    editor.text = toToml(next.settings);
  } else if (next.from === "preset") {
    editor.text = PRESETS.find(({ name }) => name === next.name)!.toml;
  } else {
    editor.text = next.toml;
  }
  preset.value = next.from === "preset" ? next.name : next.from;
  byId("instead").hidden = next.from === "sliders";
  byId("shared").textContent = "";
  document.body.dataset.state = "waiting";
  clearTimeout(waiting);
  waiting = setTimeout(run, delay);
}

async function address(): Promise<void> {
  const at = shown;
  const fragment = await toFragment(at);
  if (at === shown) history.replaceState(null, "", `#${fragment}`);
}

function run(): void {
  void address();
  runs = [];
  progress.value = 0;
  stop.hidden = false;
  document.body.dataset.state = "running";
  lab.run(editor.text, nameOf());
  offerResults();
}

function offerResults(): void {
  offer(lab.hasResults);
  byId<HTMLSelectElement>("hero").disabled = !lab.hasResults;
}

function hear(answer: Answer): void {
  switch (answer.tell) {
    case "mistake":
      mistake(answer.mistake);
      over("The scenario has a mistake; the results are those of the one before.");
      break;
    case "failure":
      over(`No result: ${answer.why}`);
      break;
    case "progress":
      mistake(null);
      progress.value = (answer.run + answer.done) / answer.runs;
      break;
    case "run":
      mistake(null);
      runs.push(answer.run);
      progress.value = runs.length / answer.runs;
      view.show(runs, runs.length === answer.runs);
      break;
    case "over":
      over(summaryOf(runs, answer.seconds));
      byId("figures").replaceChildren(figuresOf(runs));
      byId("verdicts").replaceChildren(verdictsOf(answer.verdicts));
      document.body.dataset.seconds = String(answer.seconds);
      view.askStory();
      break;
    case "story":
      byId("story").replaceChildren(
        ...(answer.story === null ? [make("p", {}, `There is no story of it: ${answer.why}.`)] : storyOf(answer.story)),
      );
      break;
  }
}

function over(words: string): void {
  byId("summary").textContent = words;
  progress.value = 1;
  stop.hidden = true;
  offerResults();
  // An answer that does not come any more.
  if (!lab.hasResults && byId("story").textContent === WAITS) byId("story").replaceChildren();
  document.body.dataset.state = "over";
}

function mistake(found: Mistake | null): void {
  editor.mark(found);
  const line = found?.line == null ? "" : `Line ${found.line}: `;
  const field = found?.field ? `${found.field}: ` : "";
  byId("mistake").textContent = found === null ? "" : `${line}${field}${found.message}`;
}

function tellStory(run: number, flow: number): void {
  byId("story").replaceChildren(make("p", {}, WAITS));
  lab.story(run, flow);
}
