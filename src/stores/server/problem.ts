/** What a driver threw, in the words of a message. */

export function describeProblem(place: string, error: Error & { code?: string }): string {
  // Several addresses that all refused come as one error without a message.
  const what = error.message || String(error instanceof AggregateError ? error.errors[0]?.message : error);
  return `${place}: ${what}${error.code === undefined || what.includes(error.code) ? "" : ` (${error.code})`}`;
}
