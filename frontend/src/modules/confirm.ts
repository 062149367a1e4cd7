// A form with `data-confirm`: the first press asks, naming the thing, in the button itself; the second does it.

export function mount(form: HTMLElement): undefined {
  const button = form.querySelector<HTMLButtonElement>("button:not([type=button])");
  if (!button) return;
  const before = button.textContent ?? "";
  let timer = 0;
  const calm = (): void => {
    delete form.dataset.asked;
    form.removeAttribute("hx-morph-skip");
    button.textContent = before;
    button.classList.remove("btn-danger");
  };
  form.addEventListener("submit", (event) => {
    if (form.dataset.asked) {
      button.setAttribute("aria-busy", "true");
      return;
    }
    event.preventDefault();
    form.dataset.asked = "1";
    form.setAttribute("hx-morph-skip", ""); // a part that refreshes itself must not take the question back
    button.textContent = form.dataset.confirm ?? before;
    button.classList.add("btn-danger");
    clearTimeout(timer);
    timer = window.setTimeout(calm, 6000);
  });
  button.addEventListener("blur", calm);
}
