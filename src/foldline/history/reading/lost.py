"""What stands for an entry that was in the session file when it was opened, and can no longer be read."""

from foldline.context.outline import Aside, FoldOutline, MessageOutline, RequestOutline, WrittenOutline
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    Entry,
    Kept,
    Message,
    RequestRecord,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    UserMessage,
    Written,
    text_parts,
)


def stand_in(outline: MessageOutline | RequestOutline | FoldOutline | Aside) -> Entry:
    """An entry of the same type, index and calls, so that nothing around it changes. Its text says why."""
    match outline:
        case MessageOutline():
            return _message(outline)
        case RequestOutline():
            return RequestRecord(index=outline.index, digest="", model=outline.model, dialect=outline.dialect)
        case FoldOutline():
            return _fold(outline)
        case Aside():
            return Unknown(index=outline.index)


def _words(index: int) -> str:
    return f"[foldline: entry {index} can no longer be read: the session file was changed by something else]"


def _fold(outline: FoldOutline) -> Compaction:
    return Compaction(
        index=outline.index,
        at=outline.at,
        summary=_words(outline.index),
        first_kept_index=outline.first_kept_index,
        head=tuple(_piece(piece) for piece in outline.head),
        replaced=outline.replaced,
        pins=outline.pins,
        rung=outline.rung,
        reason=outline.reason,
        tokens_before=outline.tokens_before,
        tokens_after=outline.tokens_after,
        details=outline.details,
    )


def _piece(piece: Kept | WrittenOutline) -> Kept | Written:
    if isinstance(piece, Kept):
        return piece
    return Written(message=_message(piece.message), covers=piece.covers, inputs=piece.inputs)


def _message(outline: MessageOutline) -> Message:
    index, nth = outline.index, outline.nth
    text = text_parts(_words(index))
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
