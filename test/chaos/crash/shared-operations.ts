/** The operations that are killed in the same way on files and on servers. */
import { enqueueing } from "./enqueueing.ts";
import { flowing } from "./flowing.ts";
import { limiting } from "./limiting.ts";
import { upkeeping } from "./maintenance.ts";
import { managing } from "./managing.ts";
import { operating } from "./operating.ts";
import type { Operation } from "./operation.ts";
import { reopening } from "./reopening.ts";
import { running } from "./running.ts";
import { scheduling } from "./scheduling.ts";

export const everywhere: readonly Operation[] = [
  ...enqueueing,
  ...running,
  ...operating,
  ...upkeeping,
  ...managing,
  ...reopening,
  ...scheduling,
  ...limiting,
  ...flowing,
];
