/** One encrypted value: known answers, and that whatever is changed about it is refused. */
import { createSecretKey } from "node:crypto";
import { expect, test } from "vitest";
import { open, seal } from "../../../src/features/encryption/envelope.ts";

const bytes = Uint8Array.from({ length: 32 }, (_, i) => i);
const key = { id: "2026-11", key: createSecretKey(bytes) };
const keys = new Map([[key.id, key]]);
const place = { column: "dbq_tasks.result", row: 41 };
const nonce = Uint8Array.from({ length: 12 }, (_, i) => 255 - i);
const known = '{"dbq:sealed":"1:2026-11://79/Pv6+fj39vX0Dcxs7JpSSb1F/d+Im+PopRUDQ6hjdCWCKqlZAHem3w=="}';

const opened = (text: string, at = place, among = keys) => open(text, among, at);

test("a value, a key, a place and a nonce give a known text, which opens again", () => {
  const sealed = seal('{"card":"4111"}', key, place, undefined, nonce);
  expect(sealed).toBe(known);
  expect(opened(sealed)).toEqual({ text: '{"card":"4111"}', keyId: "2026-11", after: undefined });
});

test("each nonce is another one, and so is each text", () => {
  const texts = new Set(Array.from({ length: 1_000 }, () => seal("[]", key, place).slice(25, 41)));
  expect(texts.size).toBe(1_000);
});

test("a sealed text is JSON, whatever it was made from", () => {
  for (const text of ["[]", '"ü\\u0000"', `"${"x".repeat(100_000)}"`, ""]) {
    const sealed = seal(text, key, place);
    expect(Object.keys(JSON.parse(sealed))).toEqual(["dbq:sealed"]);
    expect(opened(sealed)).toMatchObject({ text });
  }
});

test("a text that is not sealed is no such text, and one of an unknown key is missing its key", () => {
  for (const text of ["[]", "null", '"dbq:sealed"', '{"a":1}']) expect(opened(text)).toBeUndefined();
  expect(opened(known, place, new Map())).toBe("missing");
});

test("a value opens in no other column, row, or with another key of its id", () => {
  expect(opened(known, { ...place, row: 42 })).toBe("broken");
  expect(opened(known, { ...place, column: "dbq_tasks.args" })).toBe("broken");
  const other = { id: key.id, key: createSecretKey(Uint8Array.from(bytes).fill(9, 0, 1)) };
  expect(opened(known, place, new Map([[key.id, other]]))).toBe("broken");
});

test("the task that a value names cannot be taken away, added or changed", () => {
  const named = seal("[]", key, place, 40);
  expect(opened(named)).toMatchObject({ text: "[]", after: 40 });
  expect(opened(named.replace(":40:", ":39:"))).toBe("broken");
  expect(opened(named.replace(":40:", ":"))).toBe("broken");
  expect(opened(known.replace("2026-11:", "2026-11:7:"))).toBe("broken");
});

test("no character of a sealed text can be another one", () => {
  const sealed = seal('[1,"two"]', key, place, 40, nonce);
  const keysOfBoth = new Map([...keys, ["2026-12", { ...key, id: "2026-12" }]]);
  for (let i = 15; i < sealed.length - 2; i += 1)
    for (const other of ["A", "0", "-", "_", "=", ":", "+", "1", "2"]) {
      if (sealed[i] === other) continue;
      const changed = sealed.slice(0, i) + other + sealed.slice(i + 1);
      const found = open(changed, keysOfBoth, place);
      expect(typeof found, changed).not.toBe("object");
    }
});

test("no bit of the data can flip, and no part can be missing or added", () => {
  const data = Buffer.from(known.slice(25, -2), "base64");
  const withData = (bytes: Uint8Array) =>
    opened(`{"dbq:sealed":"1:2026-11:${Buffer.from(bytes).toString("base64")}"}`);
  for (let bit = 0; bit < data.length * 8; bit += 1) {
    const flipped = Buffer.from(data);
    flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
    expect(withData(flipped)).toBe("broken");
  }
  for (let length = 0; length < data.length; length += 1)
    expect(withData(data.subarray(0, length))).toBe("broken");
  expect(withData(Buffer.concat([data, Buffer.from([0])]))).toBe("broken");
});
