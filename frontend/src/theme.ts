// Runs before the first paint, as a classic script in <head>: no flash of the wrong theme, no inline script.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = (): string => {
    try {
      return localStorage.getItem("theme") ?? "system";
    } catch {
      return "system"; // storage may be forbidden; the system's theme still works
    }
  };
  const apply = (): void => {
    const theme = chosen();
    const isDark = theme === "dark" || (theme !== "light" && dark.matches);
    document.documentElement.dataset.bsTheme = isDark ? "dark" : "light";
    document.documentElement.dataset.themeChoice = theme;
  };
  apply();
  dark.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  document.addEventListener("trainyard:theme", apply);
})();
