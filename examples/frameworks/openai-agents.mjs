import { Agent, MCPServerStdio, run } from '@openai/agents';

const mesh = new MCPServerStdio({ name: 'bcpmesh', command: 'bcpmesh', args: ['mcp', '--creds', 'main.creds'] });
await mesh.connect();
const agent = new Agent({ name: 'main', model: 'gpt-4.1', mcpServers: [mesh] });
const result = await run(agent, 'Does the researcher confirm the report?');
console.log(result.finalOutput);
await mesh.close();
