"""What copying takes along from a place in the transcript, and the words search looks through there. Pure."""

from collections.abc import Sequence

from foldline.context.harmless import with_signs
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    ToolCallPart,
    ToolResultMessage,
)
from foldline.tui.blocks import Block, MarkdownBlock
from foldline.tui.blocks.pieces import Code
from foldline.tui.reading.source import Taken

from .calls import Call
from .output import plain_output
from .thoughts import THOUGHT, is_thought


def taken(block: Block, call: Call | None, projection: Projection, *, again: bool) -> Taken | None:
    """What is at this block: a piece of code, what a call gave back, else the entry. `again`: what the second
    press of the key takes. None where there is nothing."""
    if call is not None:
        return _of_call(call, projection, again)
    entry = projection.entry(block.key[0])
    if is_thought(block.key) and isinstance(entry, AssistantMessage):
        return Taken(entry.thinking.strip(), "the thought")
    whole = _of_entry(entry, block)
    if isinstance(block, MarkdownBlock) and isinstance(block.content, Code) and not again:
        instead = whole.what if whole is not None else ""
        return Taken("\n".join(block.content.fence.source), "the code block", instead)
    return whole


def _of_call(call: Call, projection: Projection, again: bool) -> Taken | None:
    answer = projection.entry(call.key[0])
    assert isinstance(answer, AssistantMessage), "a call stands in an answer"
    part = answer.calls[call.number]
    given = _given(part)
    if call.result is None or again:
        return Taken(*given, "" if call.result is None else "what it gave back")
    result = projection.entry(call.result)
    if not isinstance(result, ToolResultMessage):
        return None
    if result.details.diff:
        return Taken(with_signs(result.details.diff.rstrip("\n")), "the diff", given[1])
    return Taken(plain_output(result.text.rstrip("\n")), f"the output of {call.name}", given[1])


def _given(part: ToolCallPart) -> tuple[str, str]:
    command = part.parsed().get("command")
    return (command, "the command") if isinstance(command, str) else (part.arguments, "the arguments")


def _of_entry(entry: Entry | None, block: Block) -> Taken | None:
    match entry:
        case AssistantMessage():
            return Taken(entry.text.strip(), "the answer") if entry.text.strip() else None
        case Compaction():
            return Taken(entry.summary, "the summary") if entry.summary.strip() else None
        case BaseMessage(type="user"):
            return Taken(entry.text, "the prompt")
        case BaseMessage():
            return Taken(entry.text, "the entry")
        case _:
            return Taken(block.text(), "the line")


def streamed(blocks: Sequence[Block], at: Block, *, again: bool) -> Taken:
    """The same of an answer that is still being written, from what is shown of it."""
    if _is_code(at) and not again:
        first = last = next(number for number, block in enumerate(blocks) if block.key == at.key)
        while first and not blocks[first].gap and _is_code(blocks[first - 1]):
            first -= 1
        while last + 1 < len(blocks) and not blocks[last + 1].gap and _is_code(blocks[last + 1]):
            last += 1
        code = "\n".join(block.text() for block in blocks[first : last + 1])
        return Taken(code, "the code block so far", "the answer so far")
    text = "\n\n".join(block.text() for block in blocks if block.key[1] > 0)
    return Taken(text, "the answer so far")


def _is_code(block: Block) -> bool:
    return isinstance(block, MarkdownBlock) and isinstance(block.content, Code)


# --- search ----------------------------------------------------------------------------------------------


def words_at(block: Block, call: Call | None, projection: Projection) -> str:
    """All that stands at a block, opened or not."""
    if call is not None:
        return "\n".join((call.title, *_words_of_call(call, projection)))
    entry = projection.entry(block.key[0])
    if is_thought(block.key):
        own = block.key[1] == THOUGHT and isinstance(entry, AssistantMessage)
        return entry.thinking if own and isinstance(entry, AssistantMessage) else ""
    if isinstance(entry, Compaction):
        return f"{block.text()}\n{entry.summary}"
    if isinstance(entry, BaseMessage) and not isinstance(entry, AssistantMessage):
        return entry.text
    return block.text()


def _words_of_call(call: Call, projection: Projection) -> tuple[str, ...]:
    answer = projection.entry(call.key[0])
    given = answer.calls[call.number].arguments if isinstance(answer, AssistantMessage) else ""
    result = None if call.result is None else projection.entry(call.result)
    if not isinstance(result, ToolResultMessage):
        return (given,)
    return (given, result.details.diff or "", result.text)
