/** Faults of archives: tasks that are missing in them, or that an import writes wrongly. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of sources, in which these stand.
import type { Mutant } from "./mutant.ts";

const archive = (test: string) => ({ file: "test/features/archive/archive.test.ts", test });

export const archiveFaults: readonly Mutant[] = [
  {
    name: "import-forgets-keys",
    why: "After an import, a task of the same key runs again within the time for which the key was to be held.",
    in: "ArchiveOperations.add",
    find: "uniqueKey !== null && until !== null",
    replace: "false",
    caughtBy: archive(
      "an imported task holds its unique key for the rest of its time, unless another task holds the key",
    ),
  },
  {
    name: "archive-of-a-task-that-began-anew",
    why: "An archive has a task with the attempts of one run and the status of the next.",
    in: "ArchiveOperations.read",
    find: "generations.get(Number(task.id)) === Number(task.generation_id)",
    replace: "true",
    caughtBy: archive("a task that ends after the begin of an export is not in it"),
  },
  {
    name: "archive-takes-unfinished-tasks",
    why: "An import writes a pending task, which a worker runs, although it ran elsewhere.",
    in: "fromLine",
    find: "if (!(finishedStatuses as readonly unknown[]).includes(task.status)) refuse(`the status is ${show(task.status)}: an archive holds finished tasks only`);",
    replace: "",
    caughtBy: archive("a wrong line is refused by its number, and no line of its batch is written"),
  },
  {
    name: "archive-skips-another-task",
    why: "A task of the archive is lost without a word, since another one has its id.",
    in: "addNew",
    find: "other.func !== func || other.createdAt !== createdAt",
    replace: "false",
    caughtBy: archive("an id of another task is refused, in the database and in the archive"),
  },
  {
    name: "archive-import-holds-keys",
    why: "An imported task holds a unique key, so that no new task gets it.",
    in: "ArchiveOperations.#toInsert",
    find: "unique_until: null, ",
    replace: "",
    caughtBy: archive(
      "an export has the finished tasks that match, by id, and each JSON text as it is stored",
    ),
  },
];
