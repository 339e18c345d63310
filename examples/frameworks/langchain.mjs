import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { createAgent } from 'langchain';

const mesh = new MultiServerMCPClient({
  mcpServers: { bcpmesh: { command: 'bcpmesh', args: ['mcp', '--creds', 'main.creds'] } },
});
const agent = createAgent({ model: 'openai:gpt-4.1', tools: await mesh.getTools() });
const result = await agent.invoke({ messages: [{ role: 'user', content: 'Does the researcher confirm the report?' }] });
console.log(result.messages.at(-1).text);
await mesh.close();
