// Agents of a bcpmesh: a Reader and a Controller with async handlers. Each starts
// `bcpmesh agent` and speaks JSON-RPC lines with it. index.d.ts has the types.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

export class MeshError extends Error {
  constructor(message) {
    super(message);
    this.name = "MeshError";
  }
}

export class Refused extends MeshError {
  constructor(code, detail, retryAfter) {
    super(`${code}: ${detail}`);
    this.name = "Refused";
    this.code = code;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }
}

export const NOT_ENOUGH_INFORMATION = Object.freeze({ not_enough_information: true });

const STOP_MILLISECONDS = 15_000;
const METHOD_NOT_FOUND = -32601;
const ENDED = "bcpmesh agent has ended";

// installed is the program of the npm package for this machine, or the one in PATH.
function installed() {
  const windows = process.platform === "win32";
  try {
    return createRequire(import.meta.url).resolve(`@bcpmesh/${process.platform}-${process.arch}/bin/bcpmesh${windows ? ".exe" : ""}`);
  } catch {
    return "bcpmesh";
  }
}

class Agent {
  #command;
  #inherited; // served on this process's own stdin and stdout
  #handlers = new Map();
  #calls = new Map(); // by id: what settles the promise
  #next = 0;
  #process;
  #ended; // resolves with the exit code when the program has ended and all was read

  constructor(variable, creds, { url, ca, encoding, program } = {}) {
    this.#inherited = creds === undefined && process.env.BCPMESH_DOOR === "stdio";
    if (creds === undefined && !this.#inherited) {
      creds = process.env[variable];
      if (!creds) throw new MeshError(`name a creds file, or set $${variable}`);
      url ??= process.env.BCPMESH_URL;
      ca ??= process.env.BCPMESH_CA;
      encoding ??= process.env.BCPMESH_ENCODING;
    }
    this.#command = [program ?? process.env.BCPMESH_PROGRAM ?? installed(), "agent", "--creds", creds ?? ""];
    for (const [flag, value] of [["--url", url], ["--ca", ca], ["--encoding", encoding]]) {
      if (value) this.#command.push(flag, value);
    }
  }

  _on(method, handler) {
    this.#handlers.set(method, handler);
    return this;
  }

  onPrompt(handler) {
    return this._on("prompt", handler);
  }

  // Calls the model of the definition, for a command that `sandbox: required` confines.
  model(request) {
    return this._call("model", { conversation: "program", request: { model: "own", ...request } });
  }

  // Gets a page of the definition's `network`, for a command that `sandbox: required` confines.
  async fetch(url) {
    const conversation = randomUUID();
    try {
      return await this._call("fetch", { conversation, ask: { url } });
    } finally {
      await this._call("end", { conversation });
    }
  }

  async start() {
    if (this.#process) throw new MeshError("started already");
    if (this.#inherited) {
      globalThis.console = new console.Console(process.stderr); // stdout is the other side's
      this.#process = { stdin: process.stdout, stdout: process.stdin, exitCode: null, signalCode: null, kill() {} };
      return this.#serve(process.stdin, 0);
    }
    const [program, ...flags] = this.#command;
    const child = spawn(program, flags, { stdio: ["pipe", "pipe", "inherit"] });
    this.#process = child;
    await new Promise((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (error) => {
        this.#process = undefined;
        reject(new MeshError(error.code === "ENOENT" ? `there is no program ${program}: install bcpmesh, or set $BCPMESH_PROGRAM` : error.message));
      });
    });
    return this.#serve(child, 1);
  }

  // serve speaks with the other side until it closes; that is an exit with the code `otherwise`, unless it has one.
  #serve(other, otherwise) {
    const child = this.#process;
    child.stdin.on("error", () => {}); // its end is heard below
    createInterface({ input: child.stdout, crlfDelay: Infinity }).on("line", (line) => this.#heard(line));
    this.#ended = new Promise((resolve) => other.once("close", () => {
      for (const call of this.#calls.values()) call.reject(new MeshError(ENDED));
      this.#calls.clear();
      resolve(child.exitCode ??= otherwise);
    }));
    return this;
  }

  async stop() {
    const child = this.#process;
    if (!child) return;
    this.#process = undefined;
    if (this.#inherited) process.stdin.destroy();
    else child.stdin.end();
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MILLISECONDS);
    await this.#ended;
    clearTimeout(timer);
  }

  async run() {
    await this.start();
    const code = await this.#ended;
    this.#process = undefined;
    if (code !== 0) throw new MeshError(`bcpmesh agent ended with exit code ${code}: its reason is on stderr`);
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.stop();
  }

  _call(method, { timeoutSeconds, ...params }) {
    const child = this.#process;
    if (!child) return Promise.reject(new MeshError("not started"));
    if (child.exitCode !== null || child.signalCode !== null) return Promise.reject(new MeshError(ENDED));
    if (timeoutSeconds !== undefined) params.timeout_seconds = Math.max(1, Math.round(timeoutSeconds));
    const id = ++this.#next;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#write({ id, method, params });
    });
  }

  #write(message) {
    const stdin = this.#process?.stdin;
    if (stdin?.writable) stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  #heard(line) {
    const message = JSON.parse(line);
    if (message.method !== undefined) {
      void this.#handle(message);
      return;
    }
    const call = this.#calls.get(message.id);
    if (!call) return;
    this.#calls.delete(message.id);
    if (message.error) call.reject(failure(message.error));
    else call.resolve(message.result);
  }

  async #handle({ method, params, id }) {
    const handler = this.#handlers.get(method);
    let reply;
    if (!handler) {
      reply = { error: { code: METHOD_NOT_FOUND, message: "no handler" } };
    } else {
      try {
        reply = { result: (await handler(params)) ?? null };
        JSON.stringify(reply);
      } catch (error) { // a handler's: nothing of it leaves this process
        console.error(`bcpmesh: a handler of ${method} failed:`, error);
        reply = { error: { code: 1, message: "the handler failed" } };
      }
    }
    if (id !== undefined) this.#write({ id, ...reply });
  }
}

// failure is the error of a call: a refusal of the gateway has its code.
function failure({ message, data }) {
  return data?.code ? new Refused(data.code, message, data.retry_after_seconds) : new MeshError(message);
}

export class Reader extends Agent {
  constructor(creds, options) {
    super("BCPMESH_READER_CREDS", creds, options);
  }

  onQuery(handler) {
    return this._on("query", handler);
  }

  onResult(handler) {
    return this._on("result", handler);
  }

  onSubscriptions(handler) {
    return this._on("subscriptions", handler);
  }

  push(controller, subscription, response, { pushId, timeoutSeconds } = {}) {
    return this._call("push", { controller, subscription_id: subscription, response, push_id: pushId, timeoutSeconds });
  }
}

export class Controller extends Agent {
  constructor(creds, options) {
    super("BCPMESH_CONTROLLER_CREDS", creds, options);
  }

  onDelivery(handler) {
    return this._on("delivery", handler);
  }

  ask(reader, spec, { justification, requestId, timeoutSeconds } = {}) {
    return this._call("ask", { target: reader, spec, justification, request_id: requestId, timeoutSeconds });
  }

  askAndWait(reader, spec, { justification, requestId, returnHeld = false, timeoutSeconds } = {}) {
    return this._call("ask_and_wait", { target: reader, spec, justification, request_id: requestId, return_held: returnHeld, timeoutSeconds });
  }

  async channels({ timeoutSeconds } = {}) {
    return (await this._call("channels", { timeoutSeconds })).channels;
  }

  async openSession({ timeoutSeconds } = {}) {
    await this._call("open", { timeoutSeconds });
  }

  async closeSession({ timeoutSeconds } = {}) {
    await this._call("close", { timeoutSeconds });
  }

  async newSession(options) {
    await this.closeSession(options);
    await this.openSession(options);
  }

  runTask(kernel, grant, task, { newSession, forbid, requestId, timeoutSeconds } = {}) {
    return this._call("run", { kernel, grant, task, new_session: newSession || undefined, forbid, request_id: requestId, timeoutSeconds });
  }

  async propose(reader, subscription, { timeoutSeconds } = {}) {
    return (await this._call("propose", { reader, subscription, timeoutSeconds })).item_id;
  }

  async reportTaint(source, { timeoutSeconds } = {}) {
    await this._call("taint", { source, timeoutSeconds });
  }
}
