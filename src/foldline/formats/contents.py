"""Converts messages in the format of Google's API.

Sessions of Gemini CLI and Qwen Code use this format.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

from .base import Json, JsonObject
from .parts import call_part, user_messages
from .tool_results import changes_of
from .transcript import Transcript

_MODELS = ("model", "gemini")
_ATTACHED = "\n--- Content from referenced files"
"""Text that precedes the contents of files mentioned in a prompt with `@`."""
_PROGRAM = (
    "<session_context>", "<hook_context>", "<system-reminder>", "<task-notification>", "<qwen:",
    "<state_snapshot>", "This is the Gemini CLI.", "This is the Qwen Code.",
)  # fmt: skip
"""Prefixes of texts that the program itself writes in the role "user"."""


def is_content(value: JsonObject) -> bool:
    return value.role in ("user", *_MODELS) and isinstance(value.at("parts"), list)


def contents_of(record: JsonObject, name: str) -> list[JsonObject]:
    return list(filter(is_content, record.objects(name)))


def is_program_text(text: str) -> bool:
    return text.lstrip().startswith(_PROGRAM)


def responses_in(pieces: Iterable[JsonObject]) -> list[JsonObject]:
    return list(filter(None, (piece.object("functionResponse") for piece in pieces)))


@dataclass
class ContentReader:
    """Converts contents to messages, and registers the calls in the transcript."""

    log: Transcript
    _nameless: int = 0
    _unanswered: list[ToolCallPart] = field(default_factory=list)
    """The newest calls that have no result yet and were recorded without an id."""

    def parts(self, pieces: Iterable[JsonObject]) -> tuple[Part, ...]:
        """Return all parts except tool results."""
        parts: list[Part] = []
        pieces = [piece for piece in pieces if "functionResponse" not in piece]
        if any("functionCall" in piece for piece in pieces):
            self._unanswered = []
        for piece in pieces:
            part = self._part(piece)
            if part is not None:
                parts.append(part)
            elif piece.get("text") != "":
                kinds = (key for key in piece if key != "thoughtSignature")
                self.log.left_out.append(next(kinds, "empty"))
        return tuple(parts)

    def _part(self, piece: JsonObject) -> Part | None:
        signature = piece.text("thoughtSignature") or None
        text = piece.text("text")
        call = piece.object("functionCall")
        if call:
            return self._call(call, signature)
        if text and piece.flag("thought"):
            return ThinkingPart(text=text, signature=signature)
        if text:
            return TextPart(text=text)
        data = piece.text("inlineData", "data")
        media_type = piece.text("inlineData", "mimeType")
        if data and media_type.startswith("image/"):
            return ImagePart(media_type=media_type, data=data)
        uri = piece.text("fileData", "fileUri")
        return TextPart(text=f"(file: {uri})") if uri else None

    def _call(self, call: JsonObject, signature: str | None) -> ToolCallPart:
        call_id = call.text("id")
        if not call_id:
            self._nameless += 1
        part = call_part(
            call_id or f"call_{self._nameless}", call.text("name"), call.get("args")
        )
        part = part.model_copy(update={"signature": signature})
        if not call_id:
            self._unanswered.append(part)
        self.log.calls[part.call_id] = part
        return part

    def user_messages(
        self,
        pieces: Iterable[JsonObject],
        is_program: Callable[[str], bool] = is_program_text,
    ) -> list[UserMessage]:
        """Return the user's own text and the program's text as separate messages."""
        is_attached = False

        def by_program(text: str) -> bool:
            nonlocal is_attached
            is_attached = is_attached or text.startswith(_ATTACHED)
            return is_attached or is_program(text)

        return user_messages(self.parts(pieces), by_program)

    def results(
        self, pieces: Sequence[JsonObject], run: JsonObject | None = None
    ) -> list[ToolResultMessage]:
        """Return the tool results among the pieces.

        `run`, which is the program's record of a call, is used only if there is a single result.
        """
        responses = responses_in(pieces)
        if not responses:
            return []
        others = self.parts(pieces)
        run = run if run and len(responses) == 1 else JsonObject()
        first, *later = responses
        return [
            self._result(first, run, others),
            *(self._result(response, run) for response in later),
        ]

    def _result(
        self, response: JsonObject, run: JsonObject, others: Sequence[Part] = ()
    ) -> ToolResultMessage:
        name = response.text("name")
        content = response.get("response")
        call_id = response.text("id") or self._first_unanswered(name)
        nested = self.parts(response.objects("parts"))
        return self.log.result(
            call_id,
            (*text_parts(_text_of(content)), *nested, *others),
            changes=partial(changes_of, diff=run.text("resultDisplay", "fileDiff")),
            name=name,
            failed=run.get("status") == "error" or "error" in JsonObject.of(content),
            cancelled=run.get("status") == "cancelled",
        )

    def _first_unanswered(self, name: str) -> str:
        """Return the id of the first unanswered call with this name.

        The call then counts as answered.
        """
        call = next((call for call in self._unanswered if call.name == name), None)
        if call is None:
            return ""
        self._unanswered.remove(call)
        return call.call_id

    def messages(self, content: JsonObject) -> Sequence[BaseMessage]:
        pieces = content.pieces("parts")
        if content.role in _MODELS:
            return [AssistantMessage(parts=self.parts(pieces))]
        return self.results(pieces) or self.user_messages(pieces)


def by_program(message: UserMessage) -> UserMessage:
    return message.model_copy(update={"origin": "machine"})


def _text_of(response: Json) -> str:
    if isinstance(response, str):
        return response
    fields = JsonObject.of(response)
    texts = [
        fields[key]
        for key in ("output", "error", "content")
        if isinstance(fields.get(key), str)
    ]
    if texts:
        return str(texts[0])
    return json.dumps(fields, ensure_ascii=False) if fields else ""
