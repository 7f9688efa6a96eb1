"""A builder of histories.

    history().user("…").assistant(calls=[call("read", path="x")]).result("…")

Each method appends one entry with the next index and returns the builder; `last` is the newest index.
"""

import json
from collections.abc import Sequence
from typing import Self

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
from foldline.view.projection import Projection, project

IMAGE = ImagePart(media_type="image/png", data="aW1hZ2U=", width=100, height=75)


def call(name: str, /, call_id: str = "", **arguments: object) -> ToolCallPart:
    """Return a tool call; the builder assigns a missing id."""
    return ToolCallPart(
        call_id=call_id, name=name, arguments=json.dumps(arguments, ensure_ascii=False)
    )


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
        """Append an entry, such as a proposal's, with the next index."""
        self.entries.append(entry.model_copy(update={"index": self._next}))
        self._next += 1
        return self

    def gap(self, lost: int = 1) -> Self:
        """Skip indices, as in a damaged file."""
        self._next += lost
        return self

    def system(self, text: str) -> Self:
        return self.add(SystemMessage(parts=text_parts(text)))

    def instructions(self, text: str, source: str = "AGENTS.md") -> Self:
        return self.add(
            DeveloperMessage(
                origin="instructions", source=source, parts=text_parts(text)
            )
        )

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
            each
            if each.call_id
            else each.model_copy(update={"call_id": f"call-{self._next}-{nth}"})
            for nth, each in enumerate(calls)
        )
        self._open += named
        thoughts = (ThinkingPart(text=thinking),) if thinking else ()
        parts = (*thoughts, *text_parts(text), *named)
        stop = "tool_calls" if named else "stop"
        return self.add(
            AssistantMessage(parts=parts, usage=usage, model=model, stop_reason=stop)
        )

    def asked(self, estimated: int = 0, dialect: str = "", window: int = 0) -> Self:
        """Append the record of the request for the newest answer.

        Only Foldline's own sessions have such records.
        """
        newest = self.entries[-1]
        assert isinstance(newest, AssistantMessage)
        known = {
            "estimated": estimated,
            "dialect": dialect,
            "window": window,
            "usage": newest.usage,
        }
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
        """Append the result of this call, or of the oldest open one."""
        answered = next(
            (each for each in self._open if call_id in (None, each.call_id)), None
        )
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
        """Append an answer with one tool call, and the call's result."""
        asked = self.assistant(calls=[call(name, **arguments)])
        return asked.result(result, files=files, full_output=full_output)

    def turn(self, request: str, answer: str) -> Self:
        return self.user(request).assistant(answer)

    def checkpoint(
        self, checkpoint_id: int, *files: FileImage, shown: bool = False
    ) -> Self:
        return self.add(Checkpoint(id=checkpoint_id, files=files, shown=shown))

    def revert(
        self,
        checkpoint_id: int,
        *,
        kept: int | None = None,
        message: str | None = None,
        context: bool = True,
    ) -> Self:
        return self.add(
            Revert(
                checkpoint=checkpoint_id, kept=kept, message=message, context=context
            )
        )

    def go_to(self, moment: int, note: str | None = None) -> Self:
        """Rewind to the view at the entry `moment`."""
        mark = sum(isinstance(entry, Checkpoint) for entry in self.entries)
        return self.checkpoint(mark).add(
            Revert(checkpoint=mark, moment=moment, note=note)
        )

    def clear(self) -> Self:
        return self.add(Clear())

    def edit(self, action: EditAction, target: int) -> Self:
        return self.add(Edit(action=action, target=target))

    def undo(self, target: int = NEW) -> Self:
        """Undo the entry at `target`, by default the newest one."""
        return self.add(Undo(target=self.last if target == NEW else target))
