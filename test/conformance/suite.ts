/** All the cases: what every store must do, in the order in which a new store is best made to. */

import type { Group } from "./case.ts";
import { claimGroup } from "./claim.ts";
import { contentionGroup } from "./contention.ts";
import { heartbeatGroup } from "./heartbeat.ts";
import { insertGroup } from "./insert.ts";
import { lookGroup } from "./look.ts";
import { movingGroup } from "./moving.ts";
import { operateGroup } from "./operate.ts";
import { promoteGroup } from "./promote.ts";
import { purgeGroup } from "./purge.ts";
import { racesGroup } from "./races.ts";
import { rawSqlGroup } from "./raw-sql.ts";
import { restartGroup } from "./restart.ts";
import { settleGroup } from "./settle.ts";
import { standingsGroup } from "./standings.ts";
import { watchGroup } from "./watch.ts";
import { withinGroup } from "./within.ts";
import { workersGroup } from "./workers.ts";

export const suite: readonly Group[] = [
  insertGroup,
  rawSqlGroup,
  lookGroup,
  withinGroup,
  claimGroup,
  settleGroup,
  standingsGroup,
  operateGroup,
  purgeGroup,
  promoteGroup,
  workersGroup,
  heartbeatGroup,
  restartGroup,
  movingGroup,
  watchGroup,
  racesGroup,
  contentionGroup,
];
