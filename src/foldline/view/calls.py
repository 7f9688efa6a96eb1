"""Tool calls and their results in a list of messages.

Also determines whether a turn is open, and how an answer ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Entry,
    NoticeRecord,
    RequestRecord,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from .items import IN_VIEW, Messages, ViewItem, extends, interrupted_result
from .outline import MessageOutline

if TYPE_CHECKING:
    from .projection import Projection

_NEAR_WINDOW = 0.9
"""Fraction of the window above which a cut-off answer is attributed to the window.

This is the fraction filled by the request and the answer. Below it, the cause is the output limit.
"""
ANSWERS_NO_CALL = "entry {} answers no call before it"
NO_RESULT_BEFORE = "call {} has no result before entry {}"
EMPTY_ANSWER = "entry {} is an answer without text or calls"


def paired(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages in the form in which they are sent.

    A call without a result gets the result `INTERRUPTED`.
    """
    sent: list[BaseMessage] = []
    open_calls: list[ToolCallPart] = []
    caller = NEW
    for message in messages:
        if isinstance(message, ToolResultMessage):
            answered = next(
                (call for call in open_calls if call.call_id == message.call_id), None
            )
            if answered is not None:
                open_calls.remove(answered)
        else:
            sent += [interrupted_result(call, caller) for call in open_calls]
            open_calls = (
                list(message.calls) if isinstance(message, AssistantMessage) else []
            )
            caller = message.index
        sent.append(message)
    return sent + [interrupted_result(call, caller) for call in open_calls]


class RunningPairs:
    """Pairs calls with results in the views of consecutive requests.

    If a view extends the previous one, the earlier work is reused.
    """

    def __init__(self) -> None:
        self._view: Sequence[ViewItem] = ()
        self._sent: list[BaseMessage] = []
        """Paired messages up to the newest call. Later results cannot belong to earlier calls."""
        self._settled = 0
        """Number of items from which `_sent` was made."""

    def of(self, view: Sequence[ViewItem]) -> list[BaseMessage]:
        """Return the messages in the form in which they are sent; see `paired`."""
        if not extends(self._view, view):
            self._sent = []
            self._settled = 0
        self._view = tuple(view)
        start = self._settled
        settled = max(start, len(view) - 1)
        while settled > start and view[settled].outline.type == "tool_result":
            settled -= 1
        self._sent += paired(item.message for item in view[start:settled])
        self._settled = settled
        return [*self._sent, *paired(item.message for item in view[settled:])]


def pairing_faults(messages: Messages) -> list[str]:
    """Return a sentence for each fault that would make a server reject the messages."""
    faults = []
    open_ids: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.call_id in open_ids:
                open_ids.remove(message.call_id)
            else:
                faults.append(ANSWERS_NO_CALL.format(message.index))
            continue
        faults += [
            NO_RESULT_BEFORE.format(call_id, message.index) for call_id in open_ids
        ]
        open_ids = []
        if isinstance(message, AssistantMessage):
            open_ids = [call.call_id for call in message.calls]
            if not open_ids and not message.text.strip():
                faults.append(EMPTY_ANSWER.format(message.index))
    return faults + [f"call {call_id} has no result" for call_id in open_ids]


def unannounced_tool_changes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a sentence for each tool change that was not announced to the model.

    Changes between old records are not detected, because such records do not name their tools.
    """
    offered: str | None = None
    announced = set()
    for entry in entries:
        if isinstance(entry, NoticeRecord) and entry.tools is not None:
            announced.add(entry.tools)
        elif isinstance(entry, RequestRecord):
            is_known = None not in (offered, entry.tools)
            if is_known and offered != entry.tools and entry.tools not in announced:
                yield f"the request in entry {entry.index} offered other tools, but the model was not told"
            offered = entry.tools
            announced.clear()


def unanswered(projection: "Projection") -> BaseMessage | None:
    """Return the newest message if the turn is still open.

    The turn is open if the model has not answered the message yet, or if the message is an answer that was
    cut off or has calls without results. Returns None if the turn ended with a complete answer.
    """
    for outline in reversed(projection.entries.outlines):
        if not isinstance(outline, MessageOutline) or outline.type in (
            "system",
            "developer",
        ):
            continue
        fate = projection.fate(outline.index).kind
        if outline.origin == "shell" or fate in ("reverted", "dropped"):
            continue
        newest = projection.entry(outline.index)
        if fate not in IN_VIEW or not isinstance(newest, BaseMessage):
            return None
        is_complete = isinstance(newest, AssistantMessage) and not (
            broke_off(newest) or newest.calls
        )
        return None if is_complete else newest
    return None


def broke_off(message: BaseMessage) -> bool:
    """Return whether a message is a cancelled or failed answer."""
    return isinstance(message, AssistantMessage) and message.stop_reason in (
        "error",
        "cancelled",
    )


def early_end(answer: AssistantMessage, window: int = 0) -> str:
    """Describe why an answer ended early, in words that can follow "it was".

    Returns an empty string if the answer is complete. Cancelled and failed requests are described elsewhere.

    Args:
        window: the model's window, in tokens.
    """
    match answer.stop_reason:
        case "repeated":
            return "stopped because it repeated itself"
        case "filtered":
            return "stopped by the provider's content filter"
        case "length" if answer.error:
            return "cut off because it did not stop"
        case "length" if (
            window
            and answer.usage is not None
            and answer.usage.total >= _NEAR_WINDOW * window
        ):
            return f"cut off at the end of the window of {window:,} tokens"
        case "length":
            tokens = 0 if answer.usage is None else answer.usage.output
            return "cut off at the output limit" + (
                f" of {tokens:,} tokens" if tokens else ""
            )
        case _:
            return ""


def command_of(message: UserMessage) -> str | None:
    """Return the user's shell command that produced this message.

    Returns None if it is not clear from the text where the command ends.
    """
    first = message.parts[0] if message.parts else None
    if not isinstance(first, TextPart) or not first.text.startswith("$ "):
        return None
    command = first.text.removeprefix("$ ")
    return command if len(message.parts) > 1 else command.partition("\n")[0]
