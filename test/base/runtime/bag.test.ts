/** A set for things that come and go. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { Bag } from "../../../src/base/runtime/bag.ts";

interface Thing {
  place: number;
}

test("a bag holds what a set holds after the same additions and deletions", () => {
  const step = fc.record({ add: fc.boolean(), at: fc.nat(9) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const things = Array.from({ length: 10 }, (): Thing => ({ place: -1 }));
      const [bag, set] = [new Bag<Thing>(), new Set<Thing>()];
      for (const { add, at } of steps) {
        const thing = things[at] as Thing;
        bag[add ? "add" : "delete"](thing);
        set[add ? "add" : "delete"](thing);
      }
      expect(bag.size).toBe(set.size);
      expect(new Set(bag)).toEqual(set);
      expect(things.filter((thing) => bag.has(thing))).toEqual(things.filter((thing) => set.has(thing)));
    }),
  );
});

test("what is deleted from a bag while it is read does not keep the others from being read", () => {
  const bag = new Bag<Thing>();
  for (let i = 0; i < 3; i += 1) bag.add({ place: -1 });
  let read = 0;
  for (const thing of bag) {
    bag.delete(thing);
    read += 1;
  }
  expect([read, bag.size]).toEqual([3, 0]);
});
