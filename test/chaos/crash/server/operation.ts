/** An operation on a server, to be killed at each of its statements. */
import type { Kind } from "../../backends/backend.ts";
import type { Operation } from "../operation.ts";

export interface ServerOperation extends Operation {
  /** It starts with an empty database. */
  empty?: true;
  /** The only kind of server on which it is atomic. Default: all. */
  only?: Kind;
}
