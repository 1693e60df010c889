/** Faults of the dashboard: who may do what, what leaves the server, and what is kept of what was done. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const ofAccess = (test: string) => ({ file: "test/features/dashboard/access.test.ts", test });
const ofActions = (test: string) => ({ file: "test/features/dashboard/actions.test.ts", test });

export const dashboardFaults: readonly Mutant[] = [
  {
    name: "a-dashboard-without-authorize-is-open",
    why: "An app mounts the dashboard and forgets to say who may see it: everyone may.",
    in: "Desk.#accessOf",
    find: "authorize && Access.of(await authorize(c.req.raw))",
    replace: 'Access.of(authorize ? await authorize(c.req.raw) : "read")',
    caughtBy: ofAccess(
      "closed by default > without authorize every address answers 403, files and live updates included",
    ),
  },
  {
    name: "a-form-of-another-site-is-taken",
    why: "A page that an admin opens in another tab deletes the tasks of the queue.",
    in: "isSameOrigin",
    find: 'site === "same-origin"',
    replace: "true",
    caughtBy: ofAccess("writes > a POST with { 'sec-fetch-site': 'cross-site' } answers 403"),
  },
  {
    name: "who-may-look-may-act",
    why: "A person who may only read cancels tasks by a request of their own.",
    in: "actOnTask",
    find: "must(access, known.needs);",
    replace: "",
    caughtBy: ofAccess("writes > cancel needs its own permission"),
  },
  {
    name: "anyone-pauses-a-function",
    why: "A person who may only read stops a function in all processes.",
    in: "pauseOrResume",
    find: "must(access, action);",
    replace: "",
    caughtBy: ofActions("queues and limits > who may not pause sees no button for it, and is refused"),
  },
  {
    name: "a-group-is-paused-as-its-function",
    why: "A pause of one tenant stops all of them.",
    in: "targetOf",
    find: 'if (ofGroup === "") return [{ func: named }, `function ${named}`];',
    replace: "return [{ func: named }, `function ${named}`];",
    caughtBy: ofActions(
      "queues and limits > a function and a group of it are paused and go on, and their pages say so",
    ),
  },
  {
    name: "nothing-is-redacted",
    why: "The arguments that `redact` hides are on every page.",
    in: "Desk.#contextOf",
    find: "this.#options.redact ?? ((task: Task) => task)",
    replace: "(task: Task) => task",
    caughtBy: ofAccess(
      "what an answer may do > redact shapes what every page and answer shows, and an error of it shows nothing",
    ),
  },
  {
    name: "an-error-page-shows-the-message",
    why: "The message of an error of `redact` has what `redact` would have left out.",
    in: "Desk.#failed",
    find: '"this did not work: the app\'s log has the reason"',
    replace: "String(error)",
    caughtBy: ofAccess(
      "what an answer may do > redact shapes what every page and answer shows, and an error of it shows nothing",
    ),
  },
  {
    name: "an-action-is-not-kept",
    why: "Nobody can tell who cancelled a task.",
    in: "actOnTask",
    find: "await look.note($$$any);",
    replace: "",
    caughtBy: ofActions(
      "one task > is cancelled, retried, run now, edited, enqueued again and deleted, and each answer says what was done",
    ),
  },
  {
    name: "any-name-of-the-host",
    why: "A page of another site reads the tasks by a name that it lets point to this machine.",
    in: "localDashboard",
    find: '!loopback.test(request.headers.get("host") ?? "")',
    replace: "false",
    caughtBy: ofAccess(
      "the dashboard of `dbq dashboard` > under the name 'evil.example:7421' it answers nothing, as after a DNS rebinding",
    ),
  },
  {
    name: "any-token-of-the-right-length",
    why: "Another user of this machine opens the dashboard with a made-up token.",
    in: "isSame",
    find: "a.length === b.length && timingSafeEqual(a, b)",
    replace: "a.length === b.length",
    caughtBy: ofAccess(
      "the dashboard of `dbq dashboard` > the guessed token 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' is refused",
    ),
  },
  {
    name: "young-actions-are-deleted",
    why: "Who did what is gone after an hour.",
    in: "lookStatements",
    find: "`where at < ${before(d, p)}`",
    replace: "`where at <= ${d.now(p)}`",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > find, edit and act on many > old actions are deleted, the oldest first, and younger ones stay",
    },
  },
  {
    name: "actions-are-kept-for-ever",
    why: "The table of what people did in the dashboard grows as long as the app runs.",
    in: "maintenanceOf",
    find: "[auditPruning(store.look), limitPruning(store.limits)]",
    replace: "[limitPruning(store.limits)]",
    caughtBy: ofActions("what was done is deleted by a worker after 90 days"),
  },
];
