import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { defineConfig } from "@playwright/test";

const directories = (process.env.PATH ?? "").split(delimiter);
const names = ["chromium", "chromium-browser", "google-chrome"];
const chromium = names.flatMap((name) => directories.map((directory) => join(directory, name))).find(existsSync);
if (chromium === undefined) throw new Error(`none of ${names.join(", ")} is in the PATH; write apt-get install chromium`);

export default defineConfig({
  testDir: "tests",
  // The page is measured, too; two at once would disturb each other.
  workers: 1,
  timeout: 60_000,
  reporter: "list",
  use: {
    baseURL: "http://127.0.0.1:4187/",
    launchOptions: { executablePath: chromium, args: ["--no-sandbox"] },
    permissions: ["clipboard-read", "clipboard-write"],
  },
  // What was built, as a web server gives it.
  webServer: { command: "npx vite preview --host 127.0.0.1 --port 4187 --strictPort", url: "http://127.0.0.1:4187/" },
});
