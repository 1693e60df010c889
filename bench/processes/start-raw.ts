/** The same with the driver alone. */
const start = performance.now();
const { default: Database } = await import("better-sqlite3");
const client = new Database(process.argv[2]);
client.pragma("journal_mode = wal");
client.prepare("select count(*) from dbq_workers").get();
process.stdout.write(String(performance.now() - start));
client.close();
