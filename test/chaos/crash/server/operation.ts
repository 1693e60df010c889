/** An operation on a server, to be killed at each of its statements. */
import type { Kind } from "../../place/place.ts";
import type { Operation } from "../operation.ts";

export interface ServerOperation extends Operation {
  /** It begins with nothing at all. */
  empty?: true;
  /** Where it is whole or not at all. Default: on each server. */
  only?: Kind;
}
