/** Several processes on one database: tests what shows only under real contention. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { insert } from "./arrange.ts";
import type { Context, Group } from "./case.ts";
import type { Report } from "./contender.ts";

/**
 * Compiled by `test/support/compiled.ts` when it has run: under a TypeScript loader a process takes three times as long
 * to start.
 */
const compiled = join(process.env.DBQ_COMPILED ?? "", "test/conformance/contender.js");
const isCompiled = existsSync(compiled);
const contender = isCompiled ? compiled : fileURLToPath(new URL("./contender.ts", import.meta.url));
const execArgv = isCompiled ? [] : ["--import", "tsx"];
const processes = 4;
/** The number of tasks that each process must get before the test counts it as not starved. */
const share = 40;
const batch = 100;

interface Contender {
  child: ChildProcess;
  ready: Promise<unknown>;
  /** Resolves when the process has claimed its share. */
  served: Promise<unknown>;
  report: Promise<Report>;
}

function start({ kind, database }: Context, workerId: string): Contender {
  const child = fork(contender, [kind.name, database.url, workerId, String(share)], {
    execArgv,
    serialization: "advanced",
  });
  const resolvers = new Map<string, (message: Report) => void>();
  const failed: ((error: Error) => void)[] = [];
  const messageOf = (what: string) =>
    new Promise<Report>((resolve, reject) => {
      resolvers.set(what, resolve);
      failed.push(reject);
    });
  let errors: readonly string[] = [];
  child.on("message", (message) => {
    const { what, report } = message as { what: string; report: Report };
    errors = report.errors;
    resolvers.get(what)?.(report);
  });
  child.on("exit", (code) => {
    const error = new Error([`process ${workerId} ended with ${code}`, ...errors].join("\n"));
    for (const reject of failed) reject(error);
  });
  const started = {
    child,
    ready: messageOf("ready"),
    served: messageOf("served"),
    report: messageOf("report"),
  };
  // A caller that awaits one of these also gets the rejection when the process exits early.
  for (const promise of [started.ready, started.served, started.report]) promise.catch(() => undefined);
  return started;
}

/** Keeps at least one batch of tasks pending until every process has had its share; returns how many it inserted. */
async function feed({ bare }: Context, contenders: readonly Contender[]): Promise<number> {
  let inserted = 0;
  let starving = true;
  const served = Promise.all(contenders.map((one) => one.served)).finally(() => {
    starving = false;
  });
  served.catch(() => undefined);
  while (starving) {
    const pending = (await bare.count({ status: ["pending"] })).reduce((sum, { count }) => sum + count, 0);
    if (pending < batch)
      inserted += (await insert(bare, ...Array.from({ length: batch }, () => ({})))).length;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await served;
  return inserted;
}

async function finish({ child, report }: Contender): Promise<Report> {
  child.send("finish");
  const [received] = await Promise.all([report, once(child, "exit")]);
  return received;
}

export const contentionGroup: Group = {
  name: "contention between processes",
  cases: [
    {
      name: "contending processes claim each generation once, none starves, none sees a lock error, and no task is left",
      needs: ["several connections"],
      run: async (ctx) => {
        const contenders = Array.from({ length: processes }, (_, i) => start(ctx, `w${i}`));
        try {
          await Promise.all(contenders.map(({ ready }) => ready));
          const inserted = await feed(ctx, contenders);
          const reports = await Promise.all(contenders.map(finish));

          assert.deepEqual(
            reports.flatMap(({ errors }) => errors),
            [],
          );
          const claims = reports.flatMap(({ claimed }) => claimed);
          const keys = claims.map(({ id, generationId }) => `${id}:${generationId}`);
          assert.equal(new Set(keys).size, keys.length, "a generation was claimed twice");
          assert.equal(claims.length, inserted);
          assert.deepEqual(
            reports.flatMap(({ refused }) => refused),
            [],
          );
          const counts = await ctx.bare.count({});
          assert.deepEqual(counts, [
            { queueName: "default", func: "resize", status: "completed", count: inserted },
          ]);
        } finally {
          for (const { child } of contenders) child.kill("SIGKILL");
        }
      },
    },
  ],
};
