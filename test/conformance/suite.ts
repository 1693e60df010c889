/** All groups of cases, in the order in which to make a new store pass them. */

import { agentsGroup } from "./agents.ts";
import type { Group } from "./case.ts";
import { causesGroup } from "./causes.ts";
import { claimGroup } from "./claim.ts";
import { contentionGroup } from "./contention.ts";
import { drainsGroup } from "./drains.ts";
import { exactIdsGroup } from "./exact-ids.ts";
import { expiryGroup } from "./expiry.ts";
import { failuresGroup } from "./failures.ts";
import { farNumbersGroup } from "./far-numbers.ts";
import { healthGroup } from "./health.ts";
import { heartbeatGroup } from "./heartbeat.ts";
import { insertGroup } from "./insert.ts";
import { limitsGroup } from "./limits.ts";
import { logsGroup } from "./logs.ts";
import { lookGroup } from "./look.ts";
import { operateGroup } from "./operate.ts";
import { ownershipGroup } from "./ownership.ts";
import { promoteGroup } from "./promote.ts";
import { purgeGroup } from "./purge.ts";
import { racesGroup } from "./races.ts";
import { rawSqlGroup } from "./raw-sql.ts";
import { readGroup } from "./read.ts";
import { refusedRowsGroup } from "./refused-rows.ts";
import { restartGroup } from "./restart.ts";
import { settleGroup } from "./settle.ts";
import { statsGroup } from "./stats.ts";
import { transferGroup } from "./transfer.ts";
import { uniqueKeysGroup } from "./unique-keys.ts";
import { watchGroup } from "./watch.ts";
import { withinGroup } from "./within.ts";
import { workersGroup } from "./workers.ts";

export const suite: readonly Group[] = [
  insertGroup,
  uniqueKeysGroup,
  rawSqlGroup,
  readGroup,
  withinGroup,
  claimGroup,
  exactIdsGroup,
  farNumbersGroup,
  settleGroup,
  limitsGroup,
  ownershipGroup,
  logsGroup,
  operateGroup,
  lookGroup,
  purgeGroup,
  expiryGroup,
  promoteGroup,
  workersGroup,
  refusedRowsGroup,
  heartbeatGroup,
  restartGroup,
  agentsGroup,
  drainsGroup,
  transferGroup,
  statsGroup,
  failuresGroup,
  causesGroup,
  healthGroup,
  watchGroup,
  racesGroup,
  contentionGroup,
];

/** The groups about features. On Postgres they are full tests: `npm test` runs them on SQLite. */
export const featureGroups: readonly Group[] = [
  lookGroup,
  purgeGroup,
  logsGroup,
  restartGroup,
  agentsGroup,
  drainsGroup,
  transferGroup,
  statsGroup,
  failuresGroup,
  causesGroup,
  healthGroup,
  farNumbersGroup,
];

/** All others: what enqueues, claims, settles, limits and wakes. */
export const coreGroups: readonly Group[] = suite.filter((group) => !featureGroups.includes(group));
