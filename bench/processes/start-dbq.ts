/** Loads dbq, opens an existing database, and prints how many milliseconds that took. */
const start = performance.now();
const { openQueue } = await import("dbq-ts");
const queue = await openQueue(process.argv[2]);
process.stdout.write(String(performance.now() - start));
await queue.close();
