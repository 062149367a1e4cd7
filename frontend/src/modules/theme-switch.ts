import { t } from "../base/texts";

const ORDER = ["system", "light", "dark"] as const;

export function mount(button: HTMLElement): undefined {
  const words = { system: t("Theme: as the system"), light: t("Theme: light"), dark: t("Theme: dark") };
  const show = (): void => {
    const choice = document.documentElement.dataset.themeChoice as keyof typeof words;
    button.title = words[choice] ?? words.system;
  };
  show();
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.themeChoice as (typeof ORDER)[number];
    localStorage.setItem("theme", ORDER[(ORDER.indexOf(now) + 1) % ORDER.length] ?? "system");
    document.dispatchEvent(new Event("trainyard:theme"));
    show();
  });
}
