// A Reader that asks its model by the official libraries for Node of Anthropic and OpenAI, which know nothing of the
// mesh but what their environment variables say. It answers each query with how many of their replies were right: three of
// each.
import readline from "node:readline";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [howMany, look, model] = ["How many?", "Look there.", "any"];
const parameters = { type: "object", properties: { where: { type: "string" } } };

const asks = {
  async anthropic() {
    const { messages } = new Anthropic();
    const ask = { model, max_tokens: 50, system: "Be brief.", messages: [{ role: "user", content: howMany }] };
    const whole = await messages.create(ask);
    const again = { ...ask, messages: [...ask.messages, { role: "assistant", content: whole.content }, { role: "user", content: "Again." }] };
    const pieces = await messages.stream(again).finalText();
    ask.tools = [{ name: "look", description: "Looks.", input_schema: parameters }];
    ask.messages = [{ role: "user", content: look }];
    const called = await messages.create(ask);
    const use = called.content.at(-1);
    ask.messages.push({ role: "assistant", content: called.content });
    ask.messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: `thirty-four ${use.input.where}` }] });
    const last = await messages.create(ask);
    return [whole.content[0].text, pieces, last.content[0].text];
  },

  async openai() {
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
  },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const m = JSON.parse(line);
  if (m.method !== "query") {
    continue;
  }
  let n = 0;
  for (const [name, ask] of Object.entries(asks)) {
    try {
      const said = await ask();
      n += said.filter((text, i) => text === ["12", "12", "34"][i]).length;
      console.error(name, said);
    } catch (e) {
      console.error(name, String(e));
    }
  }
  console.log(JSON.stringify({ jsonrpc: "2.0", id: m.id, result: { n } }));
}
