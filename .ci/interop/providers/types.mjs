// Writes a file of TypeScript in which each request and reply of vendors.json has the type
// that the vendor's library gives it, for tsc to judge: a member or a word that the vendor
// does not have is an error, and so is one that a request misses. Replies may have less
// than the newest server says.
import { readFileSync, writeFileSync } from "node:fs";

const [, , vendorsFile, out] = process.argv;
const types = {
  anthropic: { module: ["Anthropic", "@anthropic-ai/sdk"], request: "Anthropic.MessageCreateParamsStreaming", reply: "Anthropic.Message", event: "Anthropic.RawMessageStreamEvent" },
  openai: { module: ["OpenAI", "openai"], request: "OpenAI.Chat.Completions.ChatCompletionCreateParamsStreaming", reply: "OpenAI.Chat.ChatCompletion", event: "OpenAI.Chat.ChatCompletionChunk" },
};
let text = "import type { Content, GenerateContentConfig, GenerateContentResponse } from \"@google/genai\";\n";
text += "type Part<T> = T extends string ? `${T}` : T extends (infer U)[] ? Part<U>[] : T extends object ? { [K in keyof T]?: Part<T[K]> } : T;\n";
let judged = 0;
const judge = (name, type, value) => {
  text += `export const ${name}: ${type} = ${JSON.stringify(value)};\n`;
  judged++;
};
for (const vendor of JSON.parse(readFileSync(vendorsFile, "utf8"))) {
  const of = types[vendor.provider];
  if (!of) {
    // Google's library takes the parts of a request by themselves.
    const { contents, generationConfig, ...config } = vendor.request;
    judge("google_contents", "Part<Content>[]", contents);
    judge("google_config", "Part<GenerateContentConfig>", { ...config, ...generationConfig });
    for (const reply of ["text", "calls", "cut", "filtered"]) judge(`google_${reply}`, "Part<GenerateContentResponse>", vendor[reply]);
    for (const stream of ["text_stream", "calls_stream", "cut_stream", "filtered_stream"]) judge(`google_${stream}`, "Part<GenerateContentResponse>[]", vendor[stream]);
    continue;
  }
  text += `import ${of.module[0]} from "${of.module[1]}";\n`;
  judge(`${vendor.provider}_request`, of.request, vendor.request);
  for (const reply of ["text", "calls", "cut", "filtered"]) judge(`${vendor.provider}_${reply}`, `Part<${of.reply}>`, vendor[reply]);
  for (const stream of ["text_stream", "calls_stream", "cut_stream", "filtered_stream"]) {
    // [DONE] and ping are of the wire, and no events of a library.
    judge(`${vendor.provider}_${stream}`, `Part<${of.event}>[]`, vendor[stream].filter((e) => e !== "[DONE]" && e.type !== "ping"));
  }
}
if (judged !== 28) throw new Error(`${judged} values were judged, not 28`);
writeFileSync(out, text);
