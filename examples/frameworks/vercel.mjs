import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as Stdio } from '@ai-sdk/mcp/mcp-stdio';
import { openai } from '@ai-sdk/openai';
import { generateText, stepCountIs } from 'ai';

const mesh = await createMCPClient({ transport: new Stdio({ command: 'bcpmesh', args: ['mcp', '--creds', 'main.creds'] }) });
const { text } = await generateText({
  model: openai('gpt-4.1'),
  tools: await mesh.tools(),
  stopWhen: stepCountIs(10),
  prompt: 'Does the researcher confirm the report?',
});
console.log(text);
await mesh.close();
