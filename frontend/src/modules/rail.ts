// On a narrow screen the rail folds into its head line.

export function mount(rail: HTMLElement): undefined {
  rail.querySelector("[data-rail-toggle]")?.addEventListener("click", () => {
    rail.toggleAttribute("data-open");
  });
}
