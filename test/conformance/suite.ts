/** All groups of cases, in the order in which to make a new store pass them. */

import type { Group } from "./case.ts";
import { claimGroup } from "./claim.ts";
import { contentionGroup } from "./contention.ts";
import { heartbeatGroup } from "./heartbeat.ts";
import { insertGroup } from "./insert.ts";
import { logsGroup } from "./logs.ts";
import { operateGroup } from "./operate.ts";
import { ownershipGroup } from "./ownership.ts";
import { promoteGroup } from "./promote.ts";
import { purgeGroup } from "./purge.ts";
import { racesGroup } from "./races.ts";
import { rawSqlGroup } from "./raw-sql.ts";
import { readGroup } from "./read.ts";
import { restartGroup } from "./restart.ts";
import { settleGroup } from "./settle.ts";
import { transferGroup } from "./transfer.ts";
import { watchGroup } from "./watch.ts";
import { withinGroup } from "./within.ts";
import { workersGroup } from "./workers.ts";

export const suite: readonly Group[] = [
  insertGroup,
  rawSqlGroup,
  readGroup,
  withinGroup,
  claimGroup,
  settleGroup,
  ownershipGroup,
  logsGroup,
  operateGroup,
  purgeGroup,
  promoteGroup,
  workersGroup,
  heartbeatGroup,
  restartGroup,
  transferGroup,
  watchGroup,
  racesGroup,
  contentionGroup,
];
