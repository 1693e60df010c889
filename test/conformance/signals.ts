/** Waiting for what another thread or process does: it looks until it is so, and gives up only on what hangs. */

/** Milliseconds: longer than any case takes on a machine that is busy. */
const tooLong = 20_000;

export async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const start = performance.now();
  while (!(await isSo())) {
    if (performance.now() - start > tooLong) throw new Error(`it never came to ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
