"""What makes a list of messages valid for the API: calls and results paired, groups whole (invariant 6)."""

from collections.abc import Iterable, Sequence

from foldline.protocol import NEW, AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage

from .stubs import interrupted_result


def paired(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """The messages as they are sent: a call without a result gets one that says "interrupted"."""
    sent: list[BaseMessage] = []
    waiting: list[ToolCallPart] = []
    caller = NEW
    for message in messages:
        if isinstance(message, ToolResultMessage):
            answered = next((call for call in waiting if call.call_id == message.call_id), None)
            if answered is not None:
                waiting.remove(answered)
        else:
            sent += [interrupted_result(call, caller) for call in waiting]
            waiting = list(message.calls) if isinstance(message, AssistantMessage) else []
            caller = message.index
        sent.append(message)
    return sent + [interrupted_result(call, caller) for call in waiting]


def pairing_faults(messages: Sequence[BaseMessage]) -> list[str]:
    """Every way in which these messages would be refused: sentences, empty when they are valid."""
    faults: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.call_id in waiting:
                waiting.remove(message.call_id)
            else:
                faults.append(f"entry {message.index} answers no call before it")
            continue
        faults += [f"call {call_id} has no result before entry {message.index}" for call_id in waiting]
        waiting = []
        if isinstance(message, AssistantMessage):
            waiting = [call.call_id for call in message.calls]
            if not waiting and not message.text.strip():
                faults.append(f"entry {message.index} is an answer without text and calls")
    return faults + [f"call {call_id} has no result" for call_id in waiting]
