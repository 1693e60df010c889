/** The chaos tests stop and kill processes, and their expectations of what can be observed are those of Linux. */
import { describe } from "vitest";

const reason = process.platform === "linux" ? undefined : `they need Linux, and this is ${process.platform}`;
if (reason !== undefined) console.log(`the chaos tests are skipped: ${reason}`);

/** `describe` on Linux, a skip elsewhere. */
export const onLinux = (name: string, tests: () => void): void => {
  describe.skipIf(reason !== undefined)(name, tests);
};

/** A time limit for tests that start many processes. */
export const patient = { timeout: 60_000 } as const;
