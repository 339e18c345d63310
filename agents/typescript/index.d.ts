/** A message of docs/wire.md. */
export type Message = Record<string, unknown>;

/** What is asked: fields in category 1, questions in 2, a directive in 3 (docs/wire.md). */
export interface Spec {
  category: 1 | 2 | 3;
  fields?: { name: string; type: "boolean" | "integer" | "enum" | "sealed"; values?: string[]; min?: number; max?: number }[];
  questions?: { id: string; question: string; max_words: number; expected_format: string; [more: string]: unknown }[];
  directive?: string;
  max_words?: number;
  [more: string]: unknown;
}

export interface Query extends Spec {
  query_id: string;
  controller: string;
  /** 0 first, and one more after each answer that was not taken. */
  attempt: number;
  /** Why the answer before was not taken. */
  last_detail?: string;
}

export interface Delivery {
  delivery_id: string;
  query_id?: string;
  subscription_id?: string;
  category: 1 | 2 | 3;
  from_agent: string;
  response?: Record<string, unknown>;
  /** Of a subscription with a batch_window. */
  batch?: { response: Record<string, unknown> }[];
  /** How a query ended without a response; "held" is not its end. */
  outcome?: string;
  bandwidth_bits: number;
  capacity_bits: number;
  taint: string;
}

export interface Result {
  query_id?: string;
  subscription_id?: string;
  success: boolean;
  status: "delivered" | "held" | "refused";
  code?: string;
  detail: string;
}

export interface Accepted {
  query_id: string;
  nominal_bits: number;
  capacity_bits: number;
  remaining_bits: number;
}

export interface Prompt {
  prompt_id: string;
  message: string;
}

/** A text to follow; or one to read and not to follow, which is fenced; or what the model said. */
export type Part = { instruction: string } | { data: { source: string; text: string } } | { said: string };

export interface ModelRequest {
  system?: Part[];
  /** The role 1 is who asks, 2 the model. */
  turns: { role: 1 | 2; parts?: Part[]; calls?: ModelCall[]; results?: { call: string; parts: Part[]; failed?: boolean }[] }[];
  tools?: { name: string; description: string; schema: Message }[];
  /** The tool that must be called. */
  force?: string;
  max_tokens?: number;
}

export interface ModelCall {
  id: string;
  name: string;
  /** JSON as the model wrote it. */
  arguments: string;
}

export interface ModelReply {
  said?: string[];
  calls?: ModelCall[];
  stop: "end" | "calls" | "length";
  usage: Message;
}

export interface Options {
  /** Of the mesh; default: that of the creds file's folder, or nats://127.0.0.1:4222. */
  url?: string;
  /** PEM file: trust its certificates alone. */
  ca?: string;
  encoding?: "json" | "msgpack";
  /** Default: $BCPMESH_PROGRAM, the one of the npm package, or the one in PATH. */
  program?: string;
}

export interface Call {
  timeoutSeconds?: number;
}

/** What a handler of queries returns that does not know (PROTOCOL P3.9). */
export const NOT_ENOUGH_INFORMATION: Readonly<{ not_enough_information: true }>;

/** The mesh did not answer, or `bcpmesh agent` has ended. */
export class MeshError extends Error {}

/** The gateway refused a call. It charged nothing. */
export class Refused extends MeshError {
  /** Of PROTOCOL.md, P10. */
  readonly code: string;
  readonly detail: string;
  /** In seconds, of a push that was rate_limited. */
  readonly retryAfter?: number;
}

declare abstract class Agent {
  /** Sets what gets the messages of the agent's cron_schedules. */
  onPrompt(handler: (prompt: Prompt) => void | Promise<void>): this;
  /** Calls the model of the definition, for a command that `sandbox: required` confines (docs/sandbox.md). */
  model(request: ModelRequest): Promise<ModelReply>;
  /** Gets a page of the definition's `network`, for a command that `sandbox: required` confines. Its bytes are base64. */
  fetch(url: string): Promise<{ url?: string; content_type?: string; bytes?: string; error?: string }>;
  /** Connects, and begins to take messages. Set the handlers before. */
  start(): Promise<this>;
  /** Takes nothing more. What was not handled stays with the gateway. */
  stop(): Promise<void>;
  /** Starts, and serves until `bcpmesh agent` ends; rejects unless it ended well. */
  run(): Promise<void>;
}

/** Answers queries and pushes against subscriptions. */
export class Reader extends Agent {
  /** Takes a creds file; without one, the creds or the streams that a mesh gives to its commands. */
  constructor(creds?: string, options?: Options);
  /** Sets what answers queries. If the handler rejects, nothing is answered. */
  onQuery(handler: (query: Query) => Message | Promise<Message>): this;
  /** Sets what hears what became of answers. */
  onResult(handler: (result: Result) => void | Promise<void>): this;
  /** Sets what gets the first list of subscriptions, and each that differs. */
  onSubscriptions(handler: (list: { subscriptions: Message[] }) => void | Promise<void>): this;
  /** Pushes, and returns what became of it. A repeat with the same pushId charges nothing more. */
  push(controller: string, subscription: string, response: Message, options?: Call & { pushId?: string }): Promise<Result>;
}

/** Asks Readers and gets what the gateway lets through. */
export class Controller extends Agent {
  constructor(creds?: string, options?: Options);
  /** Sets what handles deliveries. One whose handler rejects is handled again after a pause. */
  onDelivery(handler: (delivery: Delivery) => void | Promise<void>): this;
  /** Asks, and returns as soon as the gateway has accepted it. */
  ask(reader: string, spec: Spec, options?: Call & { justification?: string; requestId?: string }): Promise<Accepted>;
  /** Asks, and returns the delivery. */
  askAndWait(reader: string, spec: Spec, options?: Call & { justification?: string; requestId?: string; returnHeld?: boolean }): Promise<Delivery>;
  /** Returns what may be asked of whom, and what is left of each budget. */
  channels(options?: Call): Promise<Message[]>;
  /** Begins a session if none is open. An ask does so by itself. */
  openSession(options?: Call): Promise<void>;
  /** Ends the session, and cancels its open queries. */
  closeSession(options?: Call): Promise<void>;
  /** Says that this agent's context is cleared: it knows nothing of what it was told, which counts no more. */
  newSession(options?: Call): Promise<void>;
  /** Does a task with a kernel, and returns how it ended. newSession says the same as the method, and needs no channel. */
  runTask(kernel: string, grant: string, task: string,
    options?: Call & { newSession?: boolean; forbid?: { tool: string; when: string }[]; requestId?: string }): Promise<{ run_id: string; status: string; code?: string }>;
  /** Asks people for a subscription, and returns the id of the item that waits. */
  propose(reader: string, subscription: Message, options?: Call): Promise<string>;
  /** Says that this agent has read something that others may have written, such as "web". */
  reportTaint(source: string, options?: Call): Promise<void>;
}

export {};
