/** The sidebar of the site: the pages by what a reader wants. A page's title is its first heading. */

export interface Section {
  title: string;
  /** Paths from the root of the repository, in the order in which they are read. */
  pages: readonly string[];
}

export const sections: readonly Section[] = [
  {
    title: "Start",
    pages: [
      "README.md",
      "docs/getting-started.md",
      "docs/frameworks.md",
      "docs/testing.md",
      "docs/deploying.md",
      "docs/recipes.md",
      "docs/operating.md",
      "docs/troubleshooting.md",
      "examples/README.md",
    ],
  },
  {
    title: "Use",
    pages: [
      "docs/tasks-and-retries.md",
      "docs/validation.md",
      "docs/awaiting-and-operating.md",
      "docs/uniqueness.md",
      "docs/flow-control.md",
      "docs/transactions.md",
      "docs/schedules.md",
      "docs/workflows.md",
      "docs/workers-and-shutdown.md",
      "docs/executors.md",
      "docs/managers.md",
      "docs/databases.md",
      "docs/drizzle-and-migrations.md",
      "docs/encryption.md",
      "docs/dashboard.md",
      "docs/cli.md",
      "docs/observability.md",
      "docs/failures.md",
      "docs/alerts.md",
      "docs/schema-and-raw-sql.md",
      "docs/moving.md",
      "docs/drain.md",
      "docs/performance.md",
    ],
  },
  {
    title: "Coming from",
    pages: [
      "docs/coming-from-bullmq.md",
      "docs/coming-from-dbos.md",
      "docs/coming-from-temporal.md",
      "docs/coming-from-pg-boss.md",
      "docs/coming-from-graphile-worker.md",
      "docs/coming-from-plainjob.md",
      "docs/dbq-and-others.md",
    ],
  },
  {
    title: "Inside",
    pages: ["docs/guarantees.md", "docs/architecture.md", "docs/benchmarks.md"],
  },
  {
    title: "Project",
    pages: ["CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md"],
  },
];

/** Titles of pages whose first heading says too little beside the others. */
export const titles: Readonly<Record<string, string>> = {
  "README.md": "Overview",
  "docs/coming-from-bullmq.md": "BullMQ",
  "docs/coming-from-dbos.md": "DBOS",
  "docs/coming-from-temporal.md": "Temporal",
  "docs/coming-from-pg-boss.md": "pg-boss",
  "docs/coming-from-graphile-worker.md": "Graphile Worker",
  "docs/coming-from-plainjob.md": "plainjob",
  "bench/README.md": "How benchmarks are measured",
};
