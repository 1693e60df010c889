/** The same with plainjob. */
const start = performance.now();
const { openPlainjob } = await import("../peers/plainjob.ts");
const queue = openPlainjob(process.argv[2] ?? "", "normal");
process.stdout.write(String(performance.now() - start));
queue.close();
