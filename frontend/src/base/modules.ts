// `data-module="name"` binds a module to an element, also to elements that arrive later; its clean-up runs when they go.

export type Cleanup = undefined | (() => void);
export type Mount = (root: HTMLElement) => Cleanup | Promise<Cleanup>;
export type Loader = () => Promise<{ mount: Mount }>;

interface Binding {
  isGone: boolean;
  cleanup: Cleanup;
}

export function bindModules(loaders: Record<string, Loader>): void {
  const bound = new Map<HTMLElement, Binding>();

  async function bind(element: HTMLElement): Promise<void> {
    const load = loaders[element.dataset.module ?? ""];
    if (!load || bound.has(element)) return;
    const binding: Binding = { isGone: false, cleanup: undefined };
    bound.set(element, binding);
    const { mount } = await load();
    if (binding.isGone) return;
    binding.cleanup = await mount(element);
    if (binding.isGone) binding.cleanup?.();
  }

  function sweep(): void {
    for (const [element, binding] of bound) {
      if (element.isConnected) continue;
      binding.isGone = true;
      binding.cleanup?.();
      bound.delete(element);
    }
    for (const element of document.querySelectorAll<HTMLElement>("[data-module]")) void bind(element);
  }

  let isPlanned = false;
  new MutationObserver(() => {
    if (isPlanned) return;
    isPlanned = true;
    queueMicrotask(() => {
      isPlanned = false;
      sweep();
    });
  }).observe(document.documentElement, { childList: true, subtree: true });
  sweep();
}
