"""What makes a list of messages valid for the API: calls and results paired, groups whole (invariant 6)."""

from collections.abc import Iterable, Sequence

from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage

from .stubs import interrupted_result


def paired(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """The messages as they are sent: a call without a result gets one that says "interrupted"."""
    sent: list[BaseMessage] = []
    missing: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            answered = next((stub for stub in missing if _answers(message, stub)), None)
            if answered is not None:
                missing.remove(answered)
        else:
            sent += missing
            missing = _stubs(message)
        sent.append(message)
    return sent + missing


def _stubs(message: BaseMessage) -> list[BaseMessage]:
    if not isinstance(message, AssistantMessage):
        return []
    return [interrupted_result(call, message.index) for call in message.calls]


def _answers(result: ToolResultMessage, stub: BaseMessage) -> bool:
    return isinstance(stub, ToolResultMessage) and stub.call_id == result.call_id


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
