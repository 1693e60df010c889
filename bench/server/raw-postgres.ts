/** What the floors do: node-postgres alone on one connection, with the tables of dbq's own migrations. */
import { openQueue } from "dbq-ts";
import pg from "pg";

export interface RawTask {
  func: string;
  args: string;
}

/** A connection to a database with dbq's tables. */
export async function openRaw(url: string): Promise<pg.Client> {
  // Opening a queue creates the tables.
  await (await openQueue(url)).close();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

/** The columns that dbq writes for a task with only a function and arguments. */
const into = `insert into dbq_tasks (func, args, priority, queue_name, max_retries, created_at, updated_at)
  select func, args, 5, 'default', 3, statement_timestamp(), statement_timestamp()`;

/** Inserts one task with its own commit. */
export async function rawInsert(client: pg.Client, { func, args }: RawTask): Promise<number> {
  const text = `${into} from (values ($1, $2::json)) as task (func, args) returning id`;
  const { rows } = await client.query({ name: "insert", text, values: [func, args], rowMode: "array" });
  return Number(rows[0]?.[0]);
}

/** The same, with a notification. */
export async function rawInsertNotifying(
  client: pg.Client,
  channel: string,
  { func, args }: RawTask,
): Promise<void> {
  const text = `with told as (select pg_notify($3, ''))
    ${into} from (values ($1, $2::json)) as task (func, args), told`;
  await client.query({ name: "insert notifying", text, values: [func, args, channel] });
}

/** Inserts many tasks in one statement. */
export async function rawInsertMany(client: pg.Client, tasks: readonly RawTask[]): Promise<number[]> {
  const text = `${into} from unnest($1::text[], $2::json[]) with ordinality as task (func, args, place) order by place
    returning id`;
  const values = [tasks.map(({ func }) => func), tasks.map(({ args }) => args)];
  const { rows } = await client.query({ name: "insert many", text, values, rowMode: "array" });
  return rows.map(([id]) => Number(id));
}

/** A claimed row, with its generation after the claim. */
export type Claimed = [id: string, generation: number, args: string];

export interface Finished {
  id: string;
  generation: number;
  result: string;
}

/** One statement that settles the finished tasks, checked by generation, and claims the next by priority and age. */
const turnText = `
  with settled as (
    update dbq_tasks t set status = 'completed', generation_id = t.generation_id + 1, result = f.result::json,
      error = null, updated_at = statement_timestamp(), finished_at = statement_timestamp()
    from unnest($1::bigint[], $2::bigint[], $3::text[]) as f (id, generation, result)
    where t.id = f.id and t.generation_id = f.generation
  ), candidates as (
    select id, generation_id from dbq_tasks
    where queue_name = 'default' and func = $4 and status = 'pending'
      and (wait_until is null or wait_until <= statement_timestamp())
    order by priority desc, (id + 0) limit $5 for update skip locked
  )
  update dbq_tasks t set status = 'running', generation_id = t.generation_id + 1, worker_id = 'floor',
    started_at = statement_timestamp(), updated_at = statement_timestamp()
  from candidates c where t.id = c.id and t.generation_id = c.generation_id
  returning t.id, t.generation_id, t.args::text`;

export async function rawTurn(
  client: pg.Client,
  func: string,
  finished: readonly Finished[],
  limit: number,
): Promise<Claimed[]> {
  const column = <K extends keyof Finished>(name: K) => finished.map((one) => one[name]);
  const values = [column("id"), column("generation"), column("result"), func, limit];
  const { rows } = await client.query<Claimed>({ name: "turn", text: turnText, values, rowMode: "array" });
  return rows;
}
