import { defineConfig } from "vite";

export default defineConfig({
  // Relative, because the documentation site has the page in a directory of its own.
  base: "./",
  build: { target: "es2022", assetsInlineLimit: 0 },
  worker: { format: "es" },
  // The presets are the files of scenarios/.
  server: { fs: { allow: [".."] } },
});
