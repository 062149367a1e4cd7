import { defineConfig } from "vite";

// `base` is relative so that hashed files find each other under any STATIC_URL; the manifest is for django-vite.
export default defineConfig({
  base: "./",
  publicDir: false,
  build: {
    outDir: "dist",
    emptyOutDir: true,
    manifest: "manifest.json",
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: {
        main: "src/main.ts",
        theme: "src/theme.ts",
      },
    },
  },
});
