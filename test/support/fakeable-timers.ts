/** For tests that control time: dbq then uses the global timers, which `vi.useFakeTimers` fakes. */
import { useGlobalTimers } from "../../src/base/runtime/timers.ts";

useGlobalTimers();
