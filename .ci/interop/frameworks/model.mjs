// A model that is a script, behind the two HTTP interfaces of OpenAI that the frameworks of
// examples/frameworks speak: it asks the researcher one question, reads the inbox until the
// answer is there, and says what it is. It prints its port.
import { createServer } from 'node:http';

const answered = /"is_confirmed\\*":\s*true/;

// The next step after the results of the tools so far.
function next(results) {
  if (results.length === 0) {
    return ['BCPQuery', { target: 'researcher', category: 1, fields: [{ name: 'is_confirmed', type: 'boolean' }] }];
  }
  return results.length < 4 && !answered.test(results.at(-1)) ? ['BCPInbox', { wait_seconds: 20 }] : null;
}

const said = (results) => (answered.test(results.at(-1)) ? 'The researcher confirms it.' : `No answer: ${results.at(-1)}`);

// https://platform.openai.com/docs/api-reference/chat
function chat(request) {
  const results = request.messages.filter((m) => m.role === 'tool').map((m) => JSON.stringify(m.content));
  const call = next(results);
  const message = call
    ? { role: 'assistant', content: null, tool_calls: [{ id: `call_${results.length}`, type: 'function', function: { name: call[0], arguments: JSON.stringify(call[1]) } }] }
    : { role: 'assistant', content: said(results) };
  return {
    id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: request.model,
    choices: [{ index: 0, message, finish_reason: call ? 'tool_calls' : 'stop', logprobs: null }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  };
}

// https://platform.openai.com/docs/api-reference/responses
function respond(request) {
  const results = request.input.filter((i) => i.type === 'function_call_output').map((i) => JSON.stringify(i.output));
  const call = next(results);
  const id = `item_${results.length}`;
  const item = call
    ? { type: 'function_call', id: `fc_${id}`, call_id: `call_${id}`, name: call[0], arguments: JSON.stringify(call[1]), status: 'completed' }
    : { type: 'message', id: `msg_${id}`, role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: said(results), annotations: [], logprobs: [] }] };
  return {
    id: `resp_${id}`, object: 'response', created_at: 1, status: 'completed', model: request.model, output: [item],
    error: null, incomplete_details: null, instructions: null, metadata: {}, parallel_tool_calls: false, temperature: 1, tool_choice: 'auto', tools: [], top_p: 1,
    usage: { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 },
  };
}

const server = createServer((request, response) => {
  let body = '';
  request.on('data', (part) => (body += part));
  request.on('end', () => {
    const answer = { '/v1/chat/completions': chat, '/v1/responses': respond }[request.url];
    if (!answer) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer(JSON.parse(body))));
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
