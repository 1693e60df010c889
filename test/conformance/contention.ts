/** Several processes on one database: what only real contention shows. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { insert } from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import type { Report } from "./contender.ts";

/** As `test/support/compiled.ts` has compiled it, where it has: under a loader it takes three times as long to come up. */
const compiled = join(process.env.DBQ_COMPILED ?? "", "test/conformance/contender.js");
const isCompiled = existsSync(compiled);
const contender = isCompiled ? compiled : fileURLToPath(new URL("./contender.ts", import.meta.url));
const execArgv = isCompiled ? [] : ["--import", "tsx"];
const processes = 4;
/** Tasks that each process must have got before nobody can be said to starve. */
const share = 40;
const batch = 100;

interface Contender {
  child: ChildProcess;
  ready: Promise<unknown>;
  /** Resolves when it has claimed its share. */
  served: Promise<unknown>;
  report: Promise<Report>;
}

function start({ kind, place }: Context, workerId: string): Contender {
  const child = fork(contender, [kind.name, place.url, workerId, String(share)], {
    execArgv,
    serialization: "advanced",
  });
  const told = new Map<string, (message: Report) => void>();
  const failed: ((error: Error) => void)[] = [];
  const hears = (what: string) =>
    new Promise<Report>((resolve, reject) => {
      told.set(what, resolve);
      failed.push(reject);
    });
  let errors: readonly string[] = [];
  child.on("message", (message) => {
    const { what, report } = message as { what: string; report: Report };
    errors = report.errors;
    told.get(what)?.(report);
  });
  child.on("exit", (code) => {
    const error = new Error([`process ${workerId} ended with ${code}`, ...errors].join("\n"));
    for (const reject of failed) reject(error);
  });
  const started = { child, ready: hears("ready"), served: hears("served"), report: hears("report") };
  // Whoever waits for one of these hears of the others' end too.
  for (const promise of [started.ready, started.served, started.report]) promise.catch(() => undefined);
  return started;
}

/** Goes on inserting, a batch after each look, until every process has had its share. */
async function feed({ bare }: Context, contenders: readonly Contender[]): Promise<number> {
  let fed = 0;
  let hungry = true;
  const served = Promise.all(contenders.map((one) => one.served)).finally(() => {
    hungry = false;
  });
  served.catch(() => undefined);
  while (hungry) {
    const pending = (await bare.count({ status: ["pending"] })).reduce((sum, { count }) => sum + count, 0);
    if (pending < batch) fed += (await insert(bare, ...Array.from({ length: batch }, () => ({})))).length;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await served;
  return fed;
}

async function ended({ child, report }: Contender): Promise<Report> {
  child.send("finish");
  const [told] = await Promise.all([report, once(child, "exit")]);
  return told;
}

export const contentionGroup: Group = {
  name: "contention between processes",
  cases: [
    {
      name: "no generation is claimed twice, nobody starves, no lock is heard of, nothing is left",
      needs: ["several connections"],
      run: async (ctx) => {
        const contenders = Array.from({ length: processes }, (_, i) => start(ctx, `w${i}`));
        try {
          await Promise.all(contenders.map(({ ready }) => ready));
          const fed = await feed(ctx, contenders);
          const reports = await Promise.all(contenders.map(ended));

          assert.deepEqual(
            reports.flatMap(({ errors }) => errors),
            [],
          );
          const claims = reports.flatMap(({ claimed }) => claimed);
          const keys = claims.map(({ id, generationId }) => `${id}:${generationId}`);
          assert.equal(new Set(keys).size, keys.length, "a generation was claimed twice");
          assert.equal(claims.length, fed);
          assert.deepEqual(
            reports.flatMap(({ refused }) => refused),
            [],
          );
          const counts = await ctx.bare.count({});
          assert.deepEqual(counts, [
            { queueName: "default", func: "resize", status: "completed", count: fed },
          ]);
        } finally {
          for (const { child } of contenders) child.kill("SIGKILL");
        }
      },
    },
  ],
};
