/** The option `encryption`, and keys of the environment: what is refused, and that no error shows a key. */
import { expect, test } from "vitest";
import { encryptionFrom } from "../../../src/base/options/encryption.ts";
import { readQueueOptions } from "../../../src/base/options/options.ts";

const key = new Uint8Array(32).fill(7);
const read = (encryption: unknown) => readQueueOptions({ encryption }).encryption;

test("keys are copied, and all functions are covered by default", () => {
  const given = Buffer.from(key);
  const options = read({ keys: [{ id: "2026-11", key: given }] });
  given.fill(0);
  expect(options?.keys[0]?.key.export()).toEqual(Buffer.from(key));
  expect(options).toMatchObject({ required: false });
  expect(options?.functions).toBeUndefined();
});

test.each([
  [{}, "encryption: expected keys"],
  [{ keys: [] }, "encryption: keys: expected an array of at least one key"],
  [{ keys: "abc" }, "encryption: keys: expected an array"],
  [{ keys: [{ id: "a" }] }, "encryption: keys[0]: expected both id and key"],
  [{ keys: [{ id: "a b", key }] }, "encryption: keys[0]: id: expected 1 to 64 letters"],
  [{ keys: [{ id: "a:b", key }] }, "encryption: keys[0]: id: expected 1 to 64 letters"],
  [{ keys: [{ id: "a", key: key.subarray(1) }] }, "keys[0]: key: expected 32 bytes for AES-256, got 31"],
  [{ keys: [{ id: "a", key: "my secret password" }] }, "got a string: decode it first"],
  [
    {
      keys: [
        { id: "a", key },
        { id: "a", key },
      ],
    },
    'two keys have the id "a"',
  ],
  [{ keys: [{ id: "a", key }], required: 1 }, "encryption: required: expected true or false"],
  [{ keys: [{ id: "a", key }], functions: [""] }, "encryption: functions"],
  [{ keys: [{ id: "a", key }], algorithm: "rot13" }, 'there is no option "algorithm"'],
])("%j is refused by name", (given, message) => {
  expect(() => read(given)).toThrow(TypeError);
  expect(() => read(given)).toThrow(message);
});

test("an error never shows what was given as a key", () => {
  expect(() => read({ keys: [{ id: "a", key: "my secret password" }] })).not.toThrow(/secret/);
  expect(() => encryptionFrom({ DBQ_ENCRYPTION_KEYS: "a:c2VjcmV0" })).not.toThrow(/c2VjcmV0/);
});

test("the environment names keys, the one that encrypts first", () => {
  const base64 = Buffer.from(key).toString("base64");
  const found = encryptionFrom({ DBQ_ENCRYPTION_KEYS: ` new:${base64}, old:${base64}` });
  expect(found?.keys.map(({ id }) => id)).toEqual(["new", "old"]);
  expect(found?.keys[1]?.key).toEqual(Buffer.from(key));
  for (const none of [undefined, "", " "])
    expect(encryptionFrom({ DBQ_ENCRYPTION_KEYS: none })).toBeUndefined();
  for (const wrong of ["abc", "a:", `${base64}`, `a:${base64},`, `a:${base64.slice(4)}`])
    expect(() => encryptionFrom({ DBQ_ENCRYPTION_KEYS: wrong }), wrong).toThrow(
      /^DBQ_ENCRYPTION_KEYS: key \d/,
    );
});
