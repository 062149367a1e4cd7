// A filter form that sends itself when a select changes, or half a second after the last key.

export function mount(root: HTMLElement): undefined {
  const form = root as HTMLFormElement;
  let timer = 0;
  form.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement) form.requestSubmit();
  });
  form.addEventListener("input", (event) => {
    if (!(event.target instanceof HTMLInputElement)) return;
    clearTimeout(timer);
    timer = window.setTimeout(() => form.requestSubmit(), 600);
  });
  form.addEventListener("submit", () => {
    for (const field of form.querySelectorAll<HTMLInputElement | HTMLSelectElement>("[name]")) {
      field.disabled = field.value === ""; // an address without empty parts
    }
  });
  const search = form.querySelector<HTMLInputElement>("input[type=search]");
  if (search?.value && document.activeElement === document.body) {
    search.focus();
    search.setSelectionRange(search.value.length, search.value.length);
  }
}
