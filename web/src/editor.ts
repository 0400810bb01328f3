/** The editor of the scenario's text. Tab leaves it, as any other field. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Mistake } from "./protocol";

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--muted)" },
  { tag: tags.string, color: "var(--text-string)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--text-number)" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
]);

export class Editor {
  #view: EditorView;
  #isSetting = false;

  constructor(parent: HTMLElement, edited: (text: string) => void) {
    this.#view = new EditorView({
      parent,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        keymap.of([...defaultKeymap, ...historyKeymap]),
        StreamLanguage.define(toml),
        syntaxHighlighting(colours),
        lintGutter(),
        // It can be reached by keyboard anyway; axe-core and some screen readers ask for the number.
        EditorView.contentAttributes.of({ tabindex: "0", "aria-label": "Scenario, in TOML" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !this.#isSetting) edited(this.text);
        }),
      ],
    });
  }

  get text(): string {
    return this.#view.state.doc.toString();
  }

  /** Shows this text, which nobody has edited. */
  set text(text: string) {
    if (text === this.text) return;
    this.#isSetting = true;
    this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } });
    this.#isSetting = false;
  }

  /** Marks the line of a mistake, or none. */
  mark(mistake: Mistake | null): void {
    const { state } = this.#view;
    if (mistake === null) {
      this.#view.dispatch(setDiagnostics(state, []));
      return;
    }
    const line = state.doc.line(Math.min(Math.max(mistake.line ?? 1, 1), state.doc.lines));
    const message = mistake.field === "" ? mistake.message : `${mistake.field}: ${mistake.message}`;
    const { from, to } = line;
    this.#view.dispatch(setDiagnostics(state, [{ from, to, severity: "error", message }]));
  }
}
