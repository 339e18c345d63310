// A Reader that asks its model by OpenAI's official library for Node, which knows nothing of the mesh but what its
// environment variables say. It answers each query with how many of the three replies were right.
import readline from "node:readline";
import OpenAI from "openai";

const [howMany, look, model] = ["How many?", "Look there.", "any"];
const parameters = { type: "object", properties: { where: { type: "string" } } };

async function answers() {
  const { completions } = new OpenAI().chat;
  const ask = { model, messages: [{ role: "system", content: "Be brief." }, { role: "user", content: howMany }] };
  const whole = await completions.create(ask);
  let pieces = "";
  const again = [...ask.messages, whole.choices[0].message, { role: "user", content: "Again." }];
  for await (const chunk of await completions.create({ ...ask, messages: again, stream: true })) {
    pieces += chunk.choices[0]?.delta?.content ?? "";
  }
  ask.tools = [{ type: "function", function: { name: "look", description: "Looks.", parameters } }];
  ask.messages = [{ role: "user", content: look }];
  const { message } = (await completions.create(ask)).choices[0];
  const call = message.tool_calls[0];
  ask.messages.push(message, { role: "tool", tool_call_id: call.id, content: `thirty-four ${call.function.arguments}` });
  const last = await completions.create(ask);
  return [whole.choices[0].message.content, pieces, last.choices[0].message.content];
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const m = JSON.parse(line);
  if (m.method !== "query") {
    continue;
  }
  let n = 0;
  try {
    const said = await answers();
    n = said.filter((text, i) => text === ["12", "12", "34"][i]).length;
    console.error(said);
  } catch (e) {
    console.error(String(e));
  }
  console.log(JSON.stringify({ jsonrpc: "2.0", id: m.id, result: { n } }));
}
