/** A real browser for tests: Debian's chromium at /usr/bin/chromium, or the executable of DBQ_TEST_CHROMIUM. */
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";
import type { Server } from "./server.ts";

const variable = "DBQ_TEST_CHROMIUM";

/** No window, no sandbox (CI runs as root), and no connection to anybody but the page's server. */
const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The executable, as `url`, or the reason why there is none. `isMissing` makes a skip or an error of it. */
export function chromiumHere(): Server {
  const path = process.env[variable] ?? "/usr/bin/chromium";
  return existsSync(path) ? { url: path } : { reason: `no browser: there is no ${path} (${variable})` };
}

/** Starts it; the caller closes it. @throws Error when there is none */
export async function startChromium(): Promise<Browser> {
  const { url, reason } = chromiumHere();
  if (url === undefined) throw new Error(reason);
  return await chromium.launch({ executablePath: url, headless: true, args: flags });
}
