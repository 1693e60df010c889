/** `Manager`: lets agents on other machines run the tasks of a queue, without access to its database. */
import { EventEmitter } from "node:events";
import type { AddressInfo } from "node:net";
import { createSecureContext } from "node:tls";
import type { Duration } from "../../base/options/durations.ts";
import { duration, integer, type Reader, readOptions, wrong } from "../../base/options/validators.ts";
import { repeat } from "../../base/runtime/timers.ts";
import { guarded, report as reportToChannel, rescuedChannel } from "../../events.ts";
import type { Crash } from "../../store.ts";
import type { Task } from "../../task.ts";
import { watchForWork } from "../../worker/change-listener.ts";
import { crashedTask, publishCrashes } from "../../worker/events.ts";
import { openMeter } from "../../worker/feature.ts";
import { Lifecycle } from "../../worker/lifecycle.ts";
import { maintenanceOf } from "../../worker/maintenance.ts";
import { meterOutcome } from "../../worker/meter.ts";
import { type FullInternals, internalsOf, type Queue } from "../queue.ts";
import { Desk } from "./desk.ts";
import { Http, type HttpOptions } from "./http.ts";
import { listening, type Place, placeOf } from "./listening.ts";
import { Tokens } from "./tokens.ts";

/** Options of `new Manager`. */
export interface ManagerOptions {
  /**
   * Where it listens: `host:port`, or `unix:` and a path. Port 0 is any free port. Without `tls` only a unix socket or an
   * address of this machine alone, such as 127.0.0.1.
   * @default "127.0.0.1:7420"
   */
  listen?: string;
  /** The certificate and the key, in PEM format. */
  tls?: { cert: string | Buffer; key: string | Buffer };
  /** How long after an agent's last sign of life its tasks run elsewhere; from 1 s to 1 day. @default "15s" */
  lease?: Duration;
  /** Bytes of a request's body; above it, the answer is 413. @default 4_194_304 (4 MiB) */
  maxBody?: number;
  /** Connections of agents at once; above it, the answer is 429. @default 1000 */
  maxConnections?: number;
  /** Sessions that one agent may have at once: processes with its token. Above it, the answer is 429. @default 100 */
  maxSessions?: number;
  /** Tasks that one claim may ask for; above it, the answer is 429. @default 1000 */
  maxSlots?: number;
  /**
   * Bytes of the tasks in the answer to one claim, or one task if that is larger. The others stay in the queue.
   * @default 8_388_608 (8 MiB)
   */
  maxAnswer?: number;
  /** How often it looks for tasks without a wake-up, from 10 ms to 1 min. @default "1s" */
  pollInterval?: Duration;
}

/** The events of a Manager. */
export interface ManagerEvents {
  /** The tasks of a dead agent or worker were freed. */
  rescued: [dead: { workerId: string; tasks: number }];
  /** A task of a dead agent or worker has failed for good: its last attempt ended with that. */
  failed: [task: Task];
  /** The same of a task that runs again. */
  retrying: [task: Task];
  /** An error that no caller can receive. Without a listener it goes to `dbq:error`, or is a process warning. */
  error: [error: unknown, where: string];
}

type Tls = NonNullable<ManagerOptions["tls"]>;

const tlsOf: Reader<Tls> = (value, name) => {
  const text: Reader<string | Buffer> = (given, of) => {
    if (typeof given === "string" || Buffer.isBuffer(given)) return given;
    throw wrong(of, "PEM text or a Buffer", given);
  };
  const { cert, key } = readOptions<Tls>(value, name, { cert: text, key: text });
  if (cert === undefined || key === undefined) throw new TypeError(`${name}: both cert and key are needed`);
  const check = (given: Partial<Tls>, what: string) => {
    try {
      createSecureContext(given);
    } catch (error) {
      // The reason is the last part of OpenSSL's message.
      const reason = (error as Error).message.split(":").at(-1);
      throw new TypeError(`${name}: ${what} cannot be used: ${reason}`, { cause: error });
    }
  };
  check({ cert }, "the certificate (PEM)");
  check({ cert, key }, "the private key (PEM) of the certificate");
  return { cert, key };
};

/** Whether only this machine can reach the address. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);

interface ReadOptions extends Omit<HttpOptions, "tls"> {
  listen: Place;
  tls?: Tls;
  lease: number;
  maxAnswer: number;
  pollInterval: number;
}

function readManagerOptions(given: unknown): ReadOptions {
  const read: ReadOptions = {
    listen: { host: "127.0.0.1", port: 7420 },
    lease: 15_000,
    maxBody: 4 * 1_048_576,
    maxConnections: 1_000,
    maxSessions: 100,
    maxSlots: 1_000,
    maxAnswer: 8 * 1_048_576,
    pollInterval: 1_000,
    ...readOptions<ReadOptions>(given, "new Manager", {
      listen: placeOf,
      tls: tlsOf,
      lease: duration({ min: 1_000, max: 24 * 3_600_000 }),
      maxBody: integer(1_024),
      maxConnections: integer(1, 1_000_000),
      maxSessions: integer(1, 100_000),
      maxSlots: integer(1, 100_000),
      maxAnswer: integer(1_024),
      pollInterval: duration({ min: 10, max: 60_000 }),
    }),
  };
  if (!read.tls && "host" in read.listen && !isLoopback(read.listen.host))
    throw new TypeError(
      `new Manager: listen: without tls, tokens and arguments cross the network in clear: listen on 127.0.0.1 or a unix socket, ` +
        `or give tls; got ${read.listen.host}`,
    );
  return read;
}

/** Milliseconds that requests under way get to finish when the Manager stops; also the limit of each other step of a stop. */
const closeMs = 5_000;

/**
 * Claims and settles for agents over HTTP. Any number of Managers may serve one database: they need not know of each other.
 * Run `addAgent` for each agent first.
 */
export class Manager extends EventEmitter<ManagerEvents> {
  readonly #queue: Queue;
  readonly #internals: FullInternals;
  readonly #options: ReadOptions;
  /** Undefined while it is stopped. */
  #http: Http | undefined;
  readonly #lifecycle = new Lifecycle({
    of: "the Manager",
    finalMs: closeMs,
    report: (error, where) => this.#report(error, where),
  });

  /** @throws TypeError for a wrong option, or an address that others can reach without `tls` */
  constructor(queue: Queue, options?: ManagerOptions) {
    super();
    this.#queue = queue;
    this.#internals = internalsOf(queue);
    this.#options = readManagerOptions(options);
  }

  /** Where agents reach it, such as `https://127.0.0.1:7420`; undefined while it is stopped. */
  get url(): string | undefined {
    const address = this.#http?.server.address();
    if (typeof address === "string") return `unix:${address}`;
    if (!address) return undefined;
    const { address: host, port, family } = address as AddressInfo;
    return `${this.#options.tls ? "https" : "http"}://${family === "IPv6" ? `[${host}]` : host}:${port}`;
  }

  /** Resolves when it accepts requests. @throws Error when the address cannot be used; QueueClosedError */
  start(): Promise<void> {
    return this.#lifecycle.start(() => this.#start());
  }

  /**
   * Answers the claims that wait, finishes the requests under way, and closes. What agents run goes on: they settle it with
   * another Manager, or with this one when it is back within the lease.
   */
  stop(): Promise<void> {
    return this.#lifecycle.stop(closeMs);
  }

  async #start(): Promise<void> {
    this.#internals.checkOpen();
    const report = (error: unknown, where: string) => this.#report(error, where);
    const { store, wakeups, beforeClose } = this.#internals;
    const { tls, ...limits } = this.#options;
    const onRescued = (workerId: string, tasks: number) => {
      rescuedChannel.publish({ workerId, tasks });
      this.emit("rescued", { workerId, tasks });
    };
    const onCrashes = (crashes: readonly Crash[]) => {
      publishCrashes(crashes, meter);
      for (const crash of crashes)
        guarded("a listener of the Manager", () =>
          this.emit(crash.outcome.kind === "failed" ? "failed" : "retrying", crashedTask(crash)),
        );
    };
    const desk = new Desk(this.#internals, limits, {
      report,
      onRescued,
      onCrashes,
      onScheduled: () => maintenance.lookForDue(),
      ended: (...attempt) => meterOutcome(meter, ...attempt),
    });
    const identity = { workerId: desk.name, lease: limits.lease };
    const meter = openMeter(this.#queue, { workerId: desk.name, report });
    const maintenance = maintenanceOf(this.#queue, { ...identity, onRescued, onCrashes, report });
    const tokens = new Tokens(store.agents, (tokenHash) => desk.release(tokenHash));
    const http = new Http({ ...limits, tls }, tokens, desk, report);
    const stop = () => this.stop();
    const forget = () => {
      this.#http = undefined;
    };
    beforeClose.add(stop);
    this.#lifecycle.onStop(
      forget,
      () => meter.close(),
      () => beforeClose.delete(stop),
      repeat(limits.pollInterval, () => maintenance.lookForDue(), { keepAlive: false }),
      watchForWork(store, () => maintenance.lookAround()),
      wakeups.onWorkAdded((later) => {
        if (later) maintenance.lookForDue();
      }),
      () => maintenance.stop(),
      () => desk.close(),
    );
    this.#http = http;
    await listening(http.server, this.#options.listen);
    this.#lifecycle.runs({
      stopClaiming: () => desk.quiet(),
      drained: () => http.close(),
      interrupt: () => http.destroy(),
      abandon: () => undefined,
    });
    http.server.on("error", (error) => report(error, "listening for agents"));
    maintenance.start();
  }

  #report(error: unknown, where: string): void {
    if (this.listenerCount("error") > 0) this.emit("error", error, where);
    else reportToChannel(error, where);
  }
}
