"""The package against a real mesh. $BCPMESH_PROGRAM is the program bcpmesh."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import bcpmesh

PROGRAM = os.environ["BCPMESH_PROGRAM"]
HERE = Path(__file__).parent
PATIENCE = 60.0

MAIN = """---
name: main
bcp_channels:
  - peer: researcher
    role: controller
    max_category: 2
    budget_bits: 1000
    subscriptions: [{id: news, category: 1, fields: [{name: urgent, type: boolean}]}]
---
"""
RESEARCHER = """---
name: researcher
bcp_channels:
  - {peer: main, role: reader, max_category: 2, budget_bits: 1000}
---
"""
KERNEL = """---
name: desk
kernel:
  planner: ann
  requesters: {main: [go]}
  grants: {go: [note.write]}
---
"""
# Nobody serves it: a call that the gate lets through ends the run as tool_unavailable.
TOOLS = """service: notes
tools:
  - name: note
    effect_level: write
    required_caps: [note.write]
    timeout: 1s
    input_schema: {type: object, properties: {text: {type: string, critical: true}}}
    output_schema: {type: boolean}
"""
PLANS = '''[{"task": "*", "plan": {"steps": [{"kind": "tool", "id": "n", "tool": "note", "args": {"text": "hello"}}], "final": "n"}}]'''
URGENT = {"category": 1, "fields": [{"name": "urgent", "type": "boolean"}]}


class MeshTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "agents").mkdir()
        (self.folder / "mesh.yaml").write_text("name: desk\n")
        (self.folder / "agents/main.md").write_text(MAIN)
        (self.folder / "agents/researcher.md").write_text(RESEARCHER)
        (self.folder / "agents/desk.md").write_text(KERNEL)
        (self.folder / "agents/ann.md").write_text("---\nname: ann\n---\n")
        (self.folder / "tools").mkdir()
        (self.folder / "tools/notes.yaml").write_text(TOOLS)
        ready = self.folder / "ready.json"
        log = open(self.folder / "up.log", "w")
        self.addCleanup(log.close)
        mesh = subprocess.Popen([PROGRAM, "up", str(self.folder), "--listen", "127.0.0.1:0", "--ready-file", str(ready)], stdout=log, stderr=log)
        self.addCleanup(mesh.wait)
        self.addCleanup(mesh.send_signal, signal.SIGINT)
        begin = time.monotonic()
        while not ready.exists():
            self.assertIsNone(mesh.poll(), (self.folder / "up.log").read_text())
            self.assertLess(time.monotonic() - begin, PATIENCE)
            time.sleep(0.02)
        self.url = json.loads(ready.read_text())["url"]
        for name in ("main", "researcher", "ann"):
            subprocess.run([PROGRAM, "creds", "issue", name, "--dir", str(self.folder), "--out", str(self.creds(name))], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def creds(self, name: str) -> Path:
        return self.folder / f"{name}.creds"

    def controller(self) -> bcpmesh.Controller:
        return bcpmesh.Controller(self.creds("main"), url=self.url)

    def reader(self) -> bcpmesh.Reader:
        return bcpmesh.Reader(self.creds("researcher"), url=self.url)

    async def test_question_and_answer(self) -> None:
        """covers P3.9, P9.1: an answer, one that is refused and asked for again, and not knowing."""
        attempts = []
        reader = self.reader()

        @reader.on_query
        async def answer(query):
            attempts.append((query["attempt"], query.get("last_detail")))
            if query["fields"][0]["name"] == "unknown":
                return bcpmesh.NOT_ENOUGH_INFORMATION
            return {"urgent": True} if query["attempt"] else {"urgent": "yes, and here are my instructions"}

        async with reader, self.controller() as controller:
            delivery = await controller.ask_and_wait("researcher", URGENT, timeout=PATIENCE)
            self.assertEqual(delivery["response"], {"urgent": True})
            self.assertEqual([a for a, _ in attempts], [0, 1])
            self.assertIn("urgent", attempts[1][1])
            unknown = {"category": 1, "fields": [{"name": "unknown", "type": "boolean"}]}
            delivery = await controller.ask_and_wait("researcher", unknown, timeout=PATIENCE)
            self.assertEqual(delivery["outcome"], "not_enough_information")
            channels = await controller.channels()
            self.assertEqual([c["reader"] for c in channels], ["researcher"])
            self.assertLess(channels[0]["remaining_bits"], 1000)

    async def test_push_and_delivery(self) -> None:
        """covers P9.1: a delivery whose handler raises is handled again, and one push is one delivery."""
        seen, done = [], asyncio.Event()
        controller = self.controller()

        @controller.on_delivery
        async def take(delivery):
            seen.append(delivery)
            if len(seen) == 1:
                raise ValueError("not now")
            done.set()

        async with controller, self.reader() as reader:
            result = await reader.push("main", "news", {"urgent": True}, push_id="p1", timeout=PATIENCE)
            self.assertEqual(result["status"], "delivered")
            again = await reader.push("main", "news", {"urgent": True}, push_id="p1", timeout=PATIENCE)
            self.assertEqual(again["status"], "delivered")
            await asyncio.wait_for(done.wait(), PATIENCE)
        self.assertEqual(len(seen), 2)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0]["response"], {"urgent": True})

    async def test_new_session(self) -> None:
        """covers KER-106: a task may be a Reader's words until its requester says that its context is cleared."""
        (self.folder / "plans.json").write_text(PLANS)
        planner = subprocess.Popen([PROGRAM, "planner", "--creds", str(self.creds("ann")), "--url", self.url, "--script", str(self.folder / "plans.json")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(planner.wait)
        self.addCleanup(planner.terminate)
        reader = self.reader()

        @reader.on_query
        async def answer(query):
            return {"urgent": True}

        async with reader, self.controller() as controller:
            async def ends(**options) -> tuple[str, str]:
                end = await controller.run_task("desk", "go", "Write it.", timeout=PATIENCE, **options)
                return end["status"], end["code"]

            await controller.ask_and_wait("researcher", URGENT, timeout=PATIENCE)
            self.assertEqual(await ends(), ("blocked", "not_declassified"))
            self.assertEqual(await ends(new_session=True), ("errored", "tool_unavailable"))
            self.assertEqual(await ends(forbid=[{"tool": "note", "when": "true"}]), ("blocked", "forbidden"))
            await controller.ask_and_wait("researcher", URGENT, timeout=PATIENCE)
            self.assertEqual(await ends(), ("blocked", "not_declassified"))
            await controller.new_session(timeout=PATIENCE)
            self.assertEqual(await ends(), ("errored", "tool_unavailable"))
            with self.assertRaises(bcpmesh.Refused) as refused:
                await ends(forbid=[{"tool": "note", "when": "no CEL"}])
            self.assertEqual(refused.exception.code, "bad_rule")

    async def test_refusals(self) -> None:
        """covers P10: what is refused has its code, and a wrong call of ours is no refusal."""
        async with self.controller() as controller, self.reader() as reader:
            with self.assertRaises(bcpmesh.Refused) as refused:
                await controller.ask("nobody", URGENT)
            self.assertEqual(refused.exception.code, "no_channel")
            with self.assertRaises(bcpmesh.Refused) as refused:
                await reader.push("main", "news", {"urgent": "attacker words"})
            self.assertEqual(refused.exception.code, "validation_failed")
            with self.assertRaises(bcpmesh.Error) as wrong:
                await controller.ask("Not A Name", URGENT)
            self.assertNotIsInstance(wrong.exception, bcpmesh.Refused)

    async def test_killed(self) -> None:
        """A sidecar that is killed fails the calls that wait; a new one gets what waits for it."""
        controller = self.controller()
        async with controller:
            waiting = asyncio.create_task(controller.ask_and_wait("researcher", URGENT, request_id="r1", timeout=PATIENCE))
            while not (await controller.channels())[0]["remaining_bits"] < 1000:
                await asyncio.sleep(0.02)
            controller._process.kill()
            with self.assertRaises(bcpmesh.Error):
                await asyncio.wait_for(waiting, PATIENCE)
        reader = self.reader()

        @reader.on_query
        async def answer(query):
            return {"urgent": False}

        delivered = asyncio.get_running_loop().create_future()
        second = self.controller()

        @second.on_delivery
        async def take(delivery):
            if not delivered.done():
                delivered.set_result(delivery)

        async with reader, second:
            self.assertEqual((await asyncio.wait_for(delivered, PATIENCE))["response"], {"urgent": False})

    async def test_not_there(self) -> None:
        """What is wrong at the start is said."""
        with self.assertRaisesRegex(bcpmesh.Error, "no program"):
            await bcpmesh.Reader("x.creds", program="no-such-program").start()
        with self.assertRaisesRegex(bcpmesh.Error, "BCPMESH_READER_CREDS"):
            bcpmesh.Reader()
        with self.assertRaisesRegex(bcpmesh.Error, "exit code 1"):
            await asyncio.wait_for(bcpmesh.Reader("nowhere.creds").run(), PATIENCE)

    def test_documents(self) -> None:
        """The programs of the README and of docs/agents.md run as they stand there."""
        def blocks(document: str) -> list[str]:
            return re.findall(r"```python\n(.*?)```", (HERE.parents[2] / document).read_text(), re.DOTALL)

        reader, controller = blocks("agents/python/README.md")
        (answer,) = blocks("docs/agents.md")
        (self.folder / "answer.py").write_text(answer)
        for command in ([sys.executable, "-c", reader],
                        [PROGRAM, "reader", "--creds", "researcher.creds", "--", sys.executable, "answer.py"]):
            with subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL) as answering:
                try:
                    run = subprocess.run([sys.executable, "-c", controller], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
                finally:
                    answering.terminate()
            self.assertEqual((run.stdout, run.returncode), ("researcher says {'urgent': True}\n", 0), run.stderr)

    def test_conformance(self) -> None:
        """The checklist of docs/conformance.md passes for both roles."""
        for role in ("reader", "controller"):
            run = subprocess.run([PROGRAM, "conformance", role, "--json", "--", sys.executable, str(HERE / "conformant.py"), role], capture_output=True, text=True)
            checks = json.loads(run.stdout)["checks"]
            self.assertEqual([c for c in checks if c["result"] == "fail"], [], run.stderr)
            self.assertGreater(len([c for c in checks if c["result"] == "pass"]), 10)


if __name__ == "__main__":
    unittest.main()
