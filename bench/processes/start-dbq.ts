/** Loads dbq, opens an existing database, and prints how many milliseconds that took. */
const start = performance.now();
const { openQueue } = await import("dbq-ts");
const queue = await openQueue(process.argv[2] as string);
process.stdout.write(String(performance.now() - start));
await queue.close();
