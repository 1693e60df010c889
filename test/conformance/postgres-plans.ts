/** Records the statements that a store runs on Postgres, and reads their plans, for given or for any parameters. */
import { Client, escapeLiteral } from "pg";

/** The tables that grow. */
const tables = /\bdbq_(tasks|attempts|task_logs|waits)\b/;

/** A statement that ran, and its parameters. */
export interface Asked {
  text: string;
  values: readonly unknown[];
}

/** The parts of a plan node that are read here, as EXPLAIN (FORMAT JSON) writes them. */
interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Shared Hit Blocks": number;
  "Shared Read Blocks": number;
  Plans?: PlanNode[];
}

/** What the plan of one statement reads. */
export interface Plan {
  text: string;
  /** The indexes that it uses. */
  indexes: string[];
  /** The tables that it scans sequentially. */
  scanned: string[];
  /** The number of table rows that it reads. */
  rows: number;
  /** The number of 8 KiB pages that it reads. */
  pages: number;
}

/** The statements that run on any node-postgres connection except `own` while `use` runs, each text once. */
export async function recorded(own: Client, use: () => Promise<unknown>): Promise<Asked[]> {
  const asked = new Map<string, Asked>();
  const { query } = Client.prototype;
  Client.prototype.query = function (this: Client, config: unknown, ...rest: unknown[]) {
    const { text, values = [] } = typeof config === "string" ? { text: config } : (config as Asked);
    if (this !== own) asked.set(text, { text, values });
    return Reflect.apply(query, this, [config, ...rest]);
  } as typeof query;
  try {
    await use();
  } finally {
    Client.prototype.query = query;
  }
  return [...asked.values()].filter(({ text }) => tables.test(text));
}

/** A plan for these parameters, or a generic one: Postgres makes custom plans until the generic one looks no worse. */
export type PlanMode = "force_custom_plan" | "force_generic_plan";

/** Runs the statement again and rolls it back. */
export async function planOf(client: Client, mode: PlanMode, asked: Asked): Promise<Plan> {
  await client.query(`begin; set local plan_cache_mode = ${mode}; prepare plan_of as ${asked.text}`);
  try {
    return await explained(client, "plan_of", asked);
  } finally {
    await client.query("rollback; deallocate all");
  }
}

/**
 * The plans of statements that a connection prepared and ran once before `fill`, as those of a worker that was running
 * then. Their changes are rolled back.
 */
export async function plansMadeBefore(
  client: Client,
  asked: readonly Asked[],
  fill: () => Promise<unknown>,
): Promise<Plan[]> {
  for (const [n, each] of asked.entries()) {
    await client.query(`prepare early_${n} as ${each.text}`);
    await client.query(`begin; explain execute early_${n}${given(each)}; rollback`);
  }
  await fill();
  const plans: Plan[] = [];
  for (const [n, each] of asked.entries()) {
    await client.query("begin");
    plans.push(await explained(client, `early_${n}`, each));
    await client.query("rollback");
  }
  return plans;
}

async function explained(client: Client, name: string, asked: Asked): Promise<Plan> {
  const { rows } = await client.query(
    `explain (analyze, buffers, format json) execute ${name}${given(asked)}`,
  );
  return summary(asked.text, rows[0]?.["QUERY PLAN"][0].Plan as PlanNode);
}

/** The parameters, as EXECUTE takes them. */
function given({ values }: Asked): string {
  const literals = values.map((value) => (value === null ? "null" : escapeLiteral(String(value))));
  return literals.length === 0 ? "" : `(${literals.join(", ")})`;
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

function summary(text: string, top: PlanNode): Plan {
  const nodes = nodesOf(top);
  const rowsOf = (node: PlanNode) =>
    (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"];
  const looked = nodes.filter(
    (node) => /Scan$/.test(node["Node Type"]) && tables.test(node["Relation Name"] ?? ""),
  );
  return {
    text,
    indexes: [...new Set(nodes.flatMap((node) => node["Index Name"] ?? []))].sort(),
    scanned: looked
      // The first row of a table is no scan.
      .filter((node) => node["Node Type"] === "Seq Scan" && rowsOf(node) > 1)
      .flatMap((node) => node["Relation Name"] ?? []),
    rows: looked.reduce((sum, node) => sum + rowsOf(node), 0),
    pages: top["Shared Hit Blocks"] + top["Shared Read Blocks"],
  };
}
