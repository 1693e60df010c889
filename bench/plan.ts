/** Which measurements to make, and in which order. */
import { type Benchmark, type Contender, plain, type Synchronous, type Variant } from "./benchmark.ts";

/** The user's choices. */
export interface Wishes {
  readonly rounds: number;
  readonly tasks: number | undefined;
  readonly minutes: number | undefined;
  readonly backlog: number | undefined;
  readonly quick: boolean;
  readonly synchronous: readonly Synchronous[];
  /** Contenders by their names; undefined: all. */
  readonly contenders: readonly string[] | undefined;
  /** Parts of the variants' names; undefined: all. */
  readonly variants: readonly string[] | undefined;
}

/** One benchmark in one variant under one setting; its contenders are measured in alternation. */
export interface Setup {
  readonly benchmark: Benchmark;
  readonly variant: Variant;
  readonly synchronous: Synchronous;
  readonly contenders: readonly Contender[];
  readonly rounds: number;
}

export interface Measurement {
  readonly setup: Setup;
  readonly contender: Contender;
  readonly round: number;
}

export function setups(benchmarks: readonly Benchmark[], wishes: Wishes): Setup[] {
  return benchmarks.flatMap((benchmark) => {
    const rounds = Math.min(wishes.rounds, benchmark.rounds ?? wishes.rounds);
    const settings = benchmark.once ? wishes.synchronous.slice(0, 1) : wishes.synchronous;
    return variantsOf(benchmark, wishes).flatMap((variant) => {
      const contenders = contendersOf(benchmark, variant, wishes);
      if (contenders.length === 0) return [];
      return settings.map((synchronous) => ({ benchmark, variant, synchronous, contenders, rounds }));
    });
  });
}

function variantsOf({ variants = [plain] }: Benchmark, { quick, variants: wanted }: Wishes): Variant[] {
  return variants
    .filter((variant, i) => !quick || (variant.quick ?? i === 0))
    .filter(({ name }) => wanted?.some((part) => contains(name, part)) ?? true);
}

/** Matches whole words only: "10" does not match "100". */
function contains(name: string, part: string): boolean {
  const words = (text: string) =>
    ` ${text
      .trim()
      .split(/[\s,;]+/)
      .join(" ")} `;
  return words(name).includes(words(part));
}

function contendersOf({ contenders }: Benchmark, variant: Variant, wishes: Wishes): Contender[] {
  return contenders
    .filter((contender) => contender.fits?.(variant) ?? true)
    .filter(({ name }) => wishes.contenders?.includes(name) ?? true);
}

/** Round by round. The order of the contenders rotates, so that changes of the machine over time affect all alike. */
export function measurements(setup: Setup): Measurement[] {
  const { contenders, rounds } = setup;
  return Array.from({ length: rounds }, (_, round) => {
    const first = round % contenders.length;
    const order = [...contenders.slice(first), ...contenders.slice(0, first)];
    return order.map((contender) => ({ setup, contender, round }));
  }).flat();
}
