/**
 * Kinds of failures of encrypted tasks. Their ids are made with the key, so that nobody without it can try messages until one has the
 * id; their messages are encrypted.
 */
import {
  type FailureKind,
  failureKindOf,
  failureKindOfTask,
  otherFailures,
  refusedOutcome,
} from "../../base/values/failure-kind.ts";
import { errorOf } from "../../base/values/records.ts";
import { type AttemptRecord, crashName } from "../../store.ts";
import type { FailureStore } from "../failures/contract.ts";
import type { Place } from "./envelope.ts";
import type { Sealer } from "./sealer.ts";

/** A kind counts under many minutes, and is the same in each. */
export const messagePlace = (id: string): Place => ({ column: "dbq_failures.message", row: id });

/**
 * What dbq itself says of an attempt is no secret, and the store, which has no key, makes such kinds, too. The reason of a database
 * that refuses an outcome is none either: what it has seen of that is encrypted.
 */
const isOwnKind = ({ id, func, errorName, message }: FailureKind): boolean =>
  errorName === crashName || message.startsWith(refusedOutcome) || id === otherFailures(func).id;

const sealedId = (sealer: Sealer, kind: FailureKind): string =>
  isOwnKind(kind) || !sealer.covers(kind.func) ? kind.id : sealer.digest(kind.id);

/** The id of the kind of a failure that is in clear; null: the attempt did not fail. */
export function sealedKindOf(
  sealer: Sealer,
  func: string,
  error: string,
  attempt: AttemptRecord | undefined,
): string | null {
  const kind = attempt ? failureKindOf(func, attempt) : failureKindOfTask(func, errorOf(error));
  return kind ? sealedId(sealer, kind) : null;
}

export function encryptedFailures(inner: FailureStore, sealer: Sealer): FailureStore {
  return {
    ...inner,
    add: (counted) =>
      inner.add(
        counted.map((one) => {
          const id = sealedId(sealer, one);
          return id === one.id ? one : { ...one, id, message: sealer.seal(one.message, messagePlace(id)) };
        }),
      ),
    known: async (ids) =>
      (await inner.known(ids)).map((one) => ({ ...one, message: readableMessage(sealer, one) })),
  };
}

/** It may have been encrypted with a key that is not there any more. */
function readableMessage(sealer: Sealer, { id, message }: FailureKind): string {
  const opened = sealer.opened(message, messagePlace(id));
  if (opened === undefined) return message;
  return typeof opened === "object" ? opened.text : "(encrypted)";
}
