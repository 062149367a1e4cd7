import { t } from "../base/texts";

// A button that copies the text of `data-copy` (a selector within the nearest [data-copy-scope], or the page).

export function mount(button: HTMLElement): undefined {
  button.addEventListener("click", async () => {
    const scope = button.closest("[data-copy-scope]") ?? document;
    const source = scope.querySelector(button.dataset.copy ?? "");
    const text = source instanceof HTMLInputElement ? source.value : (source?.textContent ?? "");
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = t("Copied");
    } catch {
      if (source) getSelection()?.selectAllChildren(source);
      button.textContent = t("Press Ctrl+C");
    }
    setTimeout(() => {
      button.textContent = before;
    }, 1500);
  });
}
