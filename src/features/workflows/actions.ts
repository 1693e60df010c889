/** `emitEvent`, `enqueueGroup` and `enqueueChain`, on the queue's own connection or inside of an app's transaction. */
import { oneOf, readOptions } from "../../base/options/validators.ts";
import { mapMaybe } from "../../base/runtime/maybe-promise.ts";
import { registrationOf } from "../../base/tasks/registry.ts";
import { checkSize, encode } from "../../base/values/codec.ts";
import { checkEntries, checked, type Prepared, prepare } from "../../queue/enqueue.ts";
import type { WithinSettings } from "../../queue/internals.ts";
import type { Inserted, MaybePromise } from "../../store.ts";
import type { TaskId } from "../../task.ts";
import type { WorkflowWrites } from "./contract.ts";
import type { AnyEntry, Group, GroupOptions, WorkflowActions } from "./methods.ts";
import { stepName } from "./names.ts";

const groupReaders = {
  then: (value: unknown) => {
    registrationOf(value, "enqueueGroup: then");
    return value as GroupOptions["then"];
  },
  onFailure: oneOf("cancel", "continue"),
};

export class Actions implements WorkflowActions {
  readonly #store: WorkflowWrites;
  readonly #settings: WithinSettings;

  constructor(store: WorkflowWrites, settings: WithinSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  emitEvent(name: string, payload: unknown): MaybePromise<boolean> {
    const event = stepName(name, "emitEvent: name");
    const text = encode(payload, "payload") ?? "null";
    checkSize(`the payload of event ${JSON.stringify(event)}`, this.#settings.maxPayload, text);
    return this.#woken(this.#store.emit(event, text));
  }

  enqueueGroup(entries: readonly AnyEntry[], options: GroupOptions | undefined): MaybePromise<Group> {
    const { then, onFailure = "cancel" } = readOptions<Required<GroupOptions>>(
      options,
      "enqueueGroup",
      groupReaders as never,
    );
    const members = preparedEntries("enqueueGroup", entries, this.#settings.maxPayload);
    const last = then && refusingKeys(prepare(then, [], this.#settings.maxPayload), "enqueueGroup: then");
    const write = () =>
      this.#store.insertGroup({
        members: members.map(({ task }) => task),
        next: last?.task,
        cancels: onFailure === "cancel",
      });
    const all = last ? [...members, last] : members;
    const written = mapMaybe(checked(all, this.#settings.synchronous), write);
    return this.#woken(
      mapMaybe(written, (group) => ({
        id: group.id as TaskId<undefined>,
        ids: group.members.map(({ id }) => id as TaskId),
        thenId: group.nextId as TaskId | undefined,
      })),
    );
  }

  enqueueChain(entries: readonly AnyEntry[]): MaybePromise<{ ids: TaskId[] }> {
    // Each link but the first gets the result of the one before as its last argument.
    const links = preparedEntries("enqueueChain", entries, this.#settings.maxPayload, (i) => i === 0);
    const write = (): MaybePromise<Inserted[]> =>
      links.length === 0 ? [] : this.#store.insertChain(links.map(({ task }) => task));
    const written = mapMaybe(checked(links, this.#settings.synchronous), write);
    return this.#woken(mapMaybe(written, (tasks) => ({ ids: tasks.map(({ id }) => id as TaskId) })));
  }

  #woken<T>(written: MaybePromise<T>): MaybePromise<T> {
    return mapMaybe(written, (value) => {
      this.#settings.wake();
      return value;
    });
  }
}

/**
 * @param isWhole whether an entry has all arguments of its function
 * @throws TypeError unless `entries` is a list of `[function, ...args]`, and for a function with a `uniqueKey`; InvalidArgumentsError
 */
export function preparedEntries(
  owner: string,
  entries: readonly AnyEntry[],
  maxPayload: number,
  isWhole: (index: number) => boolean = () => true,
): Prepared[] {
  checkEntries(entries, owner);
  return entries.map(([fn, ...args], i) =>
    refusingKeys(prepare(fn, args, maxPayload, undefined, isWhole(i)), owner),
  );
}

/** Where another task holds the key, that task would be the member, although it was enqueued for something else. */
function refusingKeys(prepared: Prepared, owner: string): Prepared {
  const { uniqueKey, func } = prepared.task;
  if (uniqueKey !== null)
    throw new TypeError(
      `${owner}: task "${func}": a uniqueKey has no meaning here: it is ${JSON.stringify(uniqueKey)}`,
    );
  return prepared;
}
