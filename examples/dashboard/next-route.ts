/** `app/ops/dbq/[[...path]]/route.ts` of a Next app: the dashboard is a route handler as it is. */
import { ui } from "./queue.ts";

export const GET = ui;
export const POST = ui;
