/** Reads the bodies of requests, so that no agent's can fill the memory or hold the event loop for long. */

import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { hasTooManyChunks } from "../../base/runtime/body-chunks.ts";
import { performance, setTimeout } from "../../base/runtime/timers.ts";
import { cutToLevels } from "../../base/text/levels.ts";
import { decode } from "../../base/values/codec.ts";
import { Refusal } from "./refusal.ts";

/**
 * Levels of a body that are parsed. A stored value has at most 100, and a request has three around it. Deeper levels are left out: the
 * value then still has more levels than may be stored, and fails its task, as such a result of a worker does.
 */
const mostLevels = 128;

/** Bytes of a body that is read whenever it comes: those of beats are smaller. */
const smallBody = 65_536;

/** Larger bodies of one agent that are in memory at once. The others wait. */
const mostLarge = 4;

/** The larger bodies of one agent. */
interface Large {
  reading: number;
  /** Bodies that wait for one of those to end. */
  waiting: (() => void)[];
  /** When the next one may be parsed. */
  parsed: Promise<void>;
}

export class Bodies {
  readonly #maxBody: number;
  /** By the names of the agents. */
  readonly #large = new Map<string, Large>();

  constructor(maxBody: number) {
    this.#maxBody = maxBody;
  }

  /** @throws Refusal */
  async read(request: IncomingMessage, agent: string): Promise<unknown> {
    this.#checkSize(Number(request.headers["content-length"] ?? 0));
    const chunks: Buffer[] = [];
    let size = 0;
    let large: Large | undefined;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        size += chunk.length;
        this.#checkSize(size);
        chunks.push(chunk);
        if (hasTooManyChunks(chunks.length, size))
          throw new Refusal(400, `the body of ${size} bytes so far comes in ${chunks.length} chunks`);
        if (size > smallBody) large ??= await this.#enter(agent);
      }
      return large ? await parsedInTurn(Buffer.concat(chunks), large) : parsed(Buffer.concat(chunks));
    } catch (error) {
      // The client has closed the connection, as a killed agent does: the Manager reports no error, and the answer is not sent.
      throw error instanceof Refusal ? error : new Refusal(400, "the body has no end");
    } finally {
      if (large) this.#leave(agent, large);
    }
  }

  #checkSize(bytes: number): void {
    if (bytes > this.#maxBody) throw new Refusal(413, `the body is larger than ${this.#maxBody} bytes`);
  }

  /** Resolves when one more of this agent's larger bodies may be read. */
  async #enter(agent: string): Promise<Large> {
    const own = this.#large.get(agent) ?? { reading: 0, waiting: [], parsed: Promise.resolve() };
    this.#large.set(agent, own);
    if (own.reading < mostLarge) own.reading += 1;
    else await new Promise<void>((resolve) => own.waiting.push(resolve));
    return own;
  }

  #leave(agent: string, own: Large): void {
    const next = own.waiting.shift();
    if (next) next();
    else own.reading -= 1;
    if (own.reading === 0) this.#large.delete(agent);
  }
}

/**
 * Parses the larger bodies of one agent one after another, with a pause after each as long as it took: the event loop is free for
 * other agents half of the time at least.
 * @throws Refusal
 */
async function parsedInTurn(body: Buffer, own: Large): Promise<unknown> {
  const before = own.parsed;
  let end: () => void = () => undefined;
  own.parsed = new Promise((resolve) => {
    end = resolve;
  });
  await before;
  const began = performance.now();
  try {
    return parsed(body);
  } finally {
    setTimeout(end, performance.now() - began);
  }
}

/** @throws Refusal */
function parsed(body: Buffer): unknown {
  // Bytes of another encoding would become U+FFFD, in a result too.
  if (!isUtf8(body)) throw new Refusal(400, "the body is not UTF-8");
  try {
    return decode(cutToLevels(body.toString("utf8"), mostLevels), "body");
  } catch (error) {
    // It says in which column; here it is the body.
    throw new Refusal(
      400,
      (error as Error).message.replace(/^column body: /, "the body is not the JSON of a request: "),
    );
  }
}
