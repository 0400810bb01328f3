/** Parts that the tests of the page share. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import type { Page } from "@playwright/test";

export const REPOSITORY = new URL("../../", import.meta.url).pathname;

/** The program that results are held against. */
export const COMMAND = process.env.FULLPIPE ?? `${REPOSITORY}target/release/fullpipe`;

/** Runs it, and gives what it prints. */
export function command(...args: string[]): string {
  if (!existsSync(COMMAND)) throw new Error(`there is no ${COMMAND}; write cargo build --release, or FULLPIPE=PATH`);
  return execFileSync(COMMAND, args, { cwd: REPOSITORY, maxBuffer: 1 << 30, encoding: "utf8" });
}

/** Opens the page at a fragment, and waits until the runs are over. */
export async function open(page: Page, fragment = ""): Promise<void> {
  await page.goto("about:blank");
  await page.goto(`/${fragment}`);
  await over(page);
}

export async function over(page: Page): Promise<void> {
  await page.waitForFunction(() => document.body.dataset.state === "over", null, { timeout: 45_000 });
}

/** The text of the editor, line by line. */
export async function scenario(page: Page): Promise<string> {
  return (await page.locator(".cm-line").allTextContents()).join("\n");
}

/** Replaces the editor's text as somebody at a keyboard would. */
export async function write(page: Page, text: string): Promise<void> {
  await page.locator(".cm-content").focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

/** A file that a button gives. */
export async function download(page: Page, button: string): Promise<{ name: string; bytes: Buffer }> {
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: button, exact: true }).click(),
  ]);
  const chunks: Buffer[] = [];
  for await (const chunk of await file.createReadStream()) chunks.push(chunk as Buffer);
  return { name: file.suggestedFilename(), bytes: Buffer.concat(chunks) };
}
