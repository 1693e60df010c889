/** Exact equality of types: assignable types that differ (`any`, a wider union, a missing readonly) are not equal. */
export type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** `same<A, B>(true)` compiles when the types are equal, `same<A, B>(false)` when they are not. Never called. */
export declare function same<A, B>(equal: Equal<A, B>): void;
