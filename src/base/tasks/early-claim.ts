/**
 * Milliseconds before its turn that a task may be claimed, by a worker that starts it at its turn. A claim on a busy server takes
 * longer than a rate of 50 a second leaves between two starts, and a start that is late by more than half a percent is not made
 * up for.
 */
export const mostEarly = 200;
