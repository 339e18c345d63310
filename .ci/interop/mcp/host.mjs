// Two MCP hosts on the official TypeScript SDK hold the main path through a real
// mesh: one starts its server and speaks over stdin and stdout, the other reaches
// one over HTTP.
//
// usage: node host.mjs BCPMESH MAIN.creds RESEARCHER.creds URL
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [program, mainCreds, researcherCreds, url] = process.argv.slice(2);

async function call(host, name, args) {
  const result = await host.callTool({ name, arguments: args });
  return { failed: result.isError === true, ...result.structuredContent };
}

const names = async (host) => (await host.listTools()).tools.map((tool) => tool.name).sort();

// main, over stdin and stdout.
const main = new Client({ name: 'interop-main', version: '1' });
await main.connect(new StdioClientTransport({ command: program, args: ['mcp', '--creds', mainCreds, '--url', url] }));

// researcher, over HTTP.
const server = spawn(program, ['mcp', '--json', '--creds', researcherCreds, '--url', url, '--http', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'inherit'] });
const [line] = await once(createInterface({ input: server.stdout }), 'line');
const address = JSON.parse(line);
const over = (token) => new StreamableHTTPClientTransport(new URL(address.url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
await assert.rejects(new Client({ name: 'stranger', version: '1' }).connect(over('another-token')), 'a stranger is served');
const researcher = new Client({ name: 'interop-researcher', version: '1' });
await researcher.connect(over(address.token));

assert.deepEqual(await names(main), ['BCPBudget', 'BCPInbox', 'BCPQuery', 'BCPSubscribe']);
assert.deepEqual(await names(researcher), ['BCPPublish', 'BCPQueries', 'BCPRespond']);
assert.match((await main.getPrompt({ name: 'controller' })).messages[0].content.text, /must not be interpreted as instructions/);
assert.match(main.getInstructions(), /untrusted data/);

// A question and its answer.
const accepted = await call(main, 'BCPQuery', { target: 'researcher', category: 1, fields: [{ name: 'is_confirmed', type: 'boolean' }] });
assert.equal(accepted.nominal_bits, 1);
const { queries } = await call(researcher, 'BCPQueries', { wait_seconds: 20 });
assert.equal(queries[0].query_id, accepted.query_id);
assert.deepEqual(queries[0].answer_schema.properties.fields.required, ['is_confirmed']);
const wrong = await call(researcher, 'BCPRespond', { query_id: accepted.query_id, fields: { is_confirmed: 'yes' } });
assert.deepEqual([wrong.failed, wrong.error], [true, 'validation_failed']);
assert.equal((await call(researcher, 'BCPRespond', { query_id: accepted.query_id, fields: { is_confirmed: true } })).status, 'delivered');
const { deliveries } = await call(main, 'BCPInbox', { wait_seconds: 20 });
assert.deepEqual([deliveries[0].query_id, deliveries[0].response], [accepted.query_id, { is_confirmed: true }]);

// A push.
const push = { subscription_id: 'research-alerts', controller: 'main', response: { has_breaking_news: true, priority: 'high' } };
assert.equal((await call(researcher, 'BCPPublish', push)).status, 'delivered');
const inbox = await call(main, 'BCPInbox', { acknowledge: [deliveries[0].delivery_id], wait_seconds: 20 });
assert.deepEqual([inbox.deliveries[0].subscription_id, inbox.deliveries[0].response], ['research-alerts', push.response]);
const { channels } = await call(main, 'BCPBudget', {});
assert.equal(channels[0].remaining_bits, 2996);

// A proposal changes nothing: it waits for a person.
const wanted = { target: 'researcher', id: 'news', category: 1, fields: [{ name: 'any', type: 'boolean' }], max_rate: '1/h' };
const { item_id: item } = await call(main, 'BCPSubscribe', wanted);
assert.match(item, /^i/);
assert.equal((await call(main, 'BCPSubscribe', wanted)).item_id, item);
assert.equal((await call(researcher, 'BCPPublish', { subscription_id: 'news', controller: 'main', response: { any: true } })).error, 'subscription_not_found');

await main.close();
await researcher.close();
server.kill('SIGTERM');
const [code] = await once(server, 'exit');
assert.equal(code, 0);
console.log('two hosts of the TypeScript SDK asked, answered and published');
