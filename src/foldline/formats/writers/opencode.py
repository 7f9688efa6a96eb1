"""Writer for opencode.

A summary at the start of the view becomes the answer to a compaction request.
"""

from foldline.formats.export import PROVIDER, Exported, HandedView
from foldline.formats.readers.opencode.messages import ASKED_TO_COMPACT
from foldline.history import utc_now
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    is_typed,
    text_parts,
)
from foldline.version import __version__

from .records import Record, image_url, images_of, record_line


def write_opencode(view: HandedView) -> Exported:
    """Write the document that `opencode import` reads."""
    session = _OpencodeSession(view)
    if view.summary is not None:
        session.add_summary(view.summary.text.removeprefix(ASKED_TO_COMPACT))
    for _, message in view.messages:
        session.add(message)
    document = {"info": session.info, "messages": session.messages}
    return view.exported("opencode", record_line(document))


class _OpencodeSession:
    """Collects the messages of the session to write.

    Ids begin with the time and a counter, because opencode sorts messages by their ids.
    """

    def __init__(self, view: HandedView) -> None:
        # The time is in the past, so that it precedes everything that opencode will add.
        self._now = int(utc_now().timestamp() * 1000) - 60_000
        self._count = 0
        self._model = view.model or PROVIDER
        self._cwd = view.header.cwd
        self._parent = ""
        """The id of the newest prompt, to which the following answers refer."""
        self._calls: dict[str, Record] = {}
        """The states of calls that have no result yet, by call id."""
        self.messages: list[Record] = []
        self.info: Record = {
            "id": view.header.id,
            "slug": view.header.id.removeprefix("ses_"),
            "projectID": "global",
            "directory": self._cwd,
            "title": view.title or "Handed over by Foldline",
            "version": __version__,
            "time": {"created": self._now, "updated": self._now},
        }

    def add_summary(self, text: str) -> None:
        """Add a summary as the answer to a compaction request."""
        self._add_prompt([{"type": "compaction", "auto": False}])
        answer = AssistantMessage(parts=text_parts(text), model=self._model)
        self._add_answer(answer, summary=True, mode="compaction", agent="compaction")

    def add(self, message: BaseMessage) -> None:
        match message:
            case AssistantMessage():
                self._add_answer(message)
            case ToolResultMessage():
                self._add_result(message)
            case _:
                origin = {} if is_typed(message) else {"synthetic": True}
                texts = [
                    part.text
                    for part in message.parts
                    if isinstance(part, TextPart) and part.text
                ]
                parts = [{"type": "text", "text": text, **origin} for text in texts]
                self._add_prompt([*parts, *_image_files(message)])

    def _add_prompt(self, parts: list[Record]) -> None:
        model = {"providerID": PROVIDER, "modelID": self._model}
        self._parent = self._add(
            {"role": "user", "agent": "build", "model": model}, parts
        )

    def _add_answer(self, message: AssistantMessage, **about: object) -> None:
        parts: list[Record] = [{"type": "step-start"}]
        for part in message.parts:
            match part:
                case TextPart() if part.text:
                    parts.append({"type": "text", "text": part.text})
                case ToolCallPart():
                    state = {"status": "pending", "input": part.parsed(), "raw": ""}
                    self._calls[part.call_id] = state
                    parts.append(
                        {
                            "type": "tool",
                            "callID": part.call_id,
                            "tool": part.name,
                            "state": state,
                        }
                    )
        finish = "tool-calls" if message.calls else "stop"
        usage = {
            "input": 0,
            "output": 0,
            "reasoning": 0,
            "cache": {"read": 0, "write": 0},
        }
        parts.append(
            {"type": "step-finish", "reason": finish, "cost": 0, "tokens": usage}
        )
        info = {
            "role": "assistant",
            "modelID": message.model or self._model,
            "providerID": PROVIDER,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": usage,
            "finish": finish,
        }
        self._add({**info, **about}, parts)

    def _add_result(self, message: ToolResultMessage) -> None:
        state = self._calls.pop(message.call_id, None)
        if state is None:
            return
        del state["raw"]
        state["time"] = {"start": self._now, "end": self._now}
        answer_id = self.messages[-1]["info"]["id"]
        files = [self._part(answer_id, file) for file in _image_files(message)]
        if message.is_error and not files:  # a failed result has no field for images
            state.update(status="error", error=message.text)
            return
        state.update(
            status="completed",
            output=message.text,
            title=message.name,
            metadata={},
        )
        if files:
            state["attachments"] = files

    def _add(self, info: Record, parts: list[Record]) -> str:
        """Add a message and return its id."""
        name = self._id("msg")
        at = self._now + self._count // 4096
        times = {"created": at}
        if info["role"] == "assistant":
            times["completed"] = at
            info = {"parentID": self._parent or name, **info}
        info = {"id": name, "sessionID": self.info["id"], "time": times, **info}
        self.messages.append(
            {"info": info, "parts": [self._part(name, part) for part in parts]}
        )
        return name

    def _part(self, message_id: str, part: Record) -> Record:
        return {
            "id": self._id("prt"),
            "sessionID": self.info["id"],
            "messageID": message_id,
            **part,
        }

    def _id(self, kind: str) -> str:
        self._count += 1
        moment = (self._now * 4096 + self._count) % 2**48
        return f"{kind}_{moment:012x}{self._count:014d}"


def _image_files(message: BaseMessage) -> list[Record]:
    return [
        {"type": "file", "mime": image.media_type, "url": image_url(image)}
        for image in images_of(message)
    ]
