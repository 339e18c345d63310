// What every agent of a mesh needs: a connection, requests that may be sent again,
// and the words of docs/wire.md.
import { readFileSync, unwatchFile, watchFile } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { connect, credsAuthenticator, type Msg, type NatsConnection } from "@nats-io/transport-node";

export interface Login {
  url: string; // tls://HOST:PORT, or nats:// on the mesh's own machine
  creds: string; // the file from the operator; a new one in its place is taken at once
  ca?: string; // the mesh's own ca.pem, where it has one
  name: string; // the agent's
}

// join connects for ever: it comes back when the server does, or when the file holds
// credentials that are good again.
export async function join(login: Login): Promise<NatsConnection> {
  let creds = readFileSync(login.creds);
  const newest = () => {
    try {
      creds = readFileSync(login.creds);
    } catch {
      // It is being replaced: the last one is tried again meanwhile.
    }
    return creds;
  };
  const nc = await connect({
    servers: login.url,
    tls: login.url.startsWith("tls:") ? { caFile: login.ca } : undefined,
    authenticator: credsAuthenticator(newest),
    inboxPrefix: `_INBOX.${login.name}`, // with another one, every request times out
    maxReconnectAttempts: -1,
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: 100,
    reconnectJitterTLS: 100,
  });
  watchFile(login.creds, { interval: 200 }, (now, before) => {
    if (now.size > 0 && now.mtimeMs !== before.mtimeMs) nc.reconnect().catch(() => {});
  });
  void nc.closed().then(() => unwatchFile(login.creds));
  return nc;
}

// request asks the gateway until it answers. The body has an id of the sender's, so
// that what is sent twice counts once. Refusals that cannot pass are the caller's.
export async function request<T extends object>(nc: NatsConnection, subject: string, body: object): Promise<T> {
  const text = JSON.stringify(body);
  for (let wait = 20; ; wait = Math.min(2 * wait, 1000)) {
    try {
      const reply = (await nc.request(subject, text, { timeout: 2000 })).json<T>();
      const code = "error" in reply ? reply.error : "code" in reply ? reply.code : "";
      if (code !== "unavailable") return reply;
    } catch (err) {
      if (nc.isClosed()) throw err; // anything else is worth another try
    }
    await pause(wait);
  }
}

// Received is a message that may be answered. What its subjects say has to be what the
// body says: who sent it, and the id of what is answered.
export interface Received<T> {
  body: T; // unchecked but for being JSON
  from: string;
  id: string;
  respond(text?: string): void;
}

// listen takes what comes on subject, and drops what is not JSON or whose sender wants
// the answer elsewhere. Nothing may be thrown into the client: it would read no more.
export function listen<T>(nc: NatsConnection, subject: string, role: "controller" | "reader", name: string, take: (got: Received<T>) => void): void {
  nc.subscribe(subject, {
    callback: (err, m: Msg) => {
      if (err || !m.reply?.startsWith(`bcp.v1.reply.${role}.${name}.`)) return;
      try {
        const from = m.subject.split(".").at(-1) ?? "";
        const id = m.reply.split(".")[5] ?? "";
        take({ body: m.json<T | null>() ?? ({} as T), from, id, respond: (text) => void m.respond(text) });
      } catch (err) {
        console.error(`dropped a message on ${m.subject}: ${JSON.stringify(String(err))}`);
      }
    },
  });
}

// Known remembers the newest ids, so that what comes again is known.
export class Known<T> {
  private readonly known = new Map<string, T>();
  constructor(private readonly most = 4096) {}
  get(id: string): T | undefined {
    return this.known.get(id);
  }
  forget(id: string): void {
    this.known.delete(id);
  }
  set(id: string, value: T): void {
    this.known.delete(id);
    this.known.set(id, value);
    for (const oldest of this.known.keys()) {
      if (this.known.size <= this.most) break;
      this.known.delete(oldest);
    }
  }
}

export interface Field {
  name: string;
  type: "boolean" | "enum" | "integer";
  values?: string[];
  min?: number;
  max?: number;
}

export interface Spec {
  category: 1 | 2 | 3;
  fields?: Field[];
  questions?: { id: string; question: string; expected_format: string; max_words?: number }[];
  directive?: string;
  max_words?: number;
}

export type Values = Record<string, boolean | number | string>;
