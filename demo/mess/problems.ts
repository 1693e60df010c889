/** The ten problems that the demo makes: each with the cause that shows it, and its repair. */
import type { Cause } from "../../src/index.ts";

interface Problem {
  /** How the key of its cause begins. */
  key: string;
  what: string;
  repair: string;
}

export const problems: readonly Problem[] = [
  {
    key: "paused:queueName:mail",
    what: "somebody has paused the queue mail, and forgotten it",
    repair: "resume it",
  },
  {
    key: "limited:func:chargeCard",
    what: "the rate of chargeCard is used up: 10 in a minute, for hundreds of tasks",
    repair: "raise its limit",
  },
  {
    key: "unserved:default:makeThumbnail",
    what: "no worker runs the function makeThumbnail",
    repair: "start a worker that registers it, or cancel its tasks",
  },
  {
    key: "failing:sendInvoice",
    what: "three of four attempts of sendInvoice fail, for six reasons",
    repair: "pause it, repair each reason, resume it, and retry that kind of failure",
  },
  {
    key: "hung:",
    what: "the task of importFeed for supplier-7 hangs",
    repair: "cancel it, and give importFeed a timeout",
  },
  {
    key: "frozen:",
    what: "the process of the warehouse's worker is stopped",
    repair: "find the process on its host, and kill it: another worker then frees its tasks",
  },
  {
    key: "crashing:func:convertVideo",
    what: "convertVideo ends the process of each worker that runs it",
    repair: "pause it",
  },
  {
    key: "piling:stock report",
    what: "the schedule stock report makes tasks faster than they end",
    repair: "pause the schedule, or let it skip a time while its last task runs",
  },
  {
    key: "behind:search",
    what: "the queue search grows faster than its one worker works",
    repair: "start more workers for it",
  },
  {
    key: "starved:search:priority:1",
    what: "rebuildIndex has a low priority, and never has its turn in the queue search",
    repair: "give the task a higher priority",
  },
];

/** The problems that these causes name. */
export function shownIn(causes: readonly Cause[]): Problem[] {
  return problems.filter(({ key }) => causes.some((cause) => cause.key.startsWith(key)));
}
