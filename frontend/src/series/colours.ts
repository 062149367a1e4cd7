// Ten series colours that can be told apart in both themes, also by colour-blind eyes as far as ten allow.

const LIGHT = [
  "#1a66d6",
  "#c2410c",
  "#0f766e",
  "#9333ea",
  "#a16207",
  "#be185d",
  "#0369a1",
  "#4d7c0f",
  "#6d4c41",
  "#475569",
];
const DARK = [
  "#6aa5ff",
  "#ff9a5c",
  "#3fcfbf",
  "#c792ff",
  "#e6b84c",
  "#ff7fb2",
  "#5cc4f5",
  "#a4d65e",
  "#c9a18f",
  "#a9b6c6",
];

export function seriesColour(index: number): string {
  const palette = document.documentElement.dataset.bsTheme === "dark" ? DARK : LIGHT;
  return palette[index % palette.length] ?? "#888888";
}

export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
