import { randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/transport-node";
import { Known, listen, request, type Received, type Spec, type Values } from "./mesh.js";

export interface Accepted {
  query_id: string;
  nominal_bits: number;
  capacity_bits: number;
  remaining_bits: number;
}

export interface Refusal {
  error: string;
  detail: string;
}

export interface Delivery {
  type: "bcp_response_delivery";
  delivery_id: string;
  query_id?: string;
  subscription_id?: string;
  category: 1 | 2 | 3;
  from_agent: string;
  response?: Values;
  batch?: { response: Values }[]; // of a subscription with a batch_window
  outcome?: string; // where there is no response, and for "held", which is not the end
  bandwidth_bits: number;
  capacity_bits: number;
  taint: string;
  channel_mode: "bcp";
}

// Prompt comes by cron_schedules of the agent's definition.
export interface Prompt {
  type: "bcp_prompt";
  prompt_id: string;
  message: string;
}

// Controller asks Readers, and gets what the gateway let through: data, and never an
// instruction.
export class Controller {
  private readonly had = new Known<Promise<void>>(); // by delivery id
  repeated = 0;

  constructor(
    private readonly nc: NatsConnection,
    private readonly name: string,
    private readonly onDelivery: (delivery: Delivery) => Promise<void>,
  ) {}

  start(): void {
    listen<Delivery | Prompt>(this.nc, `bcp.v1.deliver.controller.${this.name}.>`, "controller", this.name, (got) => this.delivered(got));
  }

  // ask returns at once; what the Reader answers is a delivery with the query's id.
  async ask(reader: string, spec: Spec): Promise<Accepted> {
    const body = { type: "bcp_query_request", request_id: randomUUID(), ...spec };
    const reply = await request<Accepted | Refusal>(this.nc, `bcp.v1.ask.${this.name}.${reader}`, body);
    if ("error" in reply) throw new Error(`${reply.error}: ${reply.detail}`);
    return reply;
  }

  // delivered takes a delivery once, and acknowledges it each time that it comes.
  private delivered({ body, from, id, respond }: Received<Delivery | Prompt>): void {
    if (body.type === "bcp_response_delivery") {
      if (body.delivery_id !== id || body.from_agent !== from) return;
      let handled = this.had.get(id);
      if (handled) {
        this.repeated++;
      } else {
        handled = this.onDelivery(body);
        this.had.set(id, handled);
      }
      handled.then(() => respond(), (error: unknown) => {
        this.had.forget(id); // it comes again
        console.error("the handler failed:", error);
      });
      return;
    } else if (body.type !== "bcp_prompt" || body.prompt_id !== id || from !== "gateway") {
      return;
    }
    respond();
  }
}
