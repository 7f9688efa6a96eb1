"""A builder of histories: `history().user("…").assistant(calls=[call("read", path="x")]).result("…")`.

Each method appends one entry with the next index and gives the builder back; `last` is the newest index.
"""

import json
from collections.abc import Sequence
from typing import Self

from foldline.context.projection import Projection, project
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Checkpoint,
    Clear,
    DeveloperMessage,
    Edit,
    Entry,
    FileImage,
    FileTouch,
    ImagePart,
    RequestRecord,
    Revert,
    SystemMessage,
    ThinkingPart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Undo,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.protocol.entries import EditAction

IMAGE = ImagePart(media_type="image/png", data="aW1hZ2U=", width=100, height=75)


def call(name: str, /, call_id: str = "", **arguments: object) -> ToolCallPart:
    """A tool call; without an id it gets one of its own from the builder."""
    return ToolCallPart(call_id=call_id, name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def read(path: str) -> FileTouch:
    return FileTouch(path=path, action="read")


def modified(path: str, added: int = 1, removed: int = 0) -> FileTouch:
    return FileTouch(path=path, action="modified", added=added, removed=removed)


def history() -> "History":
    return History()


class History:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._open: list[ToolCallPart] = []
        self._next = 0

    @property
    def last(self) -> int:
        return self.entries[-1].index

    def projection(self) -> Projection:
        return project(self.entries)

    def add(self, entry: Entry) -> Self:
        """Any entry, such as a proposal's; it gets the next index."""
        self.entries.append(entry.model_copy(update={"index": self._next}))
        self._next += 1
        return self

    def gap(self, lost: int = 1) -> Self:
        """Leaves out indices, as damaged records do."""
        self._next += lost
        return self

    def system(self, text: str) -> Self:
        return self.add(SystemMessage(parts=text_parts(text)))

    def instructions(self, text: str, source: str = "AGENTS.md") -> Self:
        return self.add(DeveloperMessage(origin="instructions", source=source, parts=text_parts(text)))

    def notice(self, text: str) -> Self:
        return self.add(DeveloperMessage(parts=text_parts(text)))

    def user(self, text: str, *, images: int = 0) -> Self:
        return self.add(UserMessage(parts=(*text_parts(text), *(IMAGE,) * images)))

    def assistant(
        self,
        text: str = "",
        *,
        calls: Sequence[ToolCallPart] = (),
        thinking: str = "",
        usage: Usage | None = None,
        model: str | None = None,
    ) -> Self:
        named = tuple(
            each if each.call_id else each.model_copy(update={"call_id": f"call-{self._next}-{nth}"})
            for nth, each in enumerate(calls)
        )
        self._open += named
        thoughts = (ThinkingPart(text=thinking),) if thinking else ()
        parts = (*thoughts, *text_parts(text), *named)
        stop = "tool_calls" if named else "stop"
        return self.add(AssistantMessage(parts=parts, usage=usage, model=model, stop_reason=stop))

    def asked(self, estimated: int = 0, dialect: str = "", window: int = 0) -> Self:
        """The record of the request that the newest answer came from: our own sessions have one."""
        newest = self.entries[-1]
        assert isinstance(newest, AssistantMessage)
        known = {"estimated": estimated, "dialect": dialect, "window": window, "usage": newest.usage}
        record = {"digest": "0" * 64, "model": newest.model or "", **known}
        return self.add(RequestRecord.model_validate(record))

    def result(
        self,
        text: str = "",
        *,
        call_id: str | None = None,
        error: bool = False,
        images: int = 0,
        files: Sequence[FileTouch] = (),
        full_output: str | None = None,
    ) -> Self:
        """The result of the oldest call without one, or of the call with this id."""
        answered = next((each for each in self._open if call_id in (None, each.call_id)), None)
        if answered is not None:
            self._open.remove(answered)
        return self.add(
            ToolResultMessage(
                call_id=answered.call_id if answered else call_id or "no-such-call",
                name=answered.name if answered else "read",
                is_error=error,
                parts=(*text_parts(text), *(IMAGE,) * images),
                details=ToolDetails(files=tuple(files), full_output=full_output),
            )
        )

    def step(
        self,
        name: str,
        result: str,
        *,
        files: Sequence[FileTouch] = (),
        full_output: str | None = None,
        **arguments: object,
    ) -> Self:
        """An answer that calls one tool, and the tool's result."""
        asked = self.assistant(calls=[call(name, **arguments)])
        return asked.result(result, files=files, full_output=full_output)

    def turn(self, request: str, answer: str) -> Self:
        return self.user(request).assistant(answer)

    def checkpoint(self, checkpoint_id: int, *files: FileImage, shown: bool = False) -> Self:
        return self.add(Checkpoint(id=checkpoint_id, files=files, shown=shown))

    def revert(
        self,
        checkpoint_id: int,
        *,
        kept: int | None = None,
        message: str | None = None,
        context: bool = True,
    ) -> Self:
        return self.add(Revert(checkpoint=checkpoint_id, kept=kept, message=message, context=context))

    def go_to(self, moment: int, note: str | None = None) -> Self:
        """Back to the view as it was when the entry at `moment` was the newest."""
        mark = sum(isinstance(entry, Checkpoint) for entry in self.entries)
        return self.checkpoint(mark).add(Revert(checkpoint=mark, moment=moment, note=note))

    def clear(self) -> Self:
        return self.add(Clear())

    def edit(self, action: EditAction, target: int) -> Self:
        return self.add(Edit(action=action, target=target))

    def undo(self, target: int = NEW) -> Self:
        """Takes back the entry at `target`, or the newest one."""
        return self.add(Undo(target=self.last if target == NEW else target))
