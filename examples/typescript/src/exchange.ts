// A script of exchanges between a Reader and a Controller that counts what arrives:
//
//   node dist/exchange.js reader     --url … --creds … [--ca …] --name researcher --peer main --count 500
//   node dist/exchange.js controller --url … --creds … [--ca …] --name main --peer researcher --count 500
//
// The Controller asks count queries, each of which can only be answered with its own
// number, and the Reader pushes count numbers against the subscription "numbers".
// Both say on stdout, a JSON object a line, how far they are. The Controller ends
// when it has everything, with what was lost and what came twice; the Reader goes on
// until it is told to end.
import { parseArgs } from "node:util";
import { Controller, type Delivery } from "./controller.js";
import { join } from "./mesh.js";
import { Reader } from "./reader.js";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string" },
    creds: { type: "string" },
    ca: { type: "string" },
    name: { type: "string" },
    peer: { type: "string" },
    count: { type: "string", default: "500" },
  },
});
const { url, creds, ca, name, peer } = values;
const count = Number(values.count);
if (!url || !creds || !name || !peer || !Number.isInteger(count)) throw new Error("--url, --creds, --name and --peer are required");

const nc = await join({ url, creds, ca, name });
const say = (event: object) => console.log(JSON.stringify({ time: Date.now(), ...event }));
void (async () => {
  for await (const s of nc.status()) say({ status: s.type });
})();
say({ status: "connected" });

// inTurn runs work for each number, at most width at a time.
async function inTurn(width: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    while (next < count) await work(next++);
  }));
}

if (positionals[0] === "reader") {
  const reader = new Reader(nc, name, async (query) => {
    const field = query.fields?.[0];
    if (field?.type !== "integer" || field.min === undefined) return "not_enough_information";
    return { [field.name]: field.min };
  });
  reader.start();
  process.once("SIGTERM", () => void nc.drain());
  let pushed = 0;
  await inTurn(4, async (n) => {
    const result = await reader.push(peer, "numbers", { n });
    if (!result.success) throw new Error(`push ${n}: ${result.code} ${result.detail}`);
    pushed++;
    if (pushed % 50 === 0) say({ pushed, answered: reader.answered });
  });
  say({ pushed, answered: reader.answered, done: true });
  await nc.closed();
} else {
  const asked = new Map<string, number>(); // number by query id
  const early: Delivery[] = []; // before the ask's own reply
  const answers = new Map<number, number>(), pushes = new Map<number, number>(); // how often
  const wrong: Delivery[] = [];
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const one = (counts: Map<number, number>, n: number) => {
    counts.set(n, (counts.get(n) ?? 0) + 1);
    const arrived = answers.size + pushes.size;
    if (arrived % 50 === 0) say({ arrived });
    if (arrived === 2 * count) finish();
  };
  const take = (delivery: Delivery) => {
    const n = delivery.response?.n;
    if (delivery.subscription_id === "numbers" && typeof n === "number") return one(pushes, n);
    const want = asked.get(delivery.query_id ?? "");
    if (want === undefined) early.push(delivery);
    else if (n === want) one(answers, n);
    else wrong.push(delivery);
  };
  const controller = new Controller(nc, name, async (delivery) => take(delivery));
  controller.start();
  await inTurn(4, async (n) => {
    const accepted = await controller.ask(peer, { category: 1, fields: [{ name: "n", type: "integer", min: n, max: n + 1 }] });
    asked.set(accepted.query_id, n);
    for (const delivery of early.splice(0)) take(delivery);
  });
  await finished;
  await nc.flush();
  const twice = (counts: Map<number, number>) => [...counts.values()].filter((times) => times > 1).length;
  say({
    answers: answers.size, pushes: pushes.size, doubled: twice(answers) + twice(pushes), wrong: wrong.length + early.length,
    repeated: controller.repeated, done: true,
  });
  await nc.drain();
}
