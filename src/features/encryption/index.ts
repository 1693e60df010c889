/** Encryption of what tasks carry: the option `encryption` of `openQueue`, and `queue.reencrypt()`. Its code is loaded where it is used. */
import { callable, integer, readOptions, signal } from "../../base/options/validators.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { internalsOf } from "../queue.ts";
import type { EncryptionMethods, ReencryptOptions } from "./methods.ts";

export function encryption(queue: CoreQueue): Feature {
  const { store, options } = internalsOf(queue);
  const methods: EncryptionMethods = {
    reencrypt: async (given) => {
      const read = readReencryptOptions(given);
      if (!options.encryption)
        throw new TypeError("reencrypt: this queue has no keys: open it with the option encryption");
      const { reencrypt } = await import("./reencrypt.ts");
      return await reencrypt(store, options.encryption, read);
    },
  };
  return { methods };
}

/** @throws TypeError */
const readReencryptOptions = (given: unknown): ReencryptOptions =>
  readOptions<ReencryptOptions>(given, "reencrypt", {
    signal,
    onProgress: callable<NonNullable<ReencryptOptions["onProgress"]>>,
    limit: integer(1),
  });
