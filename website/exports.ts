/** All that the API reference describes: the package, and its parts that are imported by a path of their own. */
export * from "../src/entries/otel/index.ts";
export * from "../src/features/agent.ts";
export * from "../src/features/dashboard/index.ts";
export * from "../src/features/drain/bullmq.ts";
export * from "../src/features/drain/index.ts";
export * from "../src/features/drain/redis-stream.ts";
export * from "../src/features/manager/index.ts";
export * from "../src/features/testing/index.ts";
export * from "../src/features/testing/vitest.ts";
export * from "../src/features/workflows/steps.ts";
export * from "../src/index.ts";
