// A Reader or a Controller for `bcpmesh conformance`.
import { Controller, NOT_ENOUGH_INFORMATION, Reader } from "bcpmesh";

const agent = process.argv[2] === "reader" ? new Reader() : new Controller();
agent.onPrompt(async () => {});
if (agent instanceof Reader) agent.onQuery(async () => NOT_ENOUGH_INFORMATION);
else agent.onDelivery(async () => {});
await agent.run();
