// Plays outsiders: they have a creds file, the mesh's certificate and docs/wire.md, and
// nothing else of ours. Run by .ci/interop/run, which builds what they use.
//
//   node interop.mjs BCPMESH NATS TYPESCRIPT FOLDER
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const [bcpmesh, nats, typescript, folder] = process.argv.slice(2);
const run = promisify(execFile);
const office = join(folder, "office");
const env = { ...process.env, XDG_CONFIG_HOME: join(folder, "config"), HOME: folder, NATS_CONTEXT: "" };
const patience = 120_000;

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
cpSync(join(dirname(fileURLToPath(import.meta.url)), "mesh"), office, { recursive: true });

const children = new Set();
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));

// start runs a program in the background; what it says are lines of JSON.
function start(name, program, args) {
  const child = spawn(program, args, { cwd: office, env, stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  const lines = [];
  let heard = () => {};
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(JSON.parse(line));
    heard();
  });
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => {
    children.delete(child);
    resolve({ code, signal });
    heard();
  }));
  // until waits for a line, from the n-th on.
  const until = async (what, holds, from = 0) => {
    for (const end = Date.now() + patience; ; ) {
      const i = lines.findIndex((line, i) => i >= from && holds(line));
      if (i >= 0) return lines[i];
      assert(child.exitCode === null && child.signalCode === null, `${name} ended before: ${what}`);
      assert(Date.now() < end, `${name}: ${what} does not come to hold`);
      await Promise.race([new Promise((resolve) => (heard = resolve)), pause(1000)]);
    }
  };
  return { child, lines, until, ended };
}

const mesh = (...args) => run(bcpmesh, args, { cwd: office, env });
const step = (text) => console.log(`${((Date.now() - begin) / 1000).toFixed(1).padStart(6)} s  ${text}`);
const begin = Date.now();

async function up(listen) {
  const server = start("up", bcpmesh, ["up", "--listen", listen, "--tls", "--json"]);
  return { ...server, about: await server.until("it serves", (line) => line.url) };
}

async function end(server) {
  server.child.kill("SIGINT");
  assert.equal((await server.ended).code, 0, "the mesh ends in order");
}

let server = await up("127.0.0.1:0");
const { url, ca } = server.about;
const address = url.replace("tls://", "");

// The nats CLI.
for (const agent of ["main", "researcher"]) {
  const creds = join(office, `${agent}-cli.creds`);
  await mesh("creds", "issue", agent, "--out", creds, "--expires", "1h");
  await run(nats, ["context", "save", agent, "--server", url, "--creds", creds, "--tlsca", ca, "--inbox-prefix", `_INBOX.${agent}`], { cwd: office, env, timeout: patience });
}
const cli = async (context, ...args) => (await run(nats, ["--context", context, ...args], { cwd: office, env, timeout: patience })).stdout;
const ask = async (context, subject, body) => JSON.parse(await cli(context, "req", subject, JSON.stringify(body), "--raw", "--timeout", "20s"));
const push = { type: "bcp_response", subscription_id: "numbers", controller: "main", push_id: "cli-1", response: { n: 7 } };
const question = { type: "bcp_query_request", request_id: "cli-2", category: 1, fields: [{ name: "urgent", type: "boolean" }] };
writeFileSync(join(office, "answer.sh"), `printf %s "$NATS_REQUEST_BODY" |
  sed 's/.*"query_id":\\("[^"]*"\\).*/{"type":"bcp_response","query_id":\\1,"response":{"urgent":true}}/'\n`);
// serve replies until it is told to end; heard waits for what it got.
function serve(context, ...args) {
  const child = spawn(nats, ["--context", context, "reply", ...args], { cwd: office, env, stdio: ["ignore", "pipe", "ignore"] });
  children.add(child);
  let text = "", more = () => {};
  child.stdout.on("data", (chunk) => { text += chunk; more(); });
  const heard = async (pattern) => {
    for (const end = Date.now() + patience; !pattern.test(text); ) {
      assert(Date.now() < end, `nats did not hear ${pattern}: ${text}`);
      await Promise.race([new Promise((resolve) => (more = resolve)), pause(1000)]);
    }
  };
  return { child, heard };
}
const inbox = serve("main", "bcp.v1.deliver.controller.main.>", "taken");
const answers = serve("researcher", "bcp.v1.query.researcher.>", "--command", "sh answer.sh");
const pushed = await ask("researcher", "bcp.v1.push.researcher.main.numbers", push);
assert.equal(pushed.status, "delivered", JSON.stringify(pushed));
assert.deepEqual(await ask("researcher", "bcp.v1.push.researcher.main.numbers", push), pushed, "what is sent again is answered again");
const accepted = await ask("main", "bcp.v1.ask.main.researcher", question);
assert.ok(accepted.query_id, JSON.stringify(accepted));
await inbox.heard(/"response":\{"n":7\}/);
await inbox.heard(new RegExp(`"query_id":"${accepted.query_id}".*"response":\\{"urgent":true\\}`));
assert.equal((await ask("main", "bcp.v1.session.main", { verb: "close" })).error, undefined);
const refused = await ask("main", "bcp.v1.ask.main.researcher", { ...question, request_id: "cli-3", category: 3 });
assert.equal(refused.error, "category_denied");
for (const { child } of [inbox, answers]) child.kill();
step("nats: a push, an ask and its answer, as the contexts say");

// TypeScript: a thousand exchanges, while creds are renewed and revoked, and the mesh
// is started again.
const creds = { main: "main.creds", researcher: "researcher.creds" };
for (const [agent, file] of Object.entries(creds)) await mesh("creds", "issue", agent, "--out", file, "--expires", "1h");
const keyOf = async (file) => JSON.parse((await mesh("creds", file, "--json")).stdout).public_key;
const renew = async (agent) => {
  const old = await keyOf(creds[agent]);
  await mesh("creds", "issue", agent, "--out", "new.creds", "--expires", "1h");
  renameSync(join(office, "new.creds"), join(office, creds[agent]));
  await mesh("creds", "revoke", agent, "--user", old);
};
const play = (role, name, peer) => start(role, process.execPath, [join(typescript, "exchange.js"), role, "--url", url, "--ca", ca,
  "--creds", join(office, creds[name]), "--name", name, "--peer", peer, "--count", "500"]);
const controller = play("controller", "main", "researcher");
await controller.until("it is connected", (line) => line.status === "connected");
const reader = play("reader", "researcher", "main");
const arrived = (n) => controller.until(`${n} exchanges`, (line) => line.arrived >= n);

await arrived(150);
await renew("researcher");
step("renewed the Reader's creds");

await arrived(350);
await end(server);
server = await up(address);
step("ended the mesh and started it again");

await arrived(550);
await renew("main");
step("renewed the Controller's creds");

await arrived(750);
const before = reader.lines.length;
const key = await keyOf(creds.researcher);
await mesh("creds", "revoke", "researcher", "--user", key);
const revoked = Date.now();
const cut = await reader.until("it is cut off", (line) => line.status === "disconnect", before);
assert(cut.time - revoked < 1000, `cut off ${cut.time - revoked} ms after the revocation`);
await pause(1000);
assert(!reader.lines.slice(before).some((line) => line.status === "reconnect"), "revoked creds are good again");
step(`revoked the Reader's creds: it was cut off ${Math.max(0, cut.time - revoked)} ms behind the command`);
rmSync(join(office, creds.researcher));
await mesh("creds", "issue", "researcher", "--out", creds.researcher, "--expires", "1h");

const result = await controller.until("all exchanges", (line) => line.done);
assert.deepEqual(
  { answers: result.answers, pushes: result.pushes, doubled: result.doubled, wrong: result.wrong },
  { answers: 500, pushes: 500, doubled: 0, wrong: 0 },
);
assert.equal((await controller.ended).code, 0);
await reader.until("all pushes", (line) => line.done);
reader.child.kill("SIGTERM");
assert.equal((await reader.ended).code, 0);
await mesh("ledger", "reconcile");
await end(server);
step(`1,000 exchanges: none lost, none doubled, ${result.repeated} sent again`);

// The same Reader and Controller against messages that no gateway sends.
for (const role of ["reader", "controller"]) {
  const { stdout } = await mesh("conformance", role, "--json", "--", process.execPath, join(typescript, "conformance.js")).catch((err) => err);
  const report = JSON.parse(stdout || "{}");
  const others = report.checks?.filter(({ result }) => result !== "pass");
  assert(report.ok && others.length === 0, `conformance ${role}: ${JSON.stringify(others ?? "no report")}`);
}
step("conformance: the Reader and the Controller pass every check");
process.exit(0);
