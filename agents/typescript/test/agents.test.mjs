// The package against a real mesh. $BCPMESH_PROGRAM is the program bcpmesh.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Controller, MeshError, NOT_ENOUGH_INFORMATION, Reader, Refused } from "bcpmesh";

const PROGRAM = process.env.BCPMESH_PROGRAM;
const HERE = dirname(fileURLToPath(import.meta.url));
const URGENT = { category: 1, fields: [{ name: "urgent", type: "boolean" }] };
const patient = { timeoutSeconds: 60 };
const run = promisify(execFile);

const folder = mkdtempSync(join(tmpdir(), "bcpmesh-typescript-"));
const creds = (name) => join(folder, `${name}.creds`);
let mesh, url;

before(async () => {
  mkdirSync(join(folder, "agents"));
  writeFileSync(join(folder, "mesh.yaml"), "name: desk\n");
  writeFileSync(join(folder, "agents/main.md"), `---
name: main
bcp_channels:
  - peer: researcher
    role: controller
    max_category: 2
    budget_bits: 1000
    subscriptions: [{id: news, category: 1, fields: [{name: urgent, type: boolean}]}]
---
`);
  writeFileSync(join(folder, "agents/researcher.md"), "---\nname: researcher\nbcp_channels:\n  - {peer: main, role: reader, max_category: 2, budget_bits: 1000}\n---\n");
  writeFileSync(join(folder, "agents/desk.md"), `---
name: desk
kernel:
  planner: ann
  requesters: {main: [go]}
  grants: {go: [note.write]}
---
`);
  writeFileSync(join(folder, "agents/ann.md"), "---\nname: ann\n---\n");
  mkdirSync(join(folder, "tools"));
  // Nobody serves it: a call that the gate lets through ends the run as tool_unavailable.
  writeFileSync(join(folder, "tools/notes.yaml"), `service: notes
tools:
  - name: note
    effect_level: write
    required_caps: [note.write]
    timeout: 1s
    input_schema: {type: object, properties: {text: {type: string, critical: true}}}
    output_schema: {type: boolean}
`);
  writeFileSync(join(folder, "plans.json"), `[{"task": "*", "plan": {"steps": [{"kind": "tool", "id": "n", "tool": "note", "args": {"text": "hello"}}], "final": "n"}}]`);
  const ready = join(folder, "ready.json");
  mesh = spawn(PROGRAM, ["up", folder, "--listen", "127.0.0.1:0", "--ready-file", ready], { stdio: "ignore" });
  while (!existsSync(ready)) {
    assert.equal(mesh.exitCode, null, "the mesh ended");
    await pause(20);
  }
  url = JSON.parse(readFileSync(ready, "utf8")).url;
  for (const name of ["main", "researcher", "ann"]) await run(PROGRAM, ["creds", "issue", name, "--dir", folder, "--out", creds(name)]);
});

after(async () => {
  const ended = new Promise((resolve) => mesh.once("close", resolve));
  mesh.kill("SIGINT");
  await ended;
  rmSync(folder, { recursive: true });
});

const controllerOf = () => new Controller(creds("main"), { url });
const readerOf = () => new Reader(creds("researcher"), { url });

// Starts agents, does work, and stops them whatever comes of it.
async function together(agents, work) {
  try {
    for (const agent of agents) await agent.start();
    await work();
  } finally {
    for (const agent of agents) await agent.stop();
  }
}

// covers P3.9, P9.1: an answer that comes later, one that is refused and asked for again, and not knowing.
test("question and answer", async () => {
  const attempts = [];
  const reader = readerOf().onQuery(async (query) => {
    await pause(50);
    attempts.push([query.attempt, query.last_detail]);
    if (query.fields[0].name === "unknown") return NOT_ENOUGH_INFORMATION;
    return query.attempt ? { urgent: true } : { urgent: "yes, and here are my instructions" };
  });
  const controller = controllerOf();
  await together([reader, controller], async () => {
    const delivery = await controller.askAndWait("researcher", URGENT, patient);
    assert.deepEqual(delivery.response, { urgent: true });
    assert.deepEqual(attempts.map(([n]) => n), [0, 1]);
    assert.match(attempts[1][1], /urgent/);
    const unknown = await controller.askAndWait("researcher", { category: 1, fields: [{ name: "unknown", type: "boolean" }] }, patient);
    assert.equal(unknown.outcome, "not_enough_information");
    const channels = await controller.channels();
    assert.deepEqual(channels.map((c) => c.reader), ["researcher"]);
    assert.ok(channels[0].remaining_bits < 1000);
  });
});

// covers KER-106: a task may be a Reader's words until its requester says that its context is cleared.
test("a new session", async () => {
  const planner = spawn(PROGRAM, ["planner", "--creds", creds("ann"), "--url", url, "--script", join(folder, "plans.json")], { stdio: "ignore" });
  const reader = readerOf().onQuery(() => ({ urgent: true }));
  const controller = controllerOf();
  const ends = async (options) => {
    const { status, code } = await controller.runTask("desk", "go", "Write it.", { ...patient, ...options });
    return [status, code];
  };
  try {
    await together([reader, controller], async () => {
      await controller.askAndWait("researcher", URGENT, patient);
      assert.deepEqual(await ends(), ["blocked", "not_declassified"]);
      assert.deepEqual(await ends({ newSession: true }), ["errored", "tool_unavailable"]);
      await controller.askAndWait("researcher", URGENT, patient);
      assert.deepEqual(await ends(), ["blocked", "not_declassified"]);
      await controller.newSession(patient);
      assert.deepEqual(await ends(), ["errored", "tool_unavailable"]);
      await assert.rejects(ends({ forbid: [{ tool: "note", when: "no CEL" }] }), (error) => error instanceof Refused && error.code === "bad_rule");
    });
  } finally {
    planner.kill();
  }
});

// covers P9.1: a delivery whose handler rejects is handled again, and one push is one delivery.
test("push and delivery", async () => {
  const seen = [];
  let done;
  const finished = new Promise((resolve) => (done = resolve));
  const controller = controllerOf().onDelivery(async (delivery) => {
    seen.push(delivery);
    if (seen.length === 1) throw new Error("not now");
    done();
  });
  const reader = readerOf();
  await together([controller, reader], async () => {
    for (let n = 0; n < 2; n++) {
      const result = await reader.push("main", "news", { urgent: true }, { pushId: "p1", ...patient });
      assert.equal(result.status, "delivered");
    }
    await finished;
  });
  assert.equal(seen.length, 2);
  assert.deepEqual(seen[0], seen[1]);
  assert.deepEqual(seen[0].response, { urgent: true });
});

// covers P10: what is refused has its code, and a wrong call of ours is no refusal.
test("refusals", async () => {
  const controller = controllerOf(), reader = readerOf();
  await together([controller, reader], async () => {
    await assert.rejects(controller.ask("nobody", URGENT), (e) => e instanceof Refused && e.code === "no_channel");
    await assert.rejects(reader.push("main", "news", { urgent: "attacker words" }), (e) => e instanceof Refused && e.code === "validation_failed");
    await assert.rejects(controller.ask("Not A Name", URGENT), (e) => e instanceof MeshError && !(e instanceof Refused));
  });
});

test("what is wrong at the start is said", async () => {
  await assert.rejects(new Reader("x.creds", { program: "no-such-program" }).start(), /no program/);
  assert.throws(() => new Reader(), /BCPMESH_READER_CREDS/);
  await assert.rejects(new Reader("nowhere.creds").run(), /exit code 1/);
  await assert.rejects(controllerOf().ask("researcher", URGENT), /not started/);
});

// The programs of the README run as they are written there.
test("documents", async () => {
  const [reader, controller] = [...readFileSync(join(HERE, "../README.md"), "utf8").matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]);
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(join(HERE, ".."), join(folder, "node_modules/bcpmesh"));
  writeFileSync(join(folder, "reader.mjs"), reader);
  writeFileSync(join(folder, "controller.mjs"), controller);
  const answering = spawn(process.execPath, ["reader.mjs"], { cwd: folder, stdio: "ignore" });
  try {
    const { stdout } = await run(process.execPath, ["controller.mjs"], { cwd: folder });
    assert.equal(stdout, "researcher says { urgent: true }\n");
  } finally {
    answering.kill();
  }
});

// The checklist of docs/conformance.md passes for both roles.
for (const role of ["reader", "controller"]) {
  test(`conformance as ${role}`, async () => {
    const { stdout } = await run(PROGRAM, ["conformance", role, "--json", "--", process.execPath, join(HERE, "conformant.mjs"), role]).catch((e) => e);
    const { checks } = JSON.parse(stdout);
    assert.deepEqual(checks.filter((c) => c.result === "fail"), []);
    assert.ok(checks.filter((c) => c.result === "pass").length > 10);
  });
}
