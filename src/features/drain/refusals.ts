/** Finds the bad messages of a batch, for a target that refuses the whole batch because of one. */
import type { DrainAnswer, DrainMessage } from "./target.ts";

/**
 * Sends all messages at once. If that fails because of one of them, sends the halves, and so on, until each bad message is
 * alone. So a hundred messages with one bad one take fifteen sends, and the others arrive.
 * @param send sends all of these; if one is bad, it throws before it has sent any
 * @param isOfMessage whether an error is about one of the messages; any other one is thrown
 */
export async function isolated(
  messages: readonly DrainMessage[],
  send: (some: readonly DrainMessage[]) => Promise<void>,
  isOfMessage: (error: unknown) => Promise<boolean>,
): Promise<DrainAnswer[]> {
  if (messages.length === 0) return [];
  try {
    await send(messages);
    return messages.map(() => "sent");
  } catch (error) {
    if (!(await isOfMessage(error))) throw error;
    if (messages.length === 1) return [error as Error];
    const half = Math.ceil(messages.length / 2);
    const first = await isolated(messages.slice(0, half), send, isOfMessage);
    return [...first, ...(await isolated(messages.slice(half), send, isOfMessage))];
  }
}
