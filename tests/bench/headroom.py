"""headroom-ai's `compress()` as an arm of `foldline eval`, for docs/measurements/compactions.md:

    PYTHONPATH=tests foldline eval FILE --strategies bench.headroom:HeadroomCompaction,adaptive

It runs in its own process and environment, because its dependencies conflict with ours, and makes no model
calls. It shortens contents in place; the preamble, pins, the request and unsent messages are restored.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from foldline.agent.tools.process import environment
from foldline.compaction import CompactionContext, CompactionFailed
from foldline.llm.dialect import OPENAI, to_openai
from foldline.protocol import BaseMessage, FoldlineError, ToolResultMessage
from foldline.view.cut import seen_up_to
from foldline.view.items import with_text
from foldline.view.tokens import message_tokens

_PROGRAM = """
import json, os, sys
results = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever it prints is no result
from headroom import compress
asked = json.load(sys.stdin)
made = compress(asked["messages"], model=asked["model"], model_limit=asked["model_limit"])
json.dump([message.get("content") for message in made.messages], results)
results.close()
"""
_QUIET = {
    "HEADROOM_OFFLINE": "1",
    "HEADROOM_TELEMETRY": "off",
    "PYTHONIOENCODING": "utf-8",
}
_MODEL = "claude-sonnet-4-5"
"""With this model name it counts tokens without downloading a vocabulary."""


class HeadroomCompaction:
    """Compresses tool results with `headroom.compress`."""

    def __init__(self) -> None:
        self._python = _python()

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        return await asyncio.to_thread(self._compressed, ctx)

    def _compressed(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        seen = seen_up_to(ctx.history)
        sent = [to_openai([message], OPENAI)[0] for message in ctx.history]
        contents = _compressed_by(
            self._python, sent, ctx.max_context_size, {**environment(), **_QUIET}
        )
        if len(contents) != len(sent):
            raise CompactionFailed(
                f"headroom gave {len(contents)} messages for {len(sent)}."
            )
        after = [
            _shortened(message, text)
            if at < seen and message.index not in ctx.pins
            else message
            for at, (message, text) in enumerate(
                zip(ctx.history, contents, strict=True)
            )
        ]
        unchanged = all(a is b for a, b in zip(after, ctx.history, strict=True))
        return None if unchanged else after


def _shortened(message: BaseMessage, text: object) -> BaseMessage:
    if (
        not isinstance(message, ToolResultMessage)
        or not isinstance(text, str)
        or text == message.text
    ):
        return message
    short = with_text(message, text)
    return short if message_tokens(short) < message_tokens(message) else message


def _compressed_by(
    python: str, messages: Sequence[object], window: int, environ: Mapping[str, str]
) -> list[object]:
    """Return the contents of these messages after compression. `window` in tokens.

    Raises:
        CompactionFailed: headroom failed.
    """
    payload = json.dumps({"messages": messages, "model": _MODEL, "model_limit": window})
    command = [python, "-c", _PROGRAM]
    done = subprocess.run(
        command, input=payload, capture_output=True, text=True, env=environ, check=False
    )
    if done.returncode != 0:
        error_lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise CompactionFailed(f"headroom failed: {error_lines[-1]}")
    contents: list[object] = json.loads(done.stdout)
    return contents


def _python() -> str:
    """Return the Python of the environment with the command `headroom`.

    Raises:
        FoldlineError: there is no such command.
    """
    command = shutil.which("headroom")
    python = command and shutil.which(
        "python", path=str(Path(command).resolve().parent)
    )
    if not python:
        raise FoldlineError(
            "The arm headroom needs the command headroom of the package headroom-ai, installed in an "
            "environment of its own (pipx install headroom-ai); or leave the arm out."
        )
    return python
