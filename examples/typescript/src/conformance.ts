// The candidate of `bcpmesh conformance`: a Reader that answers in category 1 and pushes
// once, or a Controller that asks until it is heard, as the environment says.
//
//   bcpmesh conformance reader -- node dist/conformance.js
//   bcpmesh conformance controller -- node dist/conformance.js
import { setTimeout as pause } from "node:timers/promises";
import { Controller } from "./controller.js";
import { join, type Values } from "./mesh.js";
import { Reader, type Query } from "./reader.js";

const { BCPMESH_URL: url, BCPMESH_AGENT: name, BCPMESH_READER_CREDS: reads, BCPMESH_CONTROLLER_CREDS: controls } = process.env;
const creds = reads ?? controls;
if (!url || !name || !creds) throw new Error("bcpmesh conformance starts this");
const nc = await join({ url, creds, name });

async function answer(query: Query): Promise<Values | "not_enough_information"> {
  const values: Values = {};
  for (const { name, type, min, values: words } of query.fields ?? []) {
    if (type === "boolean") values[name] = true;
    else if (type === "integer" && min !== undefined) values[name] = min;
    else if (type === "enum" && words?.[0]) values[name] = words[0];
    else return "not_enough_information";
  }
  return query.category === 1 ? values : "not_enough_information";
}

if (reads) {
  const reader = new Reader(nc, name, answer);
  reader.start();
  await reader.push("conformance", "status", { changed: true });
} else {
  const controller = new Controller(nc, name, async () => {});
  controller.start();
  for (let heard = false; !heard; ) {
    try {
      await controller.ask("conformance", { category: 1, fields: [{ name: "urgent", type: "boolean" }] });
      heard = true;
    } catch (err) {
      console.error(String(err)); // rate_limited, the first time
      await pause(2000);
    }
  }
}
