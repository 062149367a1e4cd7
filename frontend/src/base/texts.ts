// Texts of the TypeScript side, from Django's JSON catalogue. English needs none: the keys are the texts.

interface Catalogue {
  catalog: Record<string, string | string[]>;
  plural?: string | null;
}

let catalogue: Catalogue["catalog"] = {};

export async function loadTexts(): Promise<void> {
  const url = document.documentElement.dataset.texts;
  if (!url || document.documentElement.lang === "en") return;
  try {
    const answer = await fetch(url);
    if (answer.ok) catalogue = ((await answer.json()) as Catalogue).catalog;
  } catch {
    // The page works in English when the catalogue cannot be had.
  }
}

/** The text in the viewer's language; `{name}` parts are filled from `values`. */
export function t(key: string, values: Record<string, string | number> = {}): string {
  const found = catalogue[key];
  const text = typeof found === "string" ? found : (found?.[0] ?? key);
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
