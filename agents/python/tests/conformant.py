"""A Reader or a Controller for `bcpmesh conformance`."""

import asyncio
import sys

import bcpmesh


async def main(role: str) -> None:
    agent = bcpmesh.Reader() if role == "reader" else bcpmesh.Controller()

    async def take(message):
        pass

    async def answer(query):
        return bcpmesh.NOT_ENOUGH_INFORMATION

    agent.on_prompt(take)
    if isinstance(agent, bcpmesh.Reader):
        agent.on_query(answer)
    else:
        agent.on_delivery(take)
    await agent.run()


asyncio.run(main(sys.argv[1]))
