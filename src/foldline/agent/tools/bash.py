"""The tool `bash`: a command, its output as it comes, and never a process left behind."""

import asyncio
import codecs
import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .clip import fitted
from .paths import is_inside
from .process import spawn
from .text import printed, sized

_KEPT = 16 * 1024 * 1024
"""Bytes of output kept from the start."""
_KEPT_END = 1024 * 1024
"""Bytes kept from the end of an output longer than that."""
_SHOWN_EVERY = 1 / 30
"""Seconds between two pieces for the screen."""
_SHOWN_AT_ONCE = 16_000
"""Characters of a piece for the screen; of a faster program only the newest are shown."""

_QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PYTHONUNBUFFERED": "1",
}
"""Nobody is there to page, to answer a question or to look at colours."""
_SECRETS = frozenset({"OPENAI_API_KEY"})
"""Our own key: a command that prints its environment would put it into the session (DESIGN §10)."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _SECRETS} | _QUIET


class BashArguments(Arguments):
    command: str = Field(min_length=1, description="The command, run by bash in the working directory.")
    timeout: float = Field(120, gt=0, le=86_400, description="Seconds after which it is ended.")


class BashTool(BaseTool[BashArguments]):
    name = "bash"
    description = (
        "Run a shell command in the working directory. It gets no input; output and errors come back as one "
        "text. "
        "To leave a server running, put it in the background with its output in a file: `cmd >log 2>&1 &`."
    )
    level = "run"

    def __init__(self) -> None:
        super().__init__(BashArguments)

    def headline(self, arguments: BashArguments) -> str:
        return arguments.command

    def stays_inside(self, arguments: BashArguments, context: ToolContext) -> bool:
        """By the paths its words name: a hint for "always" rules, no wall. The unclear counts as outside."""
        if "\x00" in arguments.command:
            return True  # it will not run
        try:
            words = shlex.split(arguments.command, comments=False)
        except ValueError:
            return False
        return all(_word_inside(word, context.cwd) for word in words[1:])

    async def act(self, arguments: BashArguments, context: ToolContext) -> ToolOutcome:
        output = _Output(context.output)
        argv = [shutil.which("bash") or "/bin/sh", "-c", arguments.command]
        timed_out = False
        status: int | None = None
        held = False
        try:
            async with spawn(argv, context.cwd, _environment()) as child:
                try:
                    async with asyncio.timeout(arguments.timeout):
                        status = await child.follow(output.take)
                except TimeoutError:
                    timed_out = True
                else:
                    held = status is None
                    status = child.status
        finally:
            output.close()
        text = await asyncio.to_thread(output.text)
        if timed_out:
            brief = "timed out ✗"
            note = f"[timed out after {arguments.timeout:g} s: the command and all it started were ended]"
        else:
            brief, note = _ending(status or 0, bool(text))
        text, full = await fitted(text, context, self.name, note, _HELD if held else "")
        return ToolOutcome(text, is_error=timed_out or bool(status), brief=brief, full_output=full)


class _Output:
    """Collects a program's output, and passes it on to the screen at a pace a reader's screen can take."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._start = bytearray()
        self._end = bytearray()
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, chunk: bytes) -> bool:
        room = _KEPT - len(self._start)
        self._start += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) > 2 * _KEPT_END:
            self._left_out += len(self._end) - _KEPT_END
            del self._end[:-_KEPT_END]
        self._pending = (self._pending + self._decoder.decode(chunk))[-_SHOWN_AT_ONCE:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SHOWN_EVERY, self._flush)
        return True

    def close(self) -> None:
        """Pass on what is still waiting."""
        if self._timer is not None:
            self._timer.cancel()
        self._pending += self._decoder.decode(b"", final=True)
        self._flush()

    def text(self) -> str:
        """All that was kept, as a terminal would have left it."""
        if not self._left_out:
            return printed(bytes(self._start + self._end))
        gap = f"\n[… {sized(self._left_out)} of output were not kept …]\n"
        return printed(bytes(self._start)) + gap + printed(bytes(self._end))

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            self._show(self._pending)
            self._pending = ""


_HELD = (
    "[processes in the background still held the output and were ended; "
    "to keep one, send its output to a file]"
)


def _ending(status: int, has_output: bool) -> tuple[str, str]:
    """The outcome in a few words, and what the model is told after the output."""
    if status == 0:
        return "exit 0", "" if has_output else "[no output, exit 0]"
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return f"{name} ✗", f"[ended by {name}]"
    return f"exit {status} ✗", f"[exit {status}]"


def _word_inside(word: str, cwd: Path) -> bool:
    if "$" in word or "`" in word:
        return False
    value = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    if value == "/dev/null":
        return True
    if value.startswith(("/", "~")):
        return not value.startswith("~") and is_inside(Path(value), cwd)
    return ".." not in value.split("/") or is_inside(cwd / value, cwd)
