/** Calls `make` once for each key. An object or function as a key does not keep its value alive; any other key does. */
export function memoize<K, V>(make: (key: K) => V): (key: K) => V {
  const byObject = new WeakMap<object, V>();
  const byValue = new Map<K, V>();
  return (key) => {
    const isObject = typeof key === "function" || (typeof key === "object" && key !== null);
    const made = (isObject ? byObject : byValue) as Map<K, V>;
    const known = made.get(key);
    if (known !== undefined) return known;
    const value = make(key);
    made.set(key, value);
    return value;
  };
}
