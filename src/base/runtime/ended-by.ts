/** Generators of events, whose readers may end them while no event comes. */

/** Calls `end` before the generator's own `return` and `throw`: those would wait until the `next` that is pending has an event. */
export function endedBy<T>(
  events: AsyncGenerator<T, void, undefined>,
  end: () => void,
): AsyncGenerator<T, void, undefined> {
  const { return: finish, throw: fail } = events;
  return Object.assign(events, {
    return: (value: void | PromiseLike<void>) => {
      end();
      return finish.call(events, value);
    },
    throw: (error: unknown) => {
      end();
      return fail.call(events, error);
    },
  });
}
