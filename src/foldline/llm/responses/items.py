"""How canonical messages become the input items of the Responses API.

Pure and deterministic, and as stable as a dialect: extending the messages extends the items. Nothing is
stored at the server, so no item carries an id that it would have to look up; reasoning goes back encrypted,
to the model and server it came from.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

from ..base import ToolSpec
from ..dialect import (
    checkpoint_line,
    function_name,
    image_note,
    machine_text,
    not_typed,
    reported,
    sent_call_id,
)
from ..loose import is_json_object

RESPONSES = "responses"
"""The dialect that is recorded with each request of this API."""

Item = dict[str, Any]
"""One input item, ready for JSON."""


def to_input(messages: Sequence[BaseMessage], reader: str) -> list[Item]:
    """The messages as one request sends them. `reader` is who gets its reasoning back, as `signed_by` says
    it; a bare model name stands for that model at any server.

    Messages with nothing to say (reasoning without text or calls, an empty prompt) are left out.
    """
    rendering = _Rendering(reader)
    for message in messages:
        match message:
            case SystemMessage():
                rendering.instruct(message, "system")
            case DeveloperMessage():
                rendering.instruct(message, "developer")
            case UserMessage():
                rendering.ask(message)
            case AssistantMessage():
                rendering.answer(message)
            case ToolResultMessage():
                rendering.report(message)
            case _:
                raise TypeError(message.type)
    rendering.flush_images()
    return rendering.done


def tools_to_responses(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as one request offers them. Strict schemas are the default here, and ours are none."""
    return [
        {
            "type": "function",
            "name": function_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in tools
    ]


def signature_of(item_id: str, encrypted: str) -> str:
    """A reasoning item as it goes back. What was shown of it is left out: it is in there, encrypted, too."""
    item = {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": encrypted}
    return json.dumps(item)


def signer(model: str, host: str) -> str:
    """Who can read a signature again."""
    return f"{model}@{host}"


class _Rendering:
    """The items rendered so far, and the images that wait for the end of their tool group."""

    def __init__(self, reader: str) -> None:
        self.done: list[Item] = []
        self._reader = reader
        self._images: list[Item] = []

    def instruct(self, message: SystemMessage | DeveloperMessage, role: str) -> None:
        if message.text:
            self.flush_images()
            self._say(role, "\n\n".join([message.text, *checkpoint_line(message)]))

    def ask(self, message: UserMessage) -> None:
        self.flush_images()
        typed = message.origin == "typed"
        pieces: list[Item] = []
        parts = text_parts(message.text) if message.origin == "shell" else message.parts
        for part in parts:
            if isinstance(part, TextPart) and part.text:
                pieces.append(_text(part.text if typed else not_typed(part.text, message)))
            elif isinstance(part, ImagePart):
                pieces.append(_image(part))
        pieces += [_text(machine_text(line)) for line in checkpoint_line(message)]
        if pieces:
            self._say("user", pieces)

    def answer(self, message: AssistantMessage) -> None:
        """In the order in which it was said. Reasoning is only taken with what follows from it."""
        reasoning: list[Item] = []
        for part in message.parts:
            match part:
                case ThinkingPart():
                    reasoning += _reasoning(part, self._reader)
                case TextPart() if part.text:
                    self.flush_images()
                    self.done += reasoning
                    self._say("assistant", part.text)
                    reasoning = []
                case ToolCallPart():
                    self.flush_images()
                    self.done += [*reasoning, _call(part)]
                    reasoning = []
                case _:
                    pass

    def report(self, message: ToolResultMessage) -> None:
        call_id = sent_call_id(message.call_id)
        text, images = reported(message)
        if images:
            self._images += [_text(image_note(call_id)), *map(_image, images)]
        self.done.append({"type": "function_call_output", "call_id": call_id, "output": text})

    def flush_images(self) -> None:
        """Images of tool results go after the whole group: results stand together, behind their calls."""
        if self._images:
            pieces, self._images = self._images, []
            self._say("user", pieces)

    def _say(self, role: str, content: str | list[Item]) -> None:
        self.done.append({"type": "message", "role": role, "content": content})


def _text(text: str) -> Item:
    return {"type": "input_text", "text": text}


def _image(part: ImagePart) -> Item:
    url = f"data:{part.media_type};base64,{part.data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _call(part: ToolCallPart) -> Item:
    return {
        "type": "function_call",
        "call_id": sent_call_id(part.call_id),
        "name": function_name(part.name),
        "arguments": part.arguments if is_json_object(part.arguments) else "{}",
    }


def _reasoning(part: ThinkingPart, reader: str) -> list[Item]:
    """The item as its model knows it; none for another reader."""
    if part.signature is None or part.signed_by is None:
        return []
    if reader not in (part.signed_by, part.signed_by.rpartition("@")[0]):
        return []
    if not is_json_object(part.signature):
        return []
    item: Item = json.loads(part.signature)
    return [item] if item.get("type") == "reasoning" and item.get("encrypted_content") else []
