"""Converts tool results of kimi-cli and Kimi Code.

The text of a result also states the tool's outcome.
"""

import re
from collections.abc import Sequence

from foldline.formats.base import JsonObject
from foldline.formats.parts import text_in
from foldline.formats.tool_results import line_count, touched
from foldline.formats.transcript import Transcript
from foldline.protocol import Part, TextPart, ToolResultMessage, text_parts

_TIMED = re.compile(r"Agent|AgentSwarm|Bash|FetchURL|Glob|Grep|WebSearch|mcp__.*")
"""Matches tools whose results are sent with the time that the call took."""
_WALL_TIME = "Wall time: "
_EXIT_CODE = re.compile(r"[Ff]ailed with exit code:? (-?\d+)")


def result_of(
    call_id: str,
    parts: Sequence[Part],
    log: Transcript,
    *,
    failed: bool,
    milliseconds: int = 0,
) -> ToolResultMessage:
    """Return a tool result message, with the outcome taken from its text."""
    texts = [part for part in parts if isinstance(part, TextPart)]
    output = text_in(
        part for part in texts if not part.text.startswith(("<system>", _WALL_TIME))
    )
    exit_code = _EXIT_CODE.search(text_in(texts))
    return log.result(
        call_id,
        parts,
        changes=touched,
        failed=failed,
        exit_code=exit_code[1] if exit_code else "",
        brief=line_count(output) if output else "done",
        milliseconds=milliseconds,
    )


def parts_as_sent(
    result: JsonObject, tool: str, output: Sequence[Part]
) -> tuple[Part, ...]:
    """Return a result's parts, with the lines that Kimi Code adds when it sends the result."""
    lines = []
    pieces = result.pieces("output")
    is_empty = all(
        piece.kind == "text" and not piece.text("text").strip() for piece in pieces
    )
    if _TIMED.fullmatch(tool) and "durationMs" in result:
        seconds = result.count("durationMs") / 1000
        lines.append(f"{_WALL_TIME}{seconds:.3f} seconds")
    if result.flag("isError") and not text_in(output).startswith("<system>ERROR"):
        note = " Tool output is empty." if is_empty else ""
        lines.append(f"<system>ERROR: Tool execution failed.{note}</system>")
    elif is_empty:
        lines.append("<system>Tool output is empty.</system>")
    return (
        *(TextPart(text=line) for line in lines),
        *output,
        *text_parts(result.text("note")),
    )
