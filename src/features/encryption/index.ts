/** Encryption of what tasks carry: the option `encryption` of `openQueue`, and `queue.reencrypt()`. Its code is loaded where it is used. */
import { internalsOf } from "../../queue/internals.ts";
import type { Queue } from "../../queue/queue.ts";
import { readReencryptOptions } from "../../queue/reencrypt.ts";
import type { Feature } from "../../worker/feature.ts";

export const encryption = (queue: Queue): Feature => ({
  methods: {
    reencrypt: async (given) => {
      const options = readReencryptOptions(given);
      const { store, options: opened } = internalsOf(queue);
      if (!opened.encryption)
        throw new TypeError("reencrypt: this queue has no keys: open it with the option encryption");
      const { reencrypt } = await import("./reencrypt.ts");
      return await reencrypt(store.encryption, opened.encryption, options);
    },
  },
});
