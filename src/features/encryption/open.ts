/** Puts encryption over a store that was opened, once its keys are known to be those of the database. */
import { createHmac } from "node:crypto";
import type { KeptKey, ReadEncryptionOptions } from "../../base/options/encryption.ts";
import type { FullStore } from "../store.ts";
import type { EncryptionStore } from "./contract.ts";
import { Sealer } from "./sealer.ts";
import { encryptedStore } from "./store.ts";

/**
 * @throws TypeError when a key differs from the one that has encrypted here under its id; DatabaseError. The store is closed then.
 */
export async function openEncrypted(store: FullStore, options: ReadEncryptionOptions): Promise<FullStore> {
  try {
    const sealer = new Sealer(options);
    await checkKeys(store.encryption, options.keys, sealer.first);
    return encryptedStore(store, sealer);
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function checkKeys(store: EncryptionStore, keys: readonly KeptKey[], first: KeptKey): Promise<void> {
  const kept = await store.fingerprints();
  for (const key of keys) check(key, kept.get(key.id));
  if (!kept.has(first.id)) check(first, await store.keepFingerprint(first.id, fingerprintOf(first)));
}

function check(key: KeptKey, kept: string | undefined): void {
  if (kept === undefined || kept === fingerprintOf(key)) return;
  throw new TypeError(
    `openQueue: encryption: the key ${JSON.stringify(key.id)} is not the one that has encrypted in this database under this id: ` +
      "give the key that belongs to the id, and a new key an id of its own",
  );
}

/** Tells keys apart, and tells nothing about the key. */
export const fingerprintOf = ({ key }: KeptKey): string =>
  createHmac("sha256", key).update("dbq: the fingerprint of a key").digest("hex").slice(0, 32);
