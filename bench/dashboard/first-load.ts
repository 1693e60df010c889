/** What a browser loads for the first page. */
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import type { Benchmark, Figures, Settings } from "../benchmark.ts";

const kib = (bytes: number) => bytes / 1_024;

async function measureFirstLoad({ directory, quick }: Settings): Promise<Figures> {
  const { openQueue } = await import("dbq-ts");
  const { dashboard } = await import("dbq-ts/dashboard");
  const { fillTables } = await import("./tables.ts");
  const path = join(directory, "dbq.db");
  await fillTables(path, quick ? 2_000 : 20_000);
  await using queue = await openQueue(path);
  const ui = dashboard(queue, { authorize: () => "all" });
  const load = async (address: string) => {
    const answer = await ui(
      new Request(new URL(address, "http://localhost"), { headers: { accept: "text/html" } }),
    );
    if (answer.status !== 200) throw new Error(`${address}: ${answer.status}`);
    return await answer.text();
  };
  const html = await load("/");
  const files = [...html.matchAll(/(?:src|href)="([^"]*\/files\/[^"]+)"/g)].map(([, file]) => String(file));
  const texts = [html, ...(await Promise.all(files.map(load)))];
  await ui.close();
  const sum = (of: (text: string) => number) => kib(texts.reduce((all, text) => all + of(text), 0));
  return {
    "as it is": sum((text) => Buffer.byteLength(text)),
    gzip: sum((text) => gzipSync(text).length),
    brotli: sum((text) => brotliCompressSync(text).length),
    "gzip, the page alone": kib(gzipSync(html).length),
    files: files.length,
  };
}

export const firstLoad: Benchmark = {
  name: "dashboard-load",
  title: "What a browser loads for the dashboard's first page",
  about:
    "The overview with statistics of 60 functions, and the files that it names: the script with its charts, and the style. " +
    "Compressed as a proxy or an app's server would; the dashboard itself leaves that to them.",
  once: true,
  rounds: 1,
  figures: [
    { name: "as it is", unit: "KiB", better: "lower" },
    { name: "gzip", unit: "KiB", better: "lower", goals: [{ must: 150, aim: 60 }] },
    { name: "brotli", unit: "KiB", better: "lower" },
    { name: "gzip, the page alone", unit: "KiB", better: "lower" },
    { name: "files", unit: "", better: "lower" },
  ],
  contenders: [{ name: "dbq", measure: measureFirstLoad }],
};
