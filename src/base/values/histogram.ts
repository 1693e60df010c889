/**
 * A histogram of times with fixed buckets, so that those of any two processes can be added. The buckets are those of DDSketch
 * (Masson, Rim and Lee, "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error Guarantees", PVLDB 12(12),
 * 2019, section 2): bucket i holds the values in (γ^(i-1), γ^i], and stands for 2γ^i / (γ + 1), which is off by at most
 * (γ - 1) / (γ + 1) of the value. Here γ = 2^(1/4), four buckets for each doubling, and that is 8.7 %.
 */

const perDoubling = 4;
const gamma = 2 ** (1 / perDoubling);

/** The largest relative error of a quantile, but for times below 1/16 ms (which count as 0) and above 99 days. */
export const relativeError = (gamma - 1) / (gamma + 1);

/** Bucket 0 ends at 2^-4 ms, the last one at 2^33 ms. */
const doublingsBelowOne = 4;
const last = (33 + doublingsBelowOne) * perDoubling;
export const bucketCount = last + 1;
const shortest = 2 ** -doublingsBelowOne;

/** The number of the bucket of a time in milliseconds. */
export function bucketOf(ms: number): number {
  // So written that NaN goes to the first bucket, too.
  if (!(ms > shortest)) return 0;
  const bucket = Math.ceil((Math.log2(ms) + doublingsBelowOne) * perDoubling);
  return bucket > last ? last : bucket;
}

/** The longest time in a bucket, in milliseconds. */
export const boundOf = (bucket: number): number => 2 ** (bucket / perDoubling - doublingsBelowOne);

/** The time that a bucket stands for, in milliseconds. */
export const timeOf = (bucket: number): number => (bucket === 0 ? 0 : (2 * boundOf(bucket)) / (gamma + 1));

export class Histogram {
  readonly #counts = new Float64Array(bucketCount);
  #total = 0;

  /** How many times were added. */
  get total(): number {
    return this.#total;
  }

  add(ms: number): void {
    this.#addTo(bucketOf(ms), 1);
  }

  merge(other: Histogram): this {
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      const count = other.#counts[bucket] as number;
      if (count > 0) this.#addTo(bucket, count);
    }
    return this;
  }

  /** Adds what `encode` has written. Ignores text of any other form: a corrupt row must not hide the others. */
  addEncoded(text: string): this {
    return this.#addPart(text, 0, text.length);
  }

  /** Adds several such texts, which stand one after another with a semicolon between two. */
  addEachEncoded(texts: string): this {
    for (let from = 0; from <= texts.length; ) {
      const semicolon = texts.indexOf(";", from);
      const end = semicolon < 0 ? texts.length : semicolon;
      this.#addPart(texts, from, end);
      from = end + 1;
    }
    return this;
  }

  #addPart(text: string, from: number, to: number): this {
    const length = readWhole(text, from, to);
    const numbers = length === undefined ? numbersIn(text.slice(from, to)) : scratch;
    const end = length ?? numbers.length;
    for (let i = 0; i + 1 < end; i += 2) {
      const bucket = numbers[i] as number;
      const count = numbers[i + 1] as number;
      if (Number.isInteger(bucket) && bucket >= 0 && bucket <= last && count > 0 && Number.isFinite(count))
        this.#addTo(bucket, count);
    }
    return this;
  }

  /** The buckets that are not empty, from the shortest times to the longest. */
  *buckets(): Generator<[bucket: number, count: number]> {
    for (const [bucket, count] of this.#counts.entries()) if (count > 0) yield [bucket, count];
  }

  /** The time below or at which this part (0 to 1) of the times are; undefined where there are none. */
  quantile(part: number): number | undefined {
    if (this.#total === 0) return undefined;
    let left = Math.max(1, Math.ceil(part * this.#total));
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      left -= this.#counts[bucket] as number;
      if (left <= 0) return timeOf(bucket);
    }
    return undefined;
  }

  /** As text: a JSON array of bucket numbers, each followed by its count. */
  encode(): string {
    return JSON.stringify([...this.buckets()].flat());
  }

  static decode(text: string): Histogram {
    return new Histogram().addEncoded(text);
  }

  #addTo(bucket: number, count: number): void {
    this.#counts[bucket] = (this.#counts[bucket] as number) + count;
    this.#total += count;
  }
}

/** The numbers that `readWhole` has read last. */
const scratch = new Float64Array(2 * bucketCount);

const [zero, nine, comma] = [48, 57, 44];

/**
 * Reads an array of whole numbers without spaces, as `encode` writes it, into `scratch`. A page of the dashboard reads tens of
 * thousands of them, and `JSON.parse` takes four times as long. @returns how many they are; undefined: it has another form
 */
function readWhole(text: string, from: number, to: number): number | undefined {
  const end = to - 1;
  if (end <= from || text[from] !== "[" || text[end] !== "]") return undefined;
  if (end === from + 1) return 0;
  let [length, value, digits] = [0, 0, 0];
  for (let i = from + 1; i <= end; i += 1) {
    const code = text.charCodeAt(i);
    if (code >= zero && code <= nine) {
      value = value * 10 + (code - zero);
      digits += 1;
      continue;
    }
    if (digits === 0 || digits > 15 || length === scratch.length) return undefined;
    if (code !== comma && i !== end) return undefined;
    scratch[length] = value;
    length += 1;
    [value, digits] = [0, 0];
  }
  return length;
}

function numbersIn(text: string): unknown[] {
  try {
    const parsed: unknown = JSON.parse(text);
    return Array.isArray(parsed) ? parsed : [];
  } catch {
    return [];
  }
}
