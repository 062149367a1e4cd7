// How fast bytes go, over the last seconds; a stall shows soon and one slow piece does not make the number jump.

const WINDOW_MS = 8000;

export class Speed {
  private samples: { at: number; bytes: number }[] = [];

  /** `bytes` sent so far, at `at` milliseconds. */
  note(bytes: number, at: number): void {
    const last = this.samples.at(-1);
    if (last && bytes < last.bytes) this.samples = []; // sent again from an earlier offset
    this.samples.push({ at, bytes });
    while (this.samples.length > 2 && at - (this.samples[0]?.at ?? at) > WINDOW_MS) this.samples.shift();
  }

  /** Bytes a second, or undefined while there is too little to tell. */
  perSecond(): number | undefined {
    const first = this.samples[0];
    const last = this.samples.at(-1);
    if (!first || !last || last.at - first.at < 400) return undefined;
    return ((last.bytes - first.bytes) * 1000) / (last.at - first.at);
  }

  reset(): void {
    this.samples = [];
  }
}
