/** Faults of the dashboard: who may do what, what leaves the server, and what is kept of what was done. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const ofAccess = (test: string) => ({ file: "test/features/dashboard/access.full.test.ts", test });
const ofActions = (test: string) => ({ file: "test/features/dashboard/actions.test.ts", test });

const ofReads = (test: string) => ({ file: "test/features/dashboard/reads.test.ts", test });

const ofAttacks = (test: string) => ({ file: "test/features/dashboard/attacks.full.test.ts", test });
const ofLive = (test: string) => ({ file: "test/features/dashboard/live.test.ts", test });
const ofRedact = (test: string) => ({ file: "test/features/dashboard/redact.test.ts", test });
const redacted = "redact shapes the failed tasks of the overview and the running ones of the workers";
const kept =
  "what was done to queues, functions, limits, schedules and many tasks is kept, and what changed nothing is not";

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
    in: "steer",
    find: "must(access, found.needs);",
    replace: "",
    caughtBy: ofActions("queues and limits > who may not pause sees no button for it, and is refused"),
  },
  {
    name: "a-group-is-paused-as-its-function",
    why: "A pause of one tenant stops all of them.",
    in: "targetOf",
    find: "[{ func: named, group }, `group ${group} of ${named}`]",
    replace: "[{ func: named }, `group ${group} of ${named}`]",
    caughtBy: ofActions(
      "queues and limits > a function and a group of it are paused and go on, and their pages say so",
    ),
  },
  {
    name: "nothing-is-redacted",
    why: "The arguments that `redact` hides are on every page.",
    in: "Desk.constructor",
    find: "own ? (task) => redacted(own, show(task)) : show",
    replace: "(task) => task",
    caughtBy: ofAccess(
      "what an answer may do > redact shapes what every page and answer shows, and an error of it shows nothing",
    ),
  },
  {
    name: "the-dashboard-forgets-the-redact-of-its-queue",
    why: "A dashboard with a `redact` of its own shows what the queue's would have hidden.",
    in: "Desk.constructor",
    find: "redacted(own, show(task))",
    replace: "redacted(own, task)",
    caughtBy: ofRedact("with a redact of its own, that one gets what the queue's has left"),
  },
  {
    name: "a-failed-redact-shows-the-task",
    why: "An error of `redact` shows what it would have hidden.",
    in: "showing",
    find: "withoutValues(task)",
    replace: "task",
    caughtBy: ofRedact(
      "an error of the queue's redact hides the values, and goes to onError without its message",
    ),
  },
  {
    name: "a-change-in-place-is-no-change",
    why: "Attempts and log lines of a task show what `redact` has hidden in place.",
    in: "redacted",
    find: "shown === copy && isDeepStrictEqual(copy, seen)",
    replace: "shown === copy",
    caughtBy: {
      file: "test/queue/shown.test.ts",
      test: "a task that redact returns as it got it is the task itself, and one that it has changed in place is not",
    },
  },
  {
    name: "the-log-of-a-worker-is-not-redacted",
    why: "The log of `dbq worker` has the errors that `redact` hides.",
    in: "printEvents",
    find: "task: show(task)",
    replace: "task",
    caughtBy: {
      file: "test/entries/cli/redact.full.test.ts",
      test: "the log of a worker, tail, and the result of enqueue --wait are without what redact hides",
    },
  },
  {
    name: "show-has-errors-of-before",
    why: "`dbq show` has the errors of earlier attempts of a task that `redact` has changed.",
    in: "show",
    find: "hidesSteps ? { ...one, error: null } : one",
    replace: "one",
    caughtBy: {
      file: "test/entries/cli/redact.full.test.ts",
      test: "what redact hides, no command shows, as text or as JSON",
    },
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
    in: "noting",
    find: "[answer, yield* look.keep(row, { ...entry, count })]",
    replace: "[answer, row]",
    caughtBy: ofActions(
      "one task > is cancelled, retried, run now, edited, enqueued again and deleted, and each answer says what was done",
    ),
  },
  {
    name: "any-name-of-the-host",
    why: "A page of another site reads the tasks by a name that it lets point to this machine.",
    in: "localDashboard",
    find: "!loopback.test(host)",
    replace: "false",
    caughtBy: ofAccess(
      "the dashboard of `dbq dashboard` > under the name 'evil.example:7421' it answers nothing, as after a DNS rebinding",
    ),
  },
  {
    name: "lists-read-all-arguments",
    why: "A page of 200 tasks with a megabyte of arguments each takes half a gigabyte of memory.",
    in: "listed",
    find: 'characters !== undefined && kindOf(table, name) === "json"',
    replace: 'characters === undefined && kindOf(table, name) === "json" && false',
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > find, edit and act on many > lists read the beginning of each long column, and its length",
    },
  },
  {
    name: "redact-is-given-half-of-a-task",
    why: "`redact` does not find the mark by which it hides arguments, since the list has read the beginning of it alone.",
    in: "redacted",
    find: "task.cut ? withoutBeginnings(task) : task",
    replace: "task",
    caughtBy: {
      file: "test/features/dashboard/lists.test.ts",
      test: "redact is given nothing of a list's task of which it cannot see all",
    },
  },
  {
    name: "the-token-is-the-cookie",
    why: "Each server on another port of this machine gets the token of the dashboard with the browser's requests.",
    in: "localDashboard",
    find: "const session = randomText();",
    replace: "const session = token;",
    caughtBy: ofAccess(
      "the dashboard of `dbq dashboard` > its cookie is a session of this port alone, and not the token; each browser has its own",
    ),
  },
  {
    name: "a-token-leads-to-another-host",
    why: "A link with the token opens a page of another site, which asks for what the dashboard would ask for.",
    in: "pathHere",
    find: 'path.replace(/^\\/+/, "")',
    replace: "path.slice(1)",
    caughtBy: ofAccess("the dashboard of `dbq dashboard` > the token at //evil.test/ leads to no other host"),
  },
  {
    name: "another-scheme-is-the-same-site",
    why: "A page that somebody on the network has put in place of the plain one acts on the dashboard behind HTTPS.",
    in: "isSameOrigin",
    find: 'origin === (expected ?? originOf(url, headers.get("host")))',
    replace: 'new URL(origin).host === new URL(expected ?? originOf(url, headers.get("host"))).host',
    caughtBy: ofAccess(
      "writes > at http://ops.example without an option, a POST with { origin: 'https://ops.example' } answers 403",
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
    in: "look",
    find: "jobs: () => [pruning]",
    replace: "jobs: () => []",
    caughtBy: ofActions("what was done is deleted by a worker after 90 days"),
  },
  {
    name: "a-loaded-page-is-as-old-as-the-open-ones",
    why: "A person pauses a queue, and the page that is loaded after that shows it as running.",
    in: "SharedReads.#read",
    find: "now - known.at < age",
    replace: "now - known.at < longest",
    caughtBy: ofReads("a page that is loaded reads anew, and an open page never goes back behind it"),
  },
  {
    name: "each-open-page-reads-for-itself",
    why: "Ten open dashboards in a worker's process take a tenth of its time.",
    in: "SharedReads.#read",
    find: "this.#known.set(key, entry);",
    replace: "",
    caughtBy: ofReads("open pages share one read of the health and of each time's statistics"),
  },
  {
    name: "a-failed-read-is-kept",
    why: "After one failure of the database open pages show nothing for ten seconds.",
    in: "SharedReads.#read",
    find: "if (this.#known.get(key) === entry) this.#known.delete(key);",
    replace: "",
    caughtBy: ofReads("a read that failed is not kept"),
  },
  {
    name: "no-rest-after-a-long-round",
    why: "Live updates of a slow database take most of the time of the worker that serves them.",
    in: "Live.#round",
    find: "Math.max(this.#interval, rest)",
    replace: "this.#interval",
    caughtBy: {
      file: "test/features/dashboard/live.test.ts",
      test: "after a round that took long the next one begins after four intervals",
    },
  },
  {
    name: "names-only-in-paths",
    why: "A queue of the name `..` cannot be paused: browsers make another address of its path.",
    in: "fieldsOf",
    find: "[formOf(new URL(request.url).search.slice(1)), ofBody]",
    replace: "[ofBody]",
    caughtBy: ofActions(
      'queues and limits > a queue, a function, a group and a schedule of the name ".." are paused and go on by their page\'s buttons',
    ),
  },
  {
    name: "a-pause-of-a-trimmed-name",
    why: "The button of the queue ` a ` pauses the queue `a`.",
    in: "pausing",
    find: "targetOf(about, nameOf(fields), groupOf(fields))",
    replace: "targetOf(about, nameOf(fields).trim(), groupOf(fields))",
    caughtBy: ofActions(
      'queues and limits > a queue, a function, a group and a schedule of the name " a " are paused and go on by their page\'s buttons',
    ),
  },
  {
    name: "any-origin",
    why: "In a browser that sends no Sec-Fetch-Site, another site acts in the name of the person.",
    in: "isSameOrigin",
    find: 'origin === (expected ?? originOf(url, headers.get("host")))',
    replace: 'origin !== ""',
    caughtBy: ofAccess("writes > a POST with { origin: 'https://evil.example' } answers 403"),
  },
  {
    name: "a-write-of-no-origin",
    why: "A request that tells neither its site nor its origin acts by a cookie alone.",
    in: "isSameOrigin",
    find: 'headers.has("authorization")',
    replace: "true",
    caughtBy: ofAccess("writes > a POST with {} answers 403"),
  },
  {
    name: "no-look-at-the-origin",
    why: "The same-origin check is right, and no request gets to it.",
    in: "Desk.#routes",
    find: 'c.req.method === "POST" && !isSameOrigin(c.req.raw, origin)',
    replace: "false",
    caughtBy: ofAccess("writes > a POST with { 'sec-fetch-site': 'same-site' } answers 403"),
  },
  {
    name: "an-endless-body",
    why: "A body without a length fills the memory of the app.",
    in: "textOf",
    find: "if (size > mostBytes) throw tooLarge;",
    replace: "",
    caughtBy: ofAttacks(
      "bodies > POST /api/tasks/bulk with more than 1 MiB is answered with 413, whether it says so before or not",
    ),
  },
  {
    name: "an-endless-address",
    why: "On a server that takes long addresses, each search is as long as the sender likes.",
    in: "Desk.#routes",
    find: "c.req.url.length > longestAddress",
    replace: "false",
    caughtBy: ofAccess(
      "addresses > an address of more than 8,192 characters is refused, and one of as many is read",
    ),
  },
  {
    name: "failed-tasks-are-not-redacted",
    why: "The overview shows the errors that `redact` hides.",
    in: "load",
    find: "failedTasks: failed.tasks.map(visible)",
    replace: "failedTasks: failed.tasks",
    caughtBy: ofAccess(redacted),
  },
  {
    name: "running-tasks-are-not-redacted",
    why: "The page of workers shows the arguments that `redact` hides.",
    in: "load",
    find: 'byWorker.get(task.workerId ?? "")?.push(visible(task));',
    replace: 'byWorker.get(task.workerId ?? "")?.push(task);',
    caughtBy: ofAccess(redacted),
  },
  {
    name: "a-mistyped-filter-is-none",
    why: "A program that deletes the tasks of one queue writes `queueName` for `queue`, and deletes all tasks.",
    in: "filterField",
    find: "if (!known) throw new BadQuery($$$any);",
    replace: "if (!known) continue;",
    caughtBy: ofAttacks(
      'an action on many tasks > with {"filter":{"queueName":"mail"}} is refused, and not taken for one on all tasks',
    ),
  },
  {
    name: "an-unknown-field-is-ignored",
    why: "A program that wants a preview writes `previw`, and deletes the tasks.",
    in: "mustKnow",
    find: "if (!names.includes(name)) throw new BadQuery($$$any);",
    replace: "",
    caughtBy: ofAttacks(
      'an action on many tasks > with {"filter":{},"previw":true} is refused, and not taken for one on all tasks',
    ),
  },
  {
    name: "an-empty-group-is-the-whole-function",
    why: "A program pauses the group of a tenant whose name it does not know yet, and pauses all tenants.",
    in: "groupOf",
    find: 'if (text !== "") return text;',
    replace: 'return text === "" ? undefined : text;',
    caughtBy: {
      file: "test/features/dashboard/query-names.test.ts",
      test: "a POST with what is not known is refused, and changes nothing: > /api/functions/pause?name=send with { group: '' }",
    },
  },
  {
    name: "an-empty-filter-is-none",
    why: "A program deletes the tasks of a function whose name it does not know yet, and deletes all tasks.",
    in: "filled",
    find: 'if (text === "") throw new BadQuery($$$any);',
    replace: "",
    caughtBy: ofAttacks(
      'an action on many tasks > with {"filter":{"func":""}} is refused, and not taken for one on all tasks',
    ),
  },
  {
    name: "a-body-of-nothing-means-all-tasks",
    why: "A program that forgets both ids and filter deletes all tasks.",
    in: "idsOf",
    find: 'throw new BadQuery("expected the ids of tasks, or a filter; {} is all tasks");',
    replace: "return undefined;",
    caughtBy: ofAttacks("an action on many tasks > with {} is refused, and not taken for one on all tasks"),
  },
  {
    name: "actions-on-many-are-not-kept",
    why: "Nobody can tell who deleted a thousand tasks.",
    in: "actOnMany",
    find: "Array.isArray(answer) ? answer.length : Number(isChanged(answer as Operated))",
    replace: "0",
    caughtBy: ofActions(kept),
  },
  {
    name: "steering-is-not-kept",
    why: "Nobody can tell who paused a queue.",
    in: "steer",
    find: "Number(isFirst)",
    replace: "0",
    caughtBy: ofActions(kept),
  },
  {
    name: "any-number-of-live-pages",
    why: "One reader makes the server render thousands of pages, again and again.",
    in: "Live.#makeRoom",
    find: "this.#topics.size >= mostTopics",
    replace: "false",
    caughtBy: ofLive("a reader who opens live pages without an end locks out nobody else"),
  },
  {
    name: "one-reader-has-all-live-pages",
    why: "One reader opens fifty live pages, and nobody else sees changes.",
    in: "endOne",
    find: "isFair && performance.now() - place.since < keptFor",
    replace: "performance.now() - place.since < keptFor",
    caughtBy: ofLive("a reader who opens live pages without an end locks out nobody else"),
  },
  {
    name: "a-place-of-whoever-has-it-longest",
    why: "A reader with one live page loses it, while another one keeps fifty.",
    in: "endOne",
    find: "counts.get(reader) === most",
    replace: "true",
    caughtBy: ofLive(
      "a reader who has all pages loses the oldest to a reader who has none, and cannot take it back",
    ),
  },
  {
    name: "a-scrape-counts-every-task",
    why: "A scrape beside a million failed tasks reads all of them.",
    in: "HealthOperations.sample",
    find: "this.#limit(most)",
    replace: "this.#limit(1e9)",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > health > a sample counts the tasks of one status by queue and function, up to a bound",
    },
  },
  {
    name: "a-reader-may-raise-a-limit-on-the-overview",
    why: "A person who may only look sees a form that the server refuses.",
    in: "RaiseLimit",
    find: "!access.may($any)",
    replace: "false",
    caughtBy: {
      file: "test/features/dashboard/stuck.test.ts",
      test: "a cause has its repair as a button, and a person who may only look sees none",
    },
  },
  {
    name: "a-raised-limit-is-the-one-that-is-used-up",
    why: "The button that raises a limit sets the same limit once more.",
    in: "raised",
    find: "roomFor(tasks, running, slotsFor(limit, facts))",
    replace: "concurrency",
    caughtBy: {
      file: "test/features/causes/causes.test.ts",
      test: "a limit is a cause when tasks have waited for it too long, and a busy healthy one is none",
    },
  },
  {
    name: "what-two-people-did-is-one-entry",
    why: "The page of what people did says that one person has done what another did.",
    in: "joined",
    find: "entry.actor === row.actor",
    replace: "true",
    caughtBy: {
      file: "test/features/dashboard/detail.test.ts",
      test: "two actions of different people, or with a pause between them, stay two entries",
    },
  },
  {
    name: "a-search-among-few-loses-its-next-page",
    why: "A page of found tasks says that it is the last one, and there are more.",
    in: "fewWithText",
    find: "isFull || read.length === fewRows ? $any : null",
    replace: "null",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > find, edit and act on many > a search among few tasks of a status looks at these alone, page by page, and finds each once",
    },
  },
  {
    name: "a-cancel-of-many-forgets-its-reason",
    why: "A person says why 500 tasks are cancelled, and none of them keeps it.",
    in: "Look.actOnAll",
    find: "actionOn(queue, kind, { reason, changes })",
    replace: "actionOn(queue, kind, { changes })",
    caughtBy: {
      file: "test/features/dashboard/actions.test.ts",
      test: "many tasks > a search in texts is counted and acted on as a whole, and cancelled tasks have the reason that was given",
    },
  },
  {
    name: "an-edit-of-many-counts-what-has-ended",
    why: "A person is told that tasks which have ended were changed.",
    in: "LookOperations.editEach",
    find: "if (operated?.changed) changed.push(id);",
    replace: "changed.push(id);",
    caughtBy: {
      file: "test/conformance/sqlite.test.ts",
      test: "'SQLite, a file' > find, edit and act on many > many are edited at once: those that wait for their start, with what else they have left as it is",
    },
  },
  {
    name: "a-reason-is-not-kept",
    why: "Somebody has paused a queue, said why, and nobody can read it.",
    in: "steer",
    find: "actor: access.actor, action, target, reason, countOf",
    replace: "actor: access.actor, action, target, reason: null, countOf",
    caughtBy: {
      file: "test/features/dashboard/operating.test.ts",
      test: "each action keeps the reason that the person gave, and the pages show it",
    },
  },
  {
    name: "a-causes-page-looks-twice",
    why: "The overview reads the health of a million tasks once for itself and once for its causes.",
    in: "SharedReads.of",
    find: "if (age === 0) own.set(key, known);",
    replace: "",
    caughtBy: ofReads("a page that is loaded has one look at the health, for its causes too"),
  },
];
