/** Waits for a condition that another thread or process brings about. The limit only catches what hangs. */

/** Milliseconds: longer than any case takes on a busy machine. */
const tooLong = 20_000;

export async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const start = performance.now();
  while (!(await isSo())) {
    if (performance.now() - start > tooLong) throw new Error(`timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
