import { after, type Timer } from "../base/runtime/timers.ts";

/** Milliseconds that a hook may take; then the attempt goes on without it. */
const hookLimit = 30_000;

/** Resolves when the hook has settled, has taken too long, or is left for another reason. What it throws is reported. */
export async function runHook(
  where: string,
  call: () => unknown,
  left: Promise<void>,
  report: (error: unknown, where: string) => void,
): Promise<void> {
  let timer: Timer | undefined;
  const late = new Promise<void>((resolve) => {
    timer = after(hookLimit, () => {
      report(new Error(`it has not settled within ${hookLimit} ms`), where);
      resolve();
    });
  });
  try {
    await Promise.race([call(), late, left]);
  } catch (error) {
    report(error, where);
  } finally {
    timer?.clear();
  }
}
