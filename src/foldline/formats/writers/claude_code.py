"""Writer for Claude Code.

A summary at the start of the view is written after a compact boundary.
"""

from collections.abc import Iterator

from foldline.formats.export import PROVIDER, Exported, HandedView
from foldline.llm.messages import to_messages
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolResultMessage,
    is_typed,
)
from foldline.version import __version__

from .records import Record, chained, iso, lines, record_line, without_marks


def write_claude_code(view: HandedView) -> Exported:
    """Write records that are linked by `uuid` and `parentUuid`."""
    data = b""
    if view.title:
        title = {
            "type": "custom-title",
            "customTitle": view.title,
            "sessionId": view.header.id,
        }
        data = record_line(title)
    chain = chained(_claude_code_records(view), view.header.id, "uuid", "parentUuid")
    return view.exported("Claude Code", data + lines(chain))


def _claude_code_records(view: HandedView) -> Iterator[Record]:
    common = {
        "isSidechain": False,
        "userType": "external",
        "cwd": view.header.cwd,
        "sessionId": view.header.id,
        "version": __version__,
    }
    if view.summary is not None:
        timed = {**common, "timestamp": iso(view.summary.at or view.header.created_at)}
        yield {
            **timed,
            "type": "system",
            "subtype": "compact_boundary",
            "compactMetadata": {"trigger": "manual", "preTokens": 0},
            "content": "Conversation compacted",
            "level": "info",
            "isMeta": False,
        }
        yield {
            **timed,
            "type": "user",
            "isCompactSummary": True,
            "isVisibleInTranscriptOnly": True,
            "message": {"role": "user", "content": view.summary.text},
        }
    for at, message in view.messages:
        rendered = to_messages([without_marks(message)], "")
        if rendered:
            record = _claude_code_message(message, rendered[-1]["content"])
            yield {**common, "timestamp": iso(at), **record}


def _claude_code_message(message: BaseMessage, content: object) -> Record:
    if not isinstance(message, AssistantMessage):
        by_program = not (is_typed(message) or isinstance(message, ToolResultMessage))
        return {
            "type": "user",
            "isMeta": by_program,
            "message": {"role": "user", "content": content},
        }
    answer = {
        "id": f"msg_{message.index}",
        "type": "message",
        "role": "assistant",
        "model": message.model or PROVIDER,
        "content": content,
        "stop_reason": "tool_use" if message.calls else "end_turn",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    return {"type": "assistant", "message": answer}
