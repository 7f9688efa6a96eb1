"""What stands for an entry that was in the session file when it was opened, and can no longer be read."""

from foldline.context.outline import Aside, MessageOutline, RequestOutline
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    Entry,
    RequestRecord,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    UserMessage,
    text_parts,
)


def stand_in(outline: MessageOutline | RequestOutline | Aside) -> Entry:
    """An entry of the same type, index and calls, so that nothing around it changes. Its text says why."""
    match outline:
        case MessageOutline():
            return _message(outline)
        case RequestOutline():
            return RequestRecord(index=outline.index, digest="", model=outline.model, dialect=outline.dialect)
        case Aside():
            return Unknown(index=outline.index)


def _message(outline: MessageOutline) -> Entry:
    index, nth = outline.index, outline.nth
    text = text_parts(
        f"[foldline: entry {index} can no longer be read: the session file was changed by something else]"
    )
    match outline.type:
        case "assistant":
            calls = (ToolCallPart(call_id=call_id, name="unknown") for call_id in outline.calls)
            return AssistantMessage(index=index, nth=nth, parts=(*text, *calls), model=outline.model)
        case "tool_result":
            call_id = outline.call_id
            return ToolResultMessage(index=index, nth=nth, call_id=call_id, is_error=True, parts=text)
        case "user":
            return UserMessage(index=index, nth=nth, origin="machine", parts=text)
        case other:
            kind = SystemMessage if other == "system" else DeveloperMessage
            fields = {"index": index, "nth": nth, "origin": outline.origin, "parts": text}
            return kind.model_validate(fields)
