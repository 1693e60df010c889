/**
 * A URL with several hosts leads to the primary, whichever host it names first: a standby refuses writes, and what it has may
 * be old.
 */
import { expect, it, onTestFinished, vi } from "vitest";
import { openPostgres } from "../../../src/stores/postgres/store.ts";
import { openRaw } from "../../chaos/backends/backend.ts";
import { noStandby, OwnPostgres } from "../../chaos/servers/own-postgres.ts";
import { newTask } from "../../conformance/arrange.ts";
import { openedPostgres } from "../server/stores.ts";

const unable = noStandby();
const skips = unable !== undefined && process.env.DBQ_REQUIRE_ALL !== "1";
if (skips) console.log(`the standby is skipped: ${unable}`);

/** A primary, its standby that applies nothing from now on, and the URL that names the standby first. */
async function pair() {
  if (unable !== undefined) throw new Error(`cannot run here: ${unable}`);
  const primary = await OwnPostgres.start();
  onTestFinished(() => primary[Symbol.asyncDispose]());
  await (await openPostgres(primary.url, { migrate: true })).close();
  const standby = await primary.standby();
  onTestFinished(() => standby[Symbol.asyncDispose]());
  const onStandby = async (statement: string) => {
    await using raw = await openRaw(standby.url);
    await raw.all(statement);
  };
  await onStandby("select pg_wal_replay_pause()");
  const hostOf = ({ url }: OwnPostgres) => new URL(url).host;
  const url = primary.url.replace(hostOf(primary), `${hostOf(standby)},${hostOf(primary)}`);
  // Makes the first host the first to be tried.
  vi.spyOn(Math, "random").mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
  return { primary, url, onStandby };
}

it.skipIf(skips)("a read finds what was just written", { timeout: 120_000 }, async () => {
  const { primary, url } = await pair();
  const [inserted] = await (await openedPostgres(primary.url)).insert([newTask()], "report");
  const id = inserted?.id ?? 0;
  const store = await openedPostgres(url, {});
  expect(await store.get([id])).toMatchObject([{ id }]);
  expect(await (await store.reader()).get([id])).toMatchObject([{ id }]);
});

it.skipIf(skips)("a queue waits until a standby is promoted, and uses it", { timeout: 120_000 }, async () => {
  const { primary, url, onStandby } = await pair();
  const store = await openedPostgres(url);
  await primary.down("crash");
  const inserting = store.insert([newTask({ uniqueKey: "k" })], "report");
  const opening = openedPostgres(url);
  await onStandby("select pg_wal_replay_resume()");
  await onStandby("select pg_promote()");
  expect(await inserting).toMatchObject([{ duplicate: false }]);
  expect(await (await opening).list({}, 10, undefined)).toHaveLength(1);
});
