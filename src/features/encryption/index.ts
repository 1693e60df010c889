/** Encryption of what tasks carry: the option `encryption` of `openQueue`, and `queue.reencrypt()`. Its code is loaded where it is used. */
import { readOptions } from "../../base/options/validators.ts";
import type { CoreQueue } from "../../queue/queue.ts";
import type { Feature } from "../../worker/feature.ts";
import { walkReaders } from "../operate/bulk.ts";
import { internalsOf } from "../queue.ts";
import type { EncryptionMethods, ReencryptOptions, ReencryptProgress } from "./methods.ts";

export function encryption(queue: CoreQueue): Feature {
  const { store, options } = internalsOf(queue);
  const methods: EncryptionMethods = {
    reencrypt: async (given) => {
      const read = readOptions<ReencryptOptions>(given, "reencrypt", walkReaders<ReencryptProgress>());
      if (!options.encryption)
        throw new TypeError("reencrypt: this queue has no keys: open it with the option encryption");
      const { reencrypt } = await import("./reencrypt.ts");
      return await reencrypt(store, options.encryption, read);
    },
  };
  return { methods };
}
