// Has the official libraries of three vendors talk to a server that says what vendors.json
// has. They must read from it what our adapter reads (TestWires), and send what it sends.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

const [, , vendorsFile] = process.argv;
const vendors = Object.fromEntries(JSON.parse(readFileSync(vendorsFile, "utf8")).map((v) => [v.provider, v]));

// What the server says next, and what it was last asked.
let says, asked;
const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  asked = { path: request.url.split("?")[0], headers: request.headers, body: JSON.parse(body) };
  response.writeHead(says.status ?? 200, { "content-type": says.events ? "text/event-stream" : "application/json", ...says.headers });
  if (says.events) {
    for (const e of says.events) response.write(`${e.type ? `event: ${e.type}\n` : ""}data: ${typeof e === "string" ? e : JSON.stringify(e)}\n\n`);
    response.end();
  } else response.end(JSON.stringify(says.body));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;

// Each library as one form: ask(request, stream) returns what was read, and what of it our
// adapter has.
const libraries = {
  anthropic: {
    prefix: "",
    async ask(request, stream) {
      const client = new Anthropic({ baseURL: base, apiKey: "k-123", maxRetries: 0 });
      const { stream: _, ...params } = request;
      return stream ? await client.messages.stream(params).finalMessage() : await client.messages.create(params);
    },
    read: (m) => ({
      text: m.content.filter((b) => b.type === "text").map((b) => b.text).join(""),
      calls: m.content.filter((b) => b.type === "tool_use").map((b) => [b.name, b.input]),
      stop: { end_turn: "end", tool_use: "calls", max_tokens: "length", refusal: "filtered" }[m.stop_reason],
      usage: { input: m.usage.input_tokens, cache_read: m.usage.cache_read_input_tokens ?? 0, cache_write: m.usage.cache_creation_input_tokens ?? 0, output: m.usage.output_tokens },
    }),
  },
  openai: {
    prefix: "",
    async ask(request, stream) {
      const client = new OpenAI({ baseURL: base, apiKey: "k-123", maxRetries: 0 });
      const { stream: _, stream_options, ...params } = request;
      return stream ? await client.chat.completions.stream({ ...params, stream_options }).finalChatCompletion() : await client.chat.completions.create(params);
    },
    read: ({ choices: [{ message, finish_reason }], usage }) => ({
      text: message.content ?? "",
      calls: (message.tool_calls ?? []).map((c) => [c.function.name, JSON.parse(c.function.arguments)]),
      stop: message.refusal ? "filtered" : { stop: "end", tool_calls: "calls", length: "length", content_filter: "filtered" }[finish_reason],
      usage: {
        input: (usage?.prompt_tokens ?? 0) - (usage?.prompt_tokens_details?.cached_tokens ?? 0), cache_read: usage?.prompt_tokens_details?.cached_tokens ?? 0, cache_write: 0,
        output: usage?.completion_tokens ?? 0,
      },
    }),
  },
  google: {
    prefix: "",
    async ask(request, stream) {
      const client = new GoogleGenAI({ apiKey: "k-123", apiVersion: "v1beta", httpOptions: { baseUrl: base } });
      const { systemInstruction, contents, tools, toolConfig, generationConfig } = request;
      const params = { model: "m", contents, config: { systemInstruction, tools, toolConfig, ...generationConfig } };
      if (!stream) return [await client.models.generateContent(params)];
      const pieces = [];
      for await (const piece of await client.models.generateContentStream(params)) pieces.push(piece);
      return pieces;
    },
    read(pieces) {
      const parts = pieces.flatMap((p) => p.candidates?.[0]?.content?.parts ?? []);
      const u = pieces.at(-1).usageMetadata ?? {};
      const finish = pieces.map((p) => p.candidates?.[0]?.finishReason ?? (p.promptFeedback?.blockReason && "SAFETY")).findLast((r) => r);
      const calls = parts.filter((p) => p.functionCall).map((p) => [p.functionCall.name, p.functionCall.args]);
      return {
        text: parts.filter((p) => p.text && !p.thought).map((p) => p.text).join(""),
        calls,
        stop: finish === "STOP" ? (calls.length > 0 ? "calls" : "end") : { MAX_TOKENS: "length", SAFETY: "filtered" }[finish],
        usage: {
          input: (u.promptTokenCount ?? 0) - (u.cachedContentTokenCount ?? 0), cache_read: u.cachedContentTokenCount ?? 0, cache_write: 0,
          output: (u.candidatesTokenCount ?? 0) + (u.thoughtsTokenCount ?? 0),
        },
      };
    },
  },
};

// What TestWires demands of our adapter.
const calls = [["fetch", { a: 1 }], ["fetch", { a: 2 }]];
const expected = {
  text: (v) => ({ text: "Hello", calls: [], stop: "end", usage: v.usage }),
  calls: () => ({ text: "", calls, stop: "calls" }),
  cut: () => ({ text: "Hel", calls: [], stop: "length" }),
  filtered: () => ({ calls: [], stop: "filtered" }),
};

let checks = 0;
for (const [provider, library] of Object.entries(libraries)) {
  const v = vendors[provider];
  for (const stream of [false, true]) {
    for (const [reply, want] of Object.entries(expected)) {
      says = stream ? { events: v[`${reply}_stream`] } : { body: v[reply] };
      let got;
      try {
        got = library.read(await library.ask(v.request, stream));
      } catch (error) {
        // The helper of OpenAI's library throws where a reply was cut or filtered.
        if (!["LengthFinishReasonError", "ContentFilterFinishReasonError"].includes(error.constructor.name)) throw error;
        got = { ...want(v), stop: { LengthFinishReasonError: "length", ContentFilterFinishReasonError: "filtered" }[error.constructor.name] };
      }
      const of = want(v);
      for (const key of Object.keys(of)) assert.deepEqual(got[key], of[key], `${provider} ${reply}, ${stream ? "a stream" : "one document"}: ${key}`);
      checks++;
    }
    // What the library sends is what we send, but for what asks for a stream.
    const { stream: _, stream_options, ...ours } = v.request;
    const { stream: __, stream_options: ___, ...theirs } = asked.body;
    assert.deepEqual(theirs, ours, `${provider}: the request`);
    assert.equal(asked.headers[v.key_header.toLowerCase()], v.key_value, `${provider}: the key`);
    if (stream || provider !== "google") assert.ok(asked.path.endsWith(v.path), `${provider}: ${asked.path}, and ours is ${v.path}`);
    checks++;
  }
  // What a failed reply is to our adapter it is to the library.
  for (const [name, answer, status] of [
    ["a wrong key", { status: 401, body: { error: { message: "no" } } }, 401],
    ["too many", { status: 429, body: { error: { message: "no" } }, headers: { "retry-after": "3" } }, 429],
    ["too long", { status: 400, body: v.too_long }, 400],
    ["away", { status: 503, body: { error: { message: "no" } } }, 503],
  ]) {
    says = answer;
    await assert.rejects(library.ask(v.request, false), (e) => e.status === status || e.code === status, `${provider}: ${name}`);
    checks++;
  }
  for (const events of ["overloaded", "failed"]) {
    says = { events: v[events] };
    await assert.rejects(library.ask(v.request, true), (e) => !(e instanceof TypeError || e instanceof ReferenceError), `${provider}: a stream that is ${events}`);
    checks++;
  }
}
server.close();
console.log(`the libraries of ${Object.keys(libraries).length} vendors read and send the same: ${checks} checks`);
