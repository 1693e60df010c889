/** Loads dbq and opens a database that exists; prints the milliseconds that this took. */
const start = performance.now();
const { openQueue } = await import("dbq-ts");
const queue = await openQueue(process.argv[2]);
process.stdout.write(String(performance.now() - start));
await queue.close();
