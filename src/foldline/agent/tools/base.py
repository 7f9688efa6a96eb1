"""The base classes of all tools.

They define a tool's schema for the model and its level for approvals.
"""

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
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from foldline.agent.permissions.approvals import Level
from foldline.agent.permissions.confinement import BlockedAccess, CommandSandbox
from foldline.agent.permissions.sandbox_acting import ActingEntry
from foldline.agent.settings.api_keys import Mask
from foldline.data import real_path
from foldline.files import make_private, write_new
from foldline.json_text import JsonObject
from foldline.llm.base import ToolSpec
from foldline.memory.clip import fits
from foldline.protocol import (
    FileTouch,
    FoldlineError,
    ImagePart,
    Rule,
    ToolResultMessage,
)
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many
from foldline.view.tokens import estimate_tokens

from .jobs import Jobs
from .text import FullText, clipped, line_count, lines_from, sendable, with_notes

T = TypeVar("T")

HALF_CHARACTER = (
    "{tool} was not run: its arguments contain half a character (a lone surrogate)."
)
BAD_ARGUMENTS = "{tool} was not run: {problems}. Its arguments: {arguments}."
MISSING = "the argument `{name}` is missing"
UNKNOWN = "there is no argument `{name}`"
WRONG = "`{name}` is wrong ({message})"
FAILED = "{tool} failed: {problem}."
RECORDING_ENDS = "The recording ends here: the demo runs no tools."
NO_PATH = (
    "The path is empty or contains a NUL character: pass the path of a file or folder."
)
NO_HOME = "{path}: there is no such home folder. Pass the full path."
BEYOND_END = "{title} has only {lines}: line {line} does not exist."


class ToolFailure(FoldlineError):
    """Raised if a call fails. The message is one sentence for the model."""

    def __init__(
        self, sentence: str, brief: str = "failed ✗", **values: object
    ) -> None:
        super().__init__(sentence, **values)
        self.brief = brief


class FileMemory:
    """Remembers which content of each file the model knows, as digests.

    This prevents an edit from overwriting a change that the model has not read. `lock` is held from the time
    a file is read until it has been replaced, so that two edits in one step cannot overwrite each other.
    """

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self.lock = threading.RLock()

    async def settled(self) -> None:
        """Wait until no tool is writing a file.

        This is needed because the thread of a cancelled tool keeps running.
        """
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        with self.lock:
            pass

    def remember(self, path: Path, content: bytes | None) -> None:
        """Remember which content of a file the model knows.

        Args:
            content: None if the model knows an older version, whose content is not available.
        """
        self._digests[real_path(path)] = b"" if content is None else _digest(content)

    def knows(self, path: Path) -> bool:
        return real_path(path) in self._digests

    def forget(self, path: Path) -> None:
        self._digests.pop(real_path(path), None)

    def is_stale(self, path: Path, content: bytes) -> bool:
        """Return whether the content of a file differs from the content that the model knows."""
        digest = self._digests.get(real_path(path))
        return digest is not None and digest != _digest(content)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


@dataclass(frozen=True)
class ToolOutcome:
    """The result of a call.

    The model gets `text` and `images`. The other fields are for the screen and the file lists.
    """

    text: str
    is_error: bool = False
    brief: str = ""
    files: tuple[FileTouch, ...] = ()
    diff: str | None = None
    full_output: str | None = None
    """Path of a file with the full output. None if `text` is not clipped."""
    images: tuple[ImagePart, ...] = ()
    refused: BlockedAccess | None = None
    """Access that the sandbox denied, if the command failed because of that."""
    made: tuple[ActingEntry, ...] = ()
    """Created files that other programs run automatically, such as Git hooks (see `paths`)."""
    child: str | None = None
    """Id of the subagent's session, if the call started a subagent."""
    seconds: float | None = None
    """Duration of the call. None until it is known."""


@dataclass
class ToolContext:
    """The folders, limits and services that one call may use."""

    cwd: Path
    output: Callable[[str], None]
    """Shows output as it arrives. Must be called on the event loop."""
    max_tokens: int
    """Maximum size of the result, in estimated tokens."""
    spill_dir: Path
    """Folder for the full text of clipped outputs."""
    call_id: str = ""
    known_files: FileMemory = field(default_factory=FileMemory)
    jobs: Jobs = field(default_factory=Jobs)
    resolved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses of each host at the time of approval.

    The tool connects only to these.
    """
    real_paths: dict[Path, Path] = field(default_factory=dict)
    """Resolved paths at the time of approval. The tool opens only these; see `real`."""
    box: CommandSandbox | None = None
    """The sandbox in which programs run, if any."""
    readable: Sequence[Path] = ()
    """Folders of skills, which may be read without approval."""
    mask: Mask = field(default_factory=Mask)
    """Removes API keys from text. Apply it before clipping, which could split a key."""
    before_change: Callable[[Path, Path, bytes | None, bytes | None], None] = (
        lambda *_: None
    )
    """Records a change just before a file is written.

    Called in the tool's thread. Takes the path, the resolved path, the old content (None if the file is new)
    and the new content. Raises ToolFailure if the change cannot be recorded, so that the file is not changed.
    """

    def real(self, path: Path) -> Path:
        """Resolve a path.

        The result stays the same during this call, even if links change.

        Raises:
            OSError: a link cannot be read, or the name is not valid for a file.
        """
        if path not in self.real_paths:
            self.real_paths[path] = Path(real_path(path))
        return self.real_paths[path]


def failed(failure: ToolFailure) -> ToolOutcome:
    """Return the outcome of a failed call."""
    return ToolOutcome(sendable(str(failure)), is_error=True, brief=failure.brief)


def refuse_half_characters(name: str, arguments: JsonObject) -> None:
    """Reject arguments with a lone surrogate, which cannot be encoded as JSON.

    Raises:
        ToolFailure: an argument contains one.
    """
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ToolFailure(HALF_CHARACTER, "bad arguments ✗", tool=name) from None


RuleSet = tuple[Rule, ...]
"""Rules that cover a call only if all of them are granted."""


class Tool(ABC):
    """A tool that the agent offers to the model."""

    spec: ToolSpec
    level: Level = "read"
    in_sandbox: bool = False
    """Whether the tool's programs run in the sandbox in sandboxed modes."""
    at_once: bool = False
    """Whether adjacent calls of this tool in one answer run concurrently."""
    works_in_folder: bool = True
    """Whether calls fail if the working folder no longer exists."""

    @abstractmethod
    def title(self, arguments: JsonObject) -> str:
        """Describe the call on one line, for example by its path, pattern or command."""

    def inside(self, arguments: JsonObject, context: ToolContext) -> bool:
        """Return whether the call stays in the working directory, judged by its arguments."""
        return True

    def rules(
        self, arguments: JsonObject, cwd: Path | None = None
    ) -> Sequence[RuleSet]:
        """Return the rule sets that can allow this call in a folder.

        The first set is offered to the user as "always".

        A call runs without approval if all rules of one set have been granted. If there are no sets, the call
        always needs approval.
        """
        return ()

    def preview(self, arguments: JsonObject, context: ToolContext) -> str | None:
        """Return the change that an edit or write would make, as a unified diff.

        Blocking, because it reads the file: do not call it on the event loop. The content read here counts as
        known to the model, so that a change to the file after the approval is noticed.

        Raises:
            ToolFailure: the call would fail, so no approval is needed.
        """
        return None

    @abstractmethod
    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutcome:
        """Run the call.

        A failure is returned as an outcome with `is_error`; only cancellation is raised.
        """


class Arguments(BaseModel):
    """The arguments of a tool.

    The JSON schema for the model is derived from the fields.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


class BaseTool(Tool, Generic[A]):
    """A tool with typed arguments.

    Validates arguments, handles errors, and cleans the text of results.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: type[A]

    def __init__(self) -> None:
        self.spec = ToolSpec(self.name, self.description, schema_of(self.arguments))

    @abstractmethod
    def headline(self, arguments: A) -> str:
        """Return the title of a valid call, which may have several lines."""

    @abstractmethod
    async def act(self, arguments: A, context: ToolContext) -> ToolOutcome:
        """Run a valid call.

        Raises:
            ToolFailure, OSError: the call failed.
        """

    def stays_inside(self, arguments: A, context: ToolContext) -> bool:
        return True

    def rules_of(self, arguments: A, cwd: Path | None) -> Sequence[RuleSet]:
        """Return the rule sets that can allow a valid call.

        By default, there is one set, for the whole tool.
        """
        return ((Rule(tool=self.name),),)

    def diff(self, arguments: A, context: ToolContext) -> str | None:
        return None

    def parsed(self, arguments: JsonObject) -> A:
        """Validate the arguments.

        Raises:
            ToolFailure: an argument is missing, unknown or of the wrong type.
        """
        refuse_half_characters(self.name, arguments)
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise ToolFailure(self._complaint(error), brief="bad arguments ✗") from None

    def title(self, arguments: JsonObject) -> str:
        try:
            return escaped_line(self.headline(self.parsed(arguments)))
        except ToolFailure:
            texts = (value for value in arguments.values() if isinstance(value, str))
            return escaped_line(next(texts, ""))

    def inside(self, arguments: JsonObject, context: ToolContext) -> bool:
        try:
            return self.stays_inside(self.parsed(arguments), context)
        except ToolFailure:
            return True  # the call will fail before it opens a file
        except OSError:
            return False  # the target is unknown

    def rules(
        self, arguments: JsonObject, cwd: Path | None = None
    ) -> Sequence[RuleSet]:
        try:
            return self.rules_of(self.parsed(arguments), cwd)
        except ToolFailure:
            return ()

    def preview(self, arguments: JsonObject, context: ToolContext) -> str | None:
        parsed = self.parsed(arguments)
        try:
            return self.diff(parsed, context)
        except OSError:
            return None

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutcome:
        try:
            outcome = await self.act(self.parsed(arguments), context)
        except ToolFailure as failure:
            return failed(failure)
        except OSError as error:
            problem = error.strerror or type(error).__name__
            if error.filename:
                problem = f"{escaped_line(str(error.filename))}: {problem}"
            sentence = FAILED.format(tool=self.name, problem=problem)
            outcome = failed(ToolFailure(sentence))
        return replace(outcome, text=sendable(outcome.text))

    def _complaint(self, error: ValidationError) -> str:
        problems = []
        for detail in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in detail["loc"])
            match detail["type"]:
                case "missing":
                    problems.append(MISSING.format(name=name))
                case "extra_forbidden":
                    problems.append(UNKNOWN.format(name=escaped_line(name)))
                case _:
                    message = detail["msg"]
                    message = message[:1].lower() + message[1:]
                    problems.append(WRONG.format(name=name, message=message))
        parameters = []
        for name, parameter in self.arguments.model_fields.items():
            parameters.append(name if parameter.is_required() else f"{name}?")
        return BAD_ARGUMENTS.format(
            tool=self.name,
            problems="; ".join(problems),
            arguments=", ".join(parameters),
        )


# --- the demo ---------------------------------------------------------------------------------------


class ReplayTool(Tool):
    """Replaces a tool and answers its calls with recorded results, in order."""

    works_in_folder = False

    def __init__(self, tool: Tool, results: Iterable[ToolResultMessage]) -> None:
        self.spec = tool.spec
        self._tool = tool
        self._results = deque(
            result for result in results if result.name == tool.spec.name
        )

    def title(self, arguments: JsonObject) -> str:
        return self._tool.title(arguments)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutcome:
        if not self._results:
            return ToolOutcome(RECORDING_ENDS, True, "not run")
        result = self._results.popleft()
        details = result.details
        return ToolOutcome(
            result.text, result.is_error, details.brief, details.files, details.diff
        )


# --- the schema -------------------------------------------------------------------------------------

_USUAL = (("default", None), ("default", False), ("minLength", 1), ("minimum", 1))
"""Schema keywords and values that are left out of tools' schemas to save tokens.

Every request contains the schemas.
"""


def schema_of(model: type[BaseModel]) -> JsonObject:
    """Return the JSON schema of an argument model, in a form that every server understands.

    The schema has no titles, no references, and no `anyOf` with null for optional fields.
    """
    full = model.model_json_schema()
    return _plain_object(full, full.get("$defs", {}))


def _plain_object(schema: JsonObject, parts: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {
            name: _plain(prop, parts)
            for name, prop in schema.get("properties", {}).items()
        },
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def _plain(prop: JsonObject, parts: JsonObject) -> JsonObject:
    """Return a property's simplified schema.

    Args:
        parts: targets of references.
    """
    if "$ref" in prop:
        return _plain_object(parts[prop["$ref"].rpartition("/")[2]], parts)
    schema = {
        key: value for key, value in prop.items() if key not in ("title", "anyOf")
    }
    for choice in prop.get("anyOf", ()):
        if choice != {"type": "null"}:
            schema.update(choice)
    if "items" in schema:
        schema["items"] = _plain(schema["items"], parts)
    return {key: value for key, value in schema.items() if (key, value) not in _USUAL}


# --- paths and long texts ---------------------------------------------------------------------------


def located(path_text: str, context: ToolContext) -> Path:
    """Return the absolute path for an argument, with `~` expanded.

    Raises:
        ToolFailure: the argument is not a valid path.
    """
    if not path_text.strip() or "\x00" in path_text:
        raise ToolFailure(NO_PATH)
    try:
        path = Path(path_text).expanduser()
    except RuntimeError:
        raise ToolFailure(NO_HOME, path=path_text) from None
    return Path(os.path.normpath(context.cwd / path))


def named(path: Path | str, context: ToolContext) -> str:
    """Return a path as shown in results.

    The path is on one line and, if possible, relative to the working directory.
    """
    absolute = Path(path)
    if absolute.is_relative_to(context.cwd):
        absolute = absolute.relative_to(context.cwd)
    return escaped_line(os.fsencode(absolute).decode("utf-8", "replace")) or "."


def lines_of(
    text: str, title: str, offset: int | None, limit: int | None
) -> tuple[str, int, str]:
    """Return lines of text, the number of the first line, and a note.

    The note is empty unless other lines are left out.

    Args:
        title: name of the text in error messages.

    Raises:
        ToolFailure: `offset` is greater than the number of lines.
    """
    total = line_count(text)
    first = offset or 1
    if first > max(total, 1):
        lines = many(total, "line")
        raise ToolFailure(BEYOND_END, title=title, lines=lines, line=first)
    part = lines_from(text, first, limit)
    count = line_count(part)
    note = "" if count == total else f"[lines {first}–{first + count - 1} of {total}]"
    return part, first, note


async def fitted(
    text: str, context: ToolContext, tool: str, *notes: str
) -> tuple[str, str | None]:
    """Clip text to the maximum size of a result.

    Returns the clipped text and the path of the file with the full text. The path is None if the text fits.
    The notes are appended and count towards the size.
    """

    def measure_and_spill() -> tuple[str, str | None]:
        shown = context.mask(text)
        room = context.max_tokens - sum(map(estimate_tokens, notes))
        if fits(shown, room):
            return with_notes(shown, *notes), None
        path = spilled(shown, context.spill_dir, tool)
        return with_notes(
            clipped(shown, room, FullText(named(path, context))), *notes
        ), str(path)

    return await asyncio.to_thread(measure_and_spill)


def spilled(text: str, folder: Path, tool: str) -> Path:
    """Write text to a new private file."""
    make_private(folder)
    path = folder / f"{tool}-{secrets.token_hex(4)}.txt"
    write_new(path, text.encode("utf-8", "replace"), durable=False)
    return path


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run `work(stop)` in a thread.

    `stop()` returns true once the task has been cancelled.
    """
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    finally:
        stopped.set()
