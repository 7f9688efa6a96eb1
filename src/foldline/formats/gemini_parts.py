"""Contents as Google's API spells them, which Gemini CLI and Qwen Code record: parts, calls and results."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_parts,
)

from .base import Json, JsonObject, as_count, as_list, as_object, as_text
from .changes import Changes
from .chat_parts import arguments_text
from .tool_runs import changes_of, tool_result

_ATTACHED = "\n--- Content from referenced files"
"""Behind it stand the files that a prompt names with `@`."""
_MODELS = ("model", "gemini")
"""The roles of answers."""
_PROGRAM = (
    "<session_context>",
    "<hook_context>",
    "<system-reminder>",
    "<task-notification>",
    "<qwen:",
    "<state_snapshot>",
    "This is the Gemini CLI.",
    "This is the Qwen Code.",
)
"""How texts begin that the program writes in the user's name."""


def pieces_of(content: Json) -> list[JsonObject]:
    """The parts of a content: it may be a text, a part, or a list of either."""
    listed = content if isinstance(content, list) else [content]
    return [{"text": piece} if isinstance(piece, str) else as_object(piece) for piece in listed if piece]


def is_content(value: Json) -> bool:
    """Whether this is a message of Google's API."""
    record = as_object(value)
    return record.get("role") in ("user", *_MODELS) and isinstance(record.get("parts"), list)


@dataclass
class Contents:
    """Turns contents into messages. Knows the calls made so far, and what it cannot show."""

    left_out: list[str] = field(default_factory=list)
    """The kinds of the pieces that cannot be shown here."""
    calls: dict[str, ToolCallPart] = field(default_factory=dict)
    _nameless: int = 0

    def parts(self, pieces: Iterable[JsonObject]) -> tuple[Part, ...]:
        """What is said, thought and called in these pieces; results are none of it."""
        found: list[Part] = []
        for piece in pieces:
            part = self._part(piece)
            if part is not None:
                found.append(part)
            elif "functionResponse" not in piece and piece.get("text") != "":
                self.left_out.append(next((key for key in piece if key != "thoughtSignature"), "empty"))
        return tuple(found)

    def _part(self, piece: JsonObject) -> Part | None:
        signature = as_text(piece.get("thoughtSignature")) or None
        text, called = as_text(piece.get("text")), as_object(piece.get("functionCall"))
        data = as_object(piece.get("inlineData"))
        if called:
            return self.call(called, signature)
        if text:
            thought = piece.get("thought") is True
            return ThinkingPart(text=text, signature=signature) if thought else TextPart(text=text)
        if as_text(data.get("mimeType")).startswith("image/") and as_text(data.get("data")):
            return ImagePart(media_type=as_text(data.get("mimeType")), data=as_text(data.get("data")))
        if pointed := as_text(as_object(piece.get("fileData")).get("fileUri")):
            return TextPart(text=f"(file: {pointed})")
        return None

    def call(self, called: JsonObject, signature: str | None = None) -> ToolCallPart:
        call_id = as_text(called.get("id"))
        if not call_id:
            self._nameless += 1
            call_id = f"call_{self._nameless}"
        call = ToolCallPart(
            call_id=call_id,
            name=as_text(called.get("name")),
            arguments=arguments_text(called.get("args")),
            signature=signature,
        )
        self.calls[call_id] = call
        return call

    def answer(self, pieces: Iterable[JsonObject]) -> AssistantMessage:
        return AssistantMessage(parts=self.parts(pieces))

    def said(
        self, pieces: Sequence[JsonObject], typed: Callable[[str], bool] = lambda text: True
    ) -> list[UserMessage]:
        """What stands in the role user besides results: the user's own words apart from the program's.

        `typed` tells of a text whether it may be the user's.
        """
        voices: list[tuple[Literal["typed", "machine"], Part]] = []
        attached = False
        for part in self.parts(piece for piece in pieces if "functionResponse" not in piece):
            text = part.text if isinstance(part, TextPart) else ""
            attached = attached or text.startswith(_ATTACHED)
            program = attached or text.lstrip().startswith(_PROGRAM) or (bool(text) and not typed(text))
            voices.append(("machine" if program else "typed", part))
        return [
            UserMessage(origin=voice, parts=tuple(part for _, part in group))
            for voice, group in groupby(voices, key=lambda pair: pair[0])
        ]

    def results(self, pieces: Sequence[JsonObject], noted: JsonObject) -> list[ToolResultMessage]:
        """The results in these pieces. `noted` is what the program recorded of the run of the only one."""
        responses = [response for piece in pieces if (response := as_object(piece.get("functionResponse")))]
        beside = self.parts(piece for piece in pieces if "functionResponse" not in piece) if responses else ()
        return [
            self._result(response, noted if len(responses) == 1 else {}, beside if nth == 0 else ())
            for nth, response in enumerate(responses)
        ]

    def _result(self, response: JsonObject, noted: JsonObject, beside: Sequence[Part]) -> ToolResultMessage:
        call_id, name = as_text(response.get("id")), as_text(response.get("name"))
        if not call_id:  # answered in order: the oldest call of that name
            call_id = next((key for key, call in self.calls.items() if call.name == name), "")
        call = self.calls.get(call_id)
        answered = response.get("response")
        failed = noted.get("status") in ("error", "cancelled") or "error" in as_object(answered)
        nested = self.parts(map(as_object, as_list(response.get("parts"))))
        return tool_result(
            call_id,
            call.name if call else name,
            (*text_parts(_text_of(answered)), *nested, *beside),
            failed="cancelled" if noted.get("status") == "cancelled" else "failed" if failed else "",
            done=Changes() if failed or call is None else changes_of(call, _diff(noted)),
        )

    def messages(self, content: JsonObject) -> list[BaseMessage]:
        """The messages that one content comes to."""
        pieces = pieces_of(content.get("parts"))
        if content.get("role") in _MODELS:
            return [self.answer(pieces)]
        results = self.results(pieces, {})
        return [*results] if results else [*self.said(pieces)]


def _text_of(answered: Json) -> str:
    if isinstance(answered, str):
        return answered
    fields = as_object(answered)
    for key in ("output", "error", "content"):
        if isinstance(fields.get(key), str):
            return as_text(fields.get(key))
    return json.dumps(fields, ensure_ascii=False) if fields else ""


def _diff(noted: JsonObject) -> str:
    return as_text(as_object(noted.get("resultDisplay")).get("fileDiff"))


def usage_of(tokens: JsonObject, **names: str) -> Usage | None:
    """The tokens of a request: thoughts are counted apart from the answer, tools' part apart from the prompt.

    `names` says what the fields are called.
    """
    count = {ours: as_count(tokens.get(theirs)) for ours, theirs in names.items()}
    reported = Usage(
        input=count["prompt"] + count["tool"],
        cached=count["cached"],
        output=count["answer"] + count["thoughts"],
        reasoning=count["thoughts"],
    )
    return reported if reported.total else None
