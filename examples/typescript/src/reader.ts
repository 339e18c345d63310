import { randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/transport-node";
import { Known, listen, request, type Received, type Spec, type Values } from "./mesh.js";

export interface Query extends Spec {
  type: "bcp_query";
  query_id: string;
  controller: string;
}

export interface Result {
  type: "bcp_validation_result";
  query_id?: string;
  subscription_id?: string;
  success: boolean;
  status: "delivered" | "held" | "refused";
  code?: string;
  detail: string;
}

// Reader answers queries, and pushes against subscriptions. It reads hostile text:
// whatever it says, the gateway lets through what fits the question.
export class Reader {
  private readonly answers = new Known<Promise<string>>(); // by query id
  private readonly told = new Known<true>(64); // reasons for refusals
  answered = 0;

  constructor(
    private readonly nc: NatsConnection,
    private readonly name: string,
    private readonly answer: (query: Query) => Promise<Values | "not_enough_information">,
  ) {}

  // start subscribes, to each subject once: of two copies of a query on one
  // connection the second one would use up the answer.
  start(): void {
    listen<Query>(this.nc, `bcp.v1.query.${this.name}.>`, "reader", this.name, (got) => this.queried(got));
    listen<Result>(this.nc, `bcp.v1.deliver.reader.${this.name}.>`, "reader", this.name, (got) => this.delivered(got));
  }

  // push sends an answer that nobody asked for.
  async push(controller: string, subscription: string, response: Values): Promise<Result> {
    const body = { type: "bcp_response", subscription_id: subscription, controller, push_id: randomUUID(), response };
    const result = await request<Result>(this.nc, `bcp.v1.push.${this.name}.${controller}.${subscription}`, body);
    this.tell(result);
    return result;
  }

  private queried({ body: query, from, id, respond }: Received<Query>): void {
    if (query.type !== "bcp_query" || query.query_id !== id || query.controller !== from) return;
    let text = this.answers.get(id); // it comes again if either side was away
    if (text === undefined) {
      text = this.asked(query);
      this.answers.set(id, text);
    }
    text.then(respond, (error: unknown) => {
      this.answers.forget(id); // nothing is answered, and the query comes again
      console.error("the handler failed:", error);
    });
  }

  // asked has the handler answer a query, once.
  private async asked(query: Query): Promise<string> {
    const response = await this.answer(query);
    const body = { type: "bcp_response", query_id: query.query_id };
    this.answered++;
    return JSON.stringify(response === "not_enough_information" ? { ...body, not_enough_information: true } : { ...body, response });
  }

  // delivered forgets an answer that was rejected: the query comes again.
  private delivered({ body, respond }: Received<Result>): void {
    if (body.type === "bcp_validation_result") {
      if (!body.success && body.query_id) this.answers.forget(body.query_id);
      this.tell(body);
    }
    respond();
  }

  // tell tells the author what was refused and why, once for each reason.
  private tell({ status, code = "", detail }: Result): void {
    const reason = `${code}: ${detail}`;
    if (status !== "refused" || this.told.get(reason)) return;
    this.told.set(reason, true);
    console.error(`refused: ${JSON.stringify(reason)}`);
  }
}
