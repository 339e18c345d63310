"""Agents of a bcpmesh: a Reader and a Controller, on asyncio.

Each starts ``bcpmesh agent`` and speaks JSON-RPC lines with it. Messages are the dicts
of docs/wire.md. Objects belong to one event loop and are not safe across threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import sysconfig
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["NOT_ENOUGH_INFORMATION", "Controller", "Error", "Message", "Reader", "Refused"]

#: A message of docs/wire.md.
Message = dict[str, Any]
Handler = Callable[[Message], Awaitable[Any]]
_H = TypeVar("_H", bound=Handler)
_A = TypeVar("_A", bound="_Agent")

#: What a handler of queries returns that does not know (PROTOCOL P3.9).
NOT_ENOUGH_INFORMATION: Message = {"not_enough_information": True}

_MAX_LINE = 16 << 20  # of the gateway's messages; a batch is far smaller
_STOP_SECONDS = 15.0
_METHOD_NOT_FOUND = -32601


class Error(Exception):
    """The mesh did not answer, or ``bcpmesh agent`` has ended."""


class Refused(Error):
    """The gateway refused a call. It charged nothing."""

    def __init__(self, code: str, detail: str, retry_after: int | None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code  #: of PROTOCOL.md, P10
        self.detail = detail
        self.retry_after = retry_after  #: in seconds, of a push that was rate_limited


def _installed() -> str:
    """Where the wheel put the program: its scripts need not be in PATH."""
    path = os.path.join(sysconfig.get_path("scripts"), "bcpmesh.exe" if os.name == "nt" else "bcpmesh")
    return path if os.path.isfile(path) else "bcpmesh"


class _Agent:
    """One agent in one role."""

    def __init__(self, creds: str | os.PathLike[str] | None = None, *, url: str | None = None, ca: str | None = None,
                 encoding: str | None = None, program: str | None = None) -> None:
        """Take a creds file; without one, the creds that a mesh gives to its commands.

        ``program`` is the program bcpmesh (default: ``$BCPMESH_PROGRAM``, the one that came
        with this package, or the one in PATH).

        A command that ``bcpmesh agent`` has started, as it does for ``sandbox: required``, has no creds: it is
        served on its stdin and stdout, and what it prints goes to stderr.
        """
        self._inherited = creds is None and os.environ.get("BCPMESH_DOOR") == "stdio"
        self._command = [program or os.environ.get("BCPMESH_PROGRAM") or _installed(), "agent"]
        if creds is None and not self._inherited:
            creds = os.environ.get(self._creds_variable)
            if not creds:
                raise Error(f"name a creds file, or set ${self._creds_variable}")
            url, ca = url or os.environ.get("BCPMESH_URL"), ca or os.environ.get("BCPMESH_CA")
            encoding = encoding or os.environ.get("BCPMESH_ENCODING")
        self._command += ["--creds", os.fspath(creds or "")]
        for flag, value in (("--url", url), ("--ca", ca), ("--encoding", encoding)):
            if value:
                self._command += [flag, value]
        self._handlers: dict[str, Handler] = {}
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._process: asyncio.subprocess.Process | None = None
        self._in: asyncio.StreamReader | None = None
        self._out: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    _creds_variable = ""

    def on_prompt(self, handler: _H) -> _H:
        """Set what gets the messages of the agent's cron_schedules."""
        self._handlers["prompt"] = handler
        return handler

    async def model(self, request: Message) -> Message:
        """Call the model of the definition, for a command that ``sandbox: required`` confines.

        ``request`` has ``turns``, such as ``[{"role": 1, "parts": [{"instruction": "…"}]}]``; docs/sandbox.md has the rest.
        """
        return await self._call("model", None, conversation="program", request={"model": "own", **request})

    async def fetch(self, url: str) -> Message:
        """Get a page of the definition's ``network``, for a command that ``sandbox: required`` confines.

        The result has ``url``, ``content_type`` and ``bytes`` (base64), or ``error``.
        """
        conversation = uuid.uuid4().hex
        try:
            return await self._call("fetch", None, conversation=conversation, ask={"url": url})
        finally:
            await self._call("end", None, conversation=conversation)

    async def start(self: _A) -> _A:
        """Connect, and begin to take messages. Set the handlers before."""
        if self._out is not None:
            raise Error("started already")
        if self._inherited:
            await self._inherit()
            self._reading = asyncio.create_task(self._read())
            return self
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MAX_LINE)
        except FileNotFoundError:
            raise Error(f"there is no program {self._command[0]}: install bcpmesh, or set $BCPMESH_PROGRAM") from None
        self._in, self._out = self._process.stdout, self._process.stdin
        self._reading = asyncio.create_task(self._read())
        return self

    async def _inherit(self) -> None:
        """Take this process's own stdin and stdout."""
        loop, self._in = asyncio.get_running_loop(), asyncio.StreamReader(limit=_MAX_LINE)
        protocol = asyncio.StreamReaderProtocol(self._in)
        await loop.connect_read_pipe(lambda: protocol, sys.stdin)
        transport, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(os.dup(1), "wb"))
        self._out = asyncio.StreamWriter(transport, flow, None, loop)
        sys.stdout = sys.stderr

    async def stop(self) -> None:
        """Take nothing more. What was not handled stays with the gateway."""
        process, self._process = self._process, None
        out, self._out = self._out, None
        if out is None:
            return
        assert self._reading is not None
        out.close()
        if process is not None:
            try:
                await asyncio.wait_for(process.wait(), _STOP_SECONDS)
            except asyncio.TimeoutError:
                process.kill()
                await process.wait()
            await self._reading
        else:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def run(self) -> None:
        """Start, and serve until ``bcpmesh agent`` ends, which is an Error unless it ended well."""
        async with self:
            process, reading = self._process, self._reading
            assert reading is not None
            await asyncio.shield(reading)
            code = 0 if process is None else await process.wait()
        if code != 0:
            raise Error(f"bcpmesh agent ended with exit code {code}: its reason is on stderr")

    async def __aenter__(self: _A) -> _A:
        return await self.start()

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def _call(self, method: str, timeout: float | None, /, **params: Any) -> Any:
        if self._out is None:
            raise Error("not started")
        if timeout is not None:
            params["timeout_seconds"] = max(1, round(timeout))
        self._next += 1
        number, answer = self._next, asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        try:
            await self._write({"id": number, "method": method, "params": {k: v for k, v in params.items() if v is not None}})
            if self._reading is not None and self._reading.done():
                raise Error("bcpmesh agent has ended")
            return await answer
        finally:
            del self._calls[number]

    async def _write(self, message: Message) -> None:
        out = self._out
        if out is None or out.is_closing():
            return
        out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        try:
            await out.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # _read hears that it has ended

    async def _read(self) -> None:
        assert self._in is not None
        try:
            while line := await self._in.readline():
                message = json.loads(line)
                if "method" in message:
                    task = asyncio.create_task(self._handle(message))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                elif (answer := self._calls.get(message["id"])) is not None and not answer.done():
                    if "error" in message:
                        answer.set_exception(_error(message["error"]))
                    else:
                        answer.set_result(message["result"])
        finally:
            for answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(Error("bcpmesh agent has ended"))

    async def _handle(self, message: Message) -> None:
        handler, number = self._handlers.get(message["method"]), message.get("id")
        if handler is None:
            if number is not None:
                await self._write({"id": number, "error": {"code": _METHOD_NOT_FOUND, "message": "no handler"}})
            return
        try:
            reply: Message = {"result": await handler(message["params"])}
            json.dumps(reply)
        except Exception as error:  # a handler's: nothing of it leaves this process
            print(f"bcpmesh: a handler of {message['method']} failed: {error!r}", file=sys.stderr)
            reply = {"error": {"code": 1, "message": "the handler failed"}}
        if number is not None:
            await self._write({"id": number, **reply})


class Reader(_Agent):
    """Answers queries and pushes against subscriptions."""

    _creds_variable = "BCPMESH_READER_CREDS"

    def on_query(self, handler: _H) -> _H:
        """Set what answers queries: it returns a dict, or NOT_ENOUGH_INFORMATION.

        ``attempt`` of the query is 0 first; ``last_detail`` says why the answer before
        was not taken. If the handler raises, nothing is answered.
        """
        self._handlers["query"] = handler
        return handler

    def on_result(self, handler: _H) -> _H:
        """Set what hears what became of answers (bcp_validation_result)."""
        self._handlers["result"] = handler
        return handler

    def on_subscriptions(self, handler: _H) -> _H:
        """Set what gets ``{"subscriptions": [...]}``: the first list, and each that differs."""
        self._handlers["subscriptions"] = handler
        return handler

    async def push(self, controller: str, subscription: str, response: Message, *, push_id: str | None = None,
                   timeout: float | None = None) -> Message:
        """Push, and return what became of it. A repeat with the same push_id charges nothing more."""
        return await self._call("push", timeout, controller=controller, subscription_id=subscription, response=response, push_id=push_id)


class Controller(_Agent):
    """Asks Readers and gets what the gateway lets through."""

    _creds_variable = "BCPMESH_CONTROLLER_CREDS"

    def on_delivery(self, handler: _H) -> _H:
        """Set what handles deliveries. One whose handler raises is handled again after a pause.

        Without it, deliveries that no ask_and_wait waits for stay with the gateway.
        """
        self._handlers["delivery"] = handler
        return handler

    async def ask(self, reader: str, spec: Message, *, justification: str | None = None, request_id: str | None = None,
                  timeout: float | None = None) -> Message:
        """Ask, and return as soon as the gateway has accepted it, with what it may cost."""
        return await self._call("ask", timeout, target=reader, spec=spec, justification=justification, request_id=request_id)

    async def ask_and_wait(self, reader: str, spec: Message, *, justification: str | None = None, request_id: str | None = None,
                           return_held: bool = False, timeout: float | None = None) -> Message:
        """Ask, and return the delivery. How a query ended without a response is its ``outcome``."""
        return await self._call("ask_and_wait", timeout, target=reader, spec=spec, justification=justification,
                                request_id=request_id, return_held=return_held)

    async def channels(self, *, timeout: float | None = None) -> list[Message]:
        """Return what may be asked of whom, and what is left of each budget."""
        return (await self._call("channels", timeout))["channels"]

    async def open_session(self, *, timeout: float | None = None) -> None:
        """Begin a session where none is open. An ask does so by itself."""
        await self._call("open", timeout)

    async def close_session(self, *, timeout: float | None = None) -> None:
        """End the session, and cancel its open queries."""
        await self._call("close", timeout)

    async def new_session(self, *, timeout: float | None = None) -> None:
        """Say that this agent's context is cleared: it knows nothing of what it was told, which counts no more."""
        await self.close_session(timeout=timeout)
        await self.open_session(timeout=timeout)

    async def run_task(self, kernel: str, grant: str, task: str, *, new_session: bool = False, forbid: list[Message] | None = None,
                       request_id: str | None = None, timeout: float | None = None) -> Message:
        """Do a task with a kernel, and return how it ended: its ``run_id``, ``status`` and ``code``.

        ``new_session`` says that the context is cleared, as the method does, which needs no channel. ``forbid`` are rules
        of this agent's own, such as ``{"tool": "send_email", "when": "true"}``. The same request_id is done once.
        """
        return await self._call("run", timeout, kernel=kernel, grant=grant, task=task, new_session=new_session or None,
                                forbid=forbid, request_id=request_id)

    async def propose(self, reader: str, subscription: Message, *, timeout: float | None = None) -> str:
        """Ask people for a subscription, and return the id of the item that waits."""
        return (await self._call("propose", timeout, reader=reader, subscription=subscription))["item_id"]

    async def report_taint(self, source: str, *, timeout: float | None = None) -> None:
        """Say that this agent has read something that others may have written, such as ``web``."""
        await self._call("taint", timeout, source=source)


def _error(error: Message) -> Error:
    data = error.get("data")
    if data is not None:
        return Refused(data["code"], error["message"], data.get("retry_after_seconds"))
    return Error(error["message"])
