"""What a tool is: a name and a schema for the model, a level for approvals, a run that does not raise."""

import asyncio
import hashlib
import json
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from foldline.context.clip import fits
from foldline.context.numbers import many
from foldline.context.tokens import estimate_tokens
from foldline.data import real_path
from foldline.files import make_private, write_new
from foldline.llm.base import ToolSpec
from foldline.protocol import FileTouch, FoldlineError, ImagePart, Rule, ToolResultMessage

from ..api_keys import Mask
from ..approvals import Level
from .jobs import Jobs
from .text import (
    FullText,
    clipped,
    line_count,
    lines_from,
    one_line,
    sendable,
    with_notes,
)

if TYPE_CHECKING:
    from ..sandbox import Refused, Sandbox
    from ..sandbox_acting import ActingEntry

T = TypeVar("T")


class ToolFailure(FoldlineError):
    """A call that could not be done: one sentence for the model."""

    def __init__(self, sentence: str, brief: str = "failed ✗") -> None:
        super().__init__(sentence)
        self.brief = brief


class FileMemory:
    """Digests of files as our tools last read or wrote them, so that no edit overwrites a change nobody saw.

    `lock` is held from reading a file to replacing it, so that two edits in one step do not lose one another.
    """

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self.lock = threading.RLock()

    async def settled(self) -> None:
        """Wait for the tool that is writing a file, if one is: when it is cancelled, its thread runs on."""
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        with self.lock:
            pass

    def remember(self, path: Path, content: bytes | None) -> None:
        """Remember what the model knows of a file. None: it knows an older content that was not kept."""
        self._digests[real_path(path)] = b"" if content is None else _digest(content)

    def knows(self, path: Path) -> bool:
        return real_path(path) in self._digests

    def forget(self, path: Path) -> None:
        self._digests.pop(real_path(path), None)

    def is_stale(self, path: Path, content: bytes) -> bool:
        """Whether the file was seen before, and with other content."""
        seen = self._digests.get(real_path(path))
        return seen is not None and seen != _digest(content)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


@dataclass(frozen=True)
class ToolOutcome:
    """What came of a call. The model sees `text` and `images`; the rest is for people and the file lists."""

    text: str
    is_error: bool = False
    brief: str = ""
    files: tuple[FileTouch, ...] = ()
    diff: str | None = None
    full_output: str | None = None
    """Path of a file with the whole output, where `text` has only a piece of it."""
    images: tuple[ImagePart, ...] = ()
    refused: "Refused | None" = None
    """What the sandbox kept a command from that failed."""
    made: "tuple[ActingEntry, ...]" = ()
    """What acts by itself, and the command made."""
    child: str | None = None
    """Id of the child session that a subagent worked in."""
    seconds: float | None = None
    """How long it took, once that is known."""


@dataclass
class ToolContext:
    """Where and within what limits a call runs."""

    cwd: Path
    output: Callable[[str], None]
    """Takes output as it comes, for the screen; called on the event loop."""
    max_tokens: int
    """Room for the result, in estimated tokens."""
    spill_dir: Path
    """Where whole outputs are kept when the model gets a piece."""
    call_id: str = ""
    known_files: FileMemory = field(default_factory=FileMemory)
    jobs: Jobs = field(default_factory=Jobs)
    resolved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses of hosts, as they were when the call was allowed: no others are connected to."""
    led_to: dict[Path, Path] = field(default_factory=dict)
    """Where paths led, links followed, when the call was allowed: nothing else is opened. See `real`."""
    box: "Sandbox | None" = None
    """The sandbox that programs run in; None where they run outside of any."""
    readable: Sequence[Path] = ()
    """Folders outside the working folder that may be read without a question: those of skills."""
    mask: Mask = field(default_factory=Mask)
    """Takes our keys out of a text. What is cut to its room goes through it first: half a key is none."""
    before_change: Callable[[Path, Path, bytes | None, bytes | None], None] = lambda *_: None
    """Called in the tool's thread right before a file is changed, with its path, where that leads, what it
    holds (None: there is none) and what it will hold. Raises ToolFailure where that could not be recorded:
    then nothing is changed."""

    def real(self, path: Path) -> Path:
        """Where a path leads: of one call always the same, whatever becomes of the links in it.

        Raises:
            OSError: a link on the way may not be looked into, or no file can have this name.
        """
        if path not in self.led_to:
            self.led_to[path] = Path(real_path(path))
        return self.led_to[path]


def failed(failure: ToolFailure) -> ToolOutcome:
    """The outcome of a call that could not be done."""
    return ToolOutcome(sendable(str(failure)), is_error=True, brief=failure.brief)


def refuse_half_characters(name: str, arguments: dict[str, Any]) -> None:
    """
    Raises:
        ToolFailure: an argument holds a lone surrogate, which no JSON of ours may.
    """
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        sentence = f"{name} was not run: its arguments hold half a character (a lone surrogate)."
        raise ToolFailure(sentence, brief="bad arguments ✗") from None


RuleSet = tuple[Rule, ...]
"""Rules that cover a call together."""


class Tool(ABC):
    """A tool the agent offers the model."""

    spec: ToolSpec
    level: Level = "read"
    in_sandbox: bool = False
    """Whether what it starts runs in the sandbox, where the mode says so."""
    at_once: bool = False
    """Whether calls of it that stand together in an answer run at the same time."""
    works_in_folder: bool = True
    """Whether it is refused once the working folder is gone."""

    @abstractmethod
    def title(self, arguments: dict[str, Any]) -> str:
        """The call on one line: the path, the pattern, or the whole command."""

    def inside(self, arguments: dict[str, Any], context: ToolContext) -> bool:
        """Whether the call stays in the working directory, as far as its arguments say. Follows links."""
        return True

    def rules(self, arguments: dict[str, Any], cwd: Path | None = None) -> Sequence[RuleSet]:
        """What an "always" may stand for that covers this call in a folder; the first is offered. None: asks.

        A call runs without asking where all rules of one set were granted: they must say all that they cover.
        """
        return ()

    def older_rules(self, arguments: dict[str, Any]) -> Sequence[Rule]:
        """Rules on record that cover it as well, each by itself, and are granted no more."""
        return ()

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        """What an edit or write would change, as a unified diff; None for other tools.

        Reads the file: call it off the event loop. A file seen here for the first time counts as read, so
        that what was approved is what is applied.

        Raises:
            ToolFailure: the call would fail, and nobody need be asked about it.
        """
        return None

    @abstractmethod
    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Do it. Wrong arguments and failures are outcomes with `is_error`; only cancellation is raised."""


class Arguments(BaseModel):
    """A tool's arguments. The JSON schema the model sees is derived from the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


class BaseTool(Tool, Generic[A]):
    """A tool made of its arguments and what it does; validation, failures and clean text are here."""

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: type[A]

    def __init__(self) -> None:
        self.spec = ToolSpec(self.name, self.description, schema_of(self.arguments))

    @abstractmethod
    def headline(self, arguments: A) -> str:
        """The title of a valid call; may span lines."""

    @abstractmethod
    async def act(self, arguments: A, context: ToolContext) -> ToolOutcome:
        """Do it.

        Raises:
            ToolFailure, OSError: it could not be done.
        """

    def stays_inside(self, arguments: A, context: ToolContext) -> bool:
        return True

    def rules_of(self, arguments: A, cwd: Path | None) -> Sequence[RuleSet]:
        """The rules that cover a valid call: by default, one for the tool as a whole."""
        return ((Rule(tool=self.name),),)

    def diff(self, arguments: A, context: ToolContext) -> str | None:
        return None

    def parsed(self, arguments: dict[str, Any]) -> A:
        """The arguments, validated.

        Raises:
            ToolFailure: something is missing, unknown or of the wrong type.
        """
        refuse_half_characters(self.name, arguments)
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise ToolFailure(self._complaint(error), brief="bad arguments ✗") from None

    def title(self, arguments: dict[str, Any]) -> str:
        try:
            return one_line(self.headline(self.parsed(arguments)))
        except ToolFailure:
            return one_line(next((value for value in arguments.values() if isinstance(value, str)), ""))

    def inside(self, arguments: dict[str, Any], context: ToolContext) -> bool:
        try:
            return self.stays_inside(self.parsed(arguments), context)
        except ToolFailure:
            return True  # such a call fails before it reaches anything
        except OSError:
            return False  # its target is not known

    def rules(self, arguments: dict[str, Any], cwd: Path | None = None) -> Sequence[RuleSet]:
        try:
            return self.rules_of(self.parsed(arguments), cwd)
        except ToolFailure:
            return ()

    def preview(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        parsed = self.parsed(arguments)
        try:
            return self.diff(parsed, context)
        except OSError:
            return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        try:
            outcome = await self.act(self.parsed(arguments), context)
        except ToolFailure as failure:
            return failed(failure)
        except OSError as error:
            where = f"{one_line(str(error.filename))}: " if error.filename else ""
            sentence = f"{self.name} failed: {where}{error.strerror or type(error).__name__}."
            outcome = ToolOutcome(sentence, is_error=True, brief="failed ✗")
        return replace(outcome, text=sendable(outcome.text))

    def _complaint(self, error: ValidationError) -> str:
        complaints = []
        for detail in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in detail["loc"])
            match detail["type"]:
                case "missing":
                    complaints.append(f"the argument `{name}` is missing")
                case "extra_forbidden":
                    complaints.append(f"there is no argument `{one_line(name)}`")
                case _:
                    message = detail["msg"]
                    complaints.append(f"`{name}` is wrong ({message[:1].lower() + message[1:]})")
        fields = self.arguments.model_fields.items()
        takes = ", ".join(name if each.is_required() else f"{name}?" for name, each in fields)
        return f"{self.name} was not run: {'; '.join(complaints)}. It takes: {takes}."


# --- the guided tour --------------------------------------------------------------------------------


class ReplayTool(Tool):
    """Stands in for a tool, and answers its calls with recorded results, in order."""

    works_in_folder = False

    def __init__(self, tool: Tool, results: Iterable[ToolResultMessage]) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._results = deque(result for result in results if result.name == tool.spec.name)

    def title(self, arguments: dict[str, Any]) -> str:
        return self._tool.title(arguments)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        if not self._results:
            return ToolOutcome("The recording ends here: the tour runs no tools.", True, "not run")
        result = self._results.popleft()
        details = result.details
        return ToolOutcome(result.text, result.is_error, details.brief, details.files, details.diff)


# --- the schema -------------------------------------------------------------------------------------

_USUAL = (("default", None), ("default", False), ("minLength", 1), ("minimum", 1))
"""What goes without saying: each schema is sent with every request, and small windows feel it."""


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of an argument model in the plainest form, which every server understands: no titles,
    no references, no `anyOf` with null for what may be left out."""
    full = model.model_json_schema()
    return _plain_object(full, full.get("$defs", {}))


def _plain_object(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _plain(prop, parts) for name, prop in schema.get("properties", {}).items()},
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _plain(prop: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """`parts` are the schemas that references name."""
    if "$ref" in prop:
        return _plain_object(parts[prop["$ref"].rpartition("/")[2]], parts)
    kept = {key: value for key, value in prop.items() if key not in ("title", "anyOf")}
    for choice in prop.get("anyOf", ()):
        if choice != {"type": "null"}:
            kept.update(choice)
    if "items" in kept:
        kept["items"] = _plain(kept["items"], parts)
    return {key: value for key, value in kept.items() if (key, value) not in _USUAL}


# --- paths, and what is too long --------------------------------------------------------------------


def located(given: str, context: ToolContext) -> Path:
    """The absolute path the model means: relative to the working directory, `~` is the home folder.

    Raises:
        ToolFailure: no path at all.
    """
    if not given.strip() or "\x00" in given:
        raise ToolFailure("The path is empty or holds a NUL character; give the path of a file or folder.")
    try:
        path = Path(given).expanduser()
    except RuntimeError:
        raise ToolFailure(f"{given}: there is no such home folder; give the whole path.") from None
    return Path(os.path.normpath(context.cwd / path))


def named(path: Path | str, context: ToolContext) -> str:
    """A path as results name it: relative to the working directory where it is inside, on one line."""
    absolute = Path(path)
    if absolute.is_relative_to(context.cwd):
        absolute = absolute.relative_to(context.cwd)
    return one_line(os.fsencode(absolute).decode("utf-8", "replace")) or "."


def lines_of(text: str, what: str, offset: int | None, limit: int | None) -> tuple[str, int, str]:
    """Some lines of a text, the first one's number, and a note where these are not all.

    Raises:
        ToolFailure: it has fewer; `what` names it.
    """
    total, first = line_count(text), offset or 1
    if first > max(total, 1):
        raise ToolFailure(f"{what} has only {many(total, 'line')}; line {first} is beyond its end.")
    part = lines_from(text, first, limit)
    count = line_count(part)
    return part, first, "" if count == total else f"[lines {first}–{first + count - 1} of {total}]"


async def fitted(text: str, context: ToolContext, tool: str, *notes: str) -> tuple[str, str | None]:
    """The text if it fits; else clipped, with the path of a new file in the spill folder that has all of it.

    The notes follow it, whole, within the same room.
    """

    def measure_and_spill() -> tuple[str, str | None]:
        shown = context.mask(text)
        room = context.max_tokens - sum(map(estimate_tokens, notes))
        if fits(shown, room):
            return with_notes(shown, *notes), None
        path = spilled(shown, context.spill_dir, tool)
        return with_notes(clipped(shown, room, FullText(named(path, context))), *notes), str(path)

    return await asyncio.to_thread(measure_and_spill)


def spilled(text: str, folder: Path, tool: str) -> Path:
    """A new file, readable by its owner only, with this text."""
    make_private(folder)
    path = folder / f"{tool}-{secrets.token_hex(4)}.txt"
    write_new(path, text.encode("utf-8", "replace"), durable=False)
    return path


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """`work(stop)` in a thread. `stop()` becomes true when the waiting task is cancelled."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    finally:
        stopped.set()
