/** The payloads of the tasks: the same values for each contender, created before a measurement. */

/** An object of a kind that apps enqueue: nested, with strings, numbers and booleans. */
export interface Order {
  customer: { name: string; mail: string; newsletter: boolean };
  lines: { sku: string; title: string; quantity: number; price: number }[];
  note: string;
}

export type Payload = string | Order;

/** `small`: a short string. `1 KiB`: an order of 1,024 bytes of JSON. `mix`: 80 % small, 15 % of 1 KiB, 5 % of 8 KiB. */
export type PayloadKind = "small" | "1 KiB" | "mix";

/** A hundred payloads, used in rotation. */
export function payloads(kind: PayloadKind): readonly Payload[] {
  return Array.from({ length: 100 }, (_, i) => payload(sizeOf(kind, i), i));
}

function sizeOf(kind: PayloadKind, i: number): number {
  if (kind === "small") return 0;
  if (kind === "1 KiB") return 1_024;
  // 37 and 100 have no common divisor: each rank occurs once in a hundred, with the large ones spread among the others.
  const rank = (i * 37) % 100;
  if (rank < 80) return 0;
  return rank < 95 ? 1_024 : 8_192;
}

function payload(bytes: number, i: number): Payload {
  return bytes === 0 ? `document-${String(i).padStart(4, "0")}.pdf` : order(bytes, i);
}

const words = "Please leave it with the neighbours if nobody answers the door; the bell is hard to hear. ";

/** Half of its bytes are structure, half are one text. */
function order(bytes: number, i: number): Order {
  const lines = Array.from({ length: Math.floor(bytes / 140) }, (_, n) => ({
    sku: `SKU-${1_000 + n}`,
    title: `article ${n}`,
    quantity: (n % 9) + 1,
    price: 9.95 + n,
  }));
  const customer = { name: `Customer ${i}`, mail: `customer-${i}@example.com`, newsletter: i % 2 === 0 };
  const empty: Order = { customer, lines, note: "" };
  const left = bytes - JSON.stringify(empty).length;
  if (left < 0) throw new RangeError(`an order of ${bytes} bytes has no room for its lines`);
  return { ...empty, note: words.repeat(Math.ceil(left / words.length)).slice(0, left) };
}
