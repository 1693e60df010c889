/**
 * Invariant: when the file is deleted, renamed or replaced under its queues, nothing more is claimed or acknowledged
 * from it. Enqueues are refused and workers report errors that say what to do, `dbq worker` exits with a failure, and
 * no process touches the file that is now at the path, not even by closing.
 */

import { proves } from "./scenario-test.ts";
import { replaced } from "./scenarios/replaced.ts";

proves(replaced);
