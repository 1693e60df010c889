import type { AddressInfo } from "node:net";
import { toNodeHandler } from "dbq-ts/dashboard";
import express from "express";
import { port, ui } from "./queue.ts";

const app = express();
app.use(express.json(), express.urlencoded());
app.use("/ops/dbq", toNodeHandler(ui));

const server = app.listen(port, "127.0.0.1", () =>
  console.log(`listening on http://127.0.0.1:${(server.address() as AddressInfo).port}`),
);
