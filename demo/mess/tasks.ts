/** The functions of a shop. Some fail, hang or end their process on purpose. */
import { setTimeout as sleep } from "node:timers/promises";
import { currentTask, remoteTask, task } from "../../src/index.ts";

// ---- what went well ------------------------------------------------------------------------------

export const syncOrder = task("syncOrder", async (order: number) => ({ order, lines: 1 + (order % 5) }));
export const sendReceipt = task("sendReceipt", async (order: number) => `receipt ${order} was sent`);
export const resizePhoto = task("resizePhoto", async (photo: string) => ({ photo, width: 320 }));

// ---- what goes wrong -----------------------------------------------------------------------------

/** An error with the name that a library would give it. */
function named(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

/** Six reasons, and how many of 60 invoices that fail have each of them. */
const reasons: readonly (readonly [share: number, fail: (invoice: number) => never])[] = [
  [
    26,
    (n) => fail(named("ConnectTimeoutError", `no answer from mail-${n % 4}.shop.example:587 in 10000 ms`)),
  ],
  [14, (n) => fail(new Error(`customer ${8_000 + n} has no mail address`))],
  [9, () => (undefined as unknown as { total: never }).total],
  [6, (n) => fail(named("HttpError", `POST https://tax.example/v1/rates?order=${n}: 429 Too Many Requests`))],
  [3, (n) => fail(named("UniqueError", `an invoice "2026-${10_000 + n}" exists already`))],
  [2, (n) => fail(new RangeError(`the PDF has ${14_000_000 + n} bytes, more than 10000000`))],
];

function fail(error: Error): never {
  throw error;
}

/** Three of four invoices fail. */
export const sendInvoice = task(
  "sendInvoice",
  async (invoice: number) => {
    if (invoice % 4 === 3) return `invoice ${invoice} was sent`;
    let place = (Math.floor(invoice / 4) * 3 + (invoice % 4)) % 60;
    for (const [share, reason] of reasons) {
      if (place < share) return reason(invoice);
      place -= share;
    }
    throw new Error(`no reason is left for invoice ${invoice}`);
  },
  { maxRetries: 0 },
);

/** Never ends for one supplier, unless it is cancelled. */
export const importFeed = task("importFeed", async (supplier: string) => {
  if (supplier === "supplier-7") await untilStopped();
  await sleep(5);
  return { supplier, products: 12 };
});

/** Its worker's process is stopped while it runs. */
export const syncWarehouse = task("syncWarehouse", async (_shelf: number) => await untilStopped());

/** Takes so long that the next ones of its schedule come before it has ended. */
export const buildReport = task("buildReport", async () => await untilStopped());

/** Ends its process, as a bug in a native library would: at once, or after as many milliseconds as the environment says. */
export const convertVideo = task(
  "convertVideo",
  async (_video: string) => {
    const { signal } = currentTask();
    await sleep(Number(process.env.DBQ_MESS_VIDEO_MS ?? 0), undefined, { signal });
    process.kill(process.pid, "SIGKILL");
    await untilStopped();
  },
  { maxRetries: 1_000 },
);

export const chargeCard = task("chargeCard", async (_order: number) => await sleep(5));
export const indexProduct = task("indexProduct", async (_product: number, ms: number) => await sleep(ms));
export const rebuildIndex = task("rebuildIndex", async () => "the index is new");
export const sendNewsletter = task("sendNewsletter", async (_customer: number) => "sent");

/** No worker has it: its program was renamed, and the old tasks were forgotten. */
export const makeThumbnail = remoteTask<(photo: string) => Promise<void>>("makeThumbnail");

async function untilStopped(): Promise<never> {
  const { signal } = currentTask();
  await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  throw signal.reason;
}
