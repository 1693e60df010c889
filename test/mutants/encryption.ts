/** Seeded faults of encryption. */
import type { Mutant } from "./mutant.ts";

const onSqlite = (test: string) => ({
  file: "test/features/encryption/encryption.test.ts",
  test: `on SQLite > ${test}`,
});
const ofValue = (test: string) => ({ file: "test/features/encryption/envelope.test.ts", test });

const complete =
  "nothing that an app passes is readable in any column of any table, and all of it comes through";
const keyless =
  "a worker without the key leaves tasks alone, uncharged, and doctor says which key is missing";

export const encryptionFaults: readonly Mutant[] = [
  {
    name: "a-value-opens-in-another-row",
    why: "Whoever writes rows gives one customer's arguments to the task of another.",
    in: "resultPlace",
    find: "row: id",
    replace: "row: 0",
    caughtBy: onSqlite("a result of another task, or a changed one, is no result"),
  },
  {
    name: "arguments-fit-another-function",
    why: "Whoever writes rows has a task's arguments run by another function.",
    in: "placeOfArgs",
    find: "rowOf(row, func)",
    replace: 'rowOf(row, "")',
    caughtBy: onSqlite("arguments of another row or function, and changed ones, fail their task for good"),
  },
  {
    name: "a-value-has-several-texts",
    why: "A sealed text that somebody has changed still opens.",
    in: "bytesOf",
    find: 'base64.includes("_")',
    replace: "false",
    caughtBy: ofValue("no character of a sealed text can be another one"),
  },
  {
    name: "a-nonce-comes-twice",
    why: "Two values of one nonce tell what they have in common, and the key of the tag.",
    in: "newNonce",
    find: "nonces = nonces.subarray(nonceBytes);",
    replace: "",
    caughtBy: ofValue("each nonce is another one, and so is each text"),
  },
  {
    name: "log-lines-are-in-clear",
    why: "What a task logs about its customer is readable in a backup.",
    in: "workerOver",
    find: "claims.seals(line.id)",
    replace: "false",
    caughtBy: onSqlite(complete),
  },
  {
    name: "stacks-are-in-clear",
    why: "The stack of an error begins with its message.",
    in: "Sealer.sealAttempt",
    find: 'this.sealOrNull(attempt.errorStack, attemptPlace("stack", taskId, generationId))',
    replace: "attempt.errorStack",
    caughtBy: onSqlite(complete),
  },
  {
    name: "a-missing-key-fails-the-task",
    why: "One worker without the key fails all encrypted tasks for good.",
    in: "RunningAttempt.#unreadable",
    find: "!isA(error, KeyMissingError)",
    replace: "true",
    caughtBy: onSqlite(keyless),
    hangs: true,
  },
  {
    name: "a-missing-key-is-a-loop",
    why: "A worker without the key claims a task and hands it back, thousands of times a second.",
    in: "SetAside.among",
    find: "this.#funcs.size === 0",
    replace: "true",
    caughtBy: onSqlite(keyless),
  },
  {
    name: "a-chain-takes-any-result",
    why: "The result of another task becomes the argument of a link.",
    in: "chainToInsert",
    find: "followsCovered ? ids[i - 1] : undefined",
    replace: "undefined",
    caughtBy: onSqlite(complete),
  },
  {
    name: "a-key-is-another-one",
    why: "A process with a wrong key of a known id writes values that no other process can read.",
    in: "check",
    find: "kept === fingerprintOf(key)",
    replace: "true",
    caughtBy: onSqlite("a key of a known id that is another key is refused"),
  },
  {
    name: "a-rotation-loses-the-link",
    why: "After a rotation, the links of a chain that wait fail for good.",
    in: "RowChange.call",
    find: 'typeof known === "object" ? known.after : undefined',
    replace: "undefined",
    caughtBy: onSqlite("chains whose links wait are rotated, and give their results under the new key"),
  },
  {
    name: "a-rotation-forgets-too-early",
    why: "A key is said to be needed no more, while a value needs it.",
    in: "reencrypt",
    find: "soFar.skipped === 0",
    replace: "true",
    caughtBy: onSqlite(
      "a reencrypt that was called off goes on where it stopped, and says what it cannot read",
    ),
  },
  {
    name: "a-value-of-the-apps-looks-encrypted",
    why: "Whoever fills in an argument with the key dbq:sealed stops its function on each worker, again and again.",
    in: "keyText",
    find: "if (known !== undefined) return known;",
    replace: 'if (known !== undefined && key !== "dbq:sealed") return known;',
    caughtBy: onSqlite("a value of the app's that looks encrypted or refused is an ordinary value"),
  },
  {
    name: "a-catch-sees-a-changed-step",
    why: "Whoever writes rows chooses which way a function takes that catches the errors of its steps.",
    in: "stored",
    find: "await this.unusable(error)",
    replace: "Promise.reject(error)",
    caughtBy: onSqlite("no catch sees that a step, its error, the result of a child or an event was changed"),
  },
  {
    name: "a-refused-outcome-is-of-two-kinds",
    why: "`listFailures` names the failures of an encrypted task twice whose outcome the database refuses.",
    in: "isOwnKind",
    find: "message.startsWith(refusedOutcome)",
    replace: "false",
    caughtBy: onSqlite(
      "a result that the database refuses is not in its reason, and its failures are of one kind",
    ),
  },
  {
    name: "reencrypt-hears-no-signal",
    why: "Ctrl-C does not stop a reencrypt of a file, and all else in the process waits for it.",
    in: "reencrypt",
    find: "await new Promise((resolve) => setImmediate(resolve));",
    replace: "",
    caughtBy: {
      file: "test/features/encryption/encryption.test.ts",
      test: "a signal of the process, or a timer, can call off a reencrypt of a file",
    },
  },
];
