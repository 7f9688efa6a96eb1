"""What a server checks of the messages of a request: the pairing rules P1 to P7 (evaluation.md §3.3), on the
messages as our client renders them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from foldline.llm.dialect import OPENAI, ChatMessage, to_openai
from foldline.llm.lenient_json import is_json_object
from foldline.protocol import BaseMessage

PairingRule = Literal["P1", "P2", "P3", "P4", "P6", "P7"]
PairingFault = tuple[PairingRule, str]


class OnTheWire(NamedTuple):
    """What of a message matters for pairing."""

    entry: int
    role: str
    calls: tuple[str, ...] = ()
    """The ids of an answer's calls."""
    answers: str = ""
    """The id of the call that a result is for."""
    faults: tuple[PairingFault, ...] = ()
    """What is wrong with it by itself."""


def on_the_wire(message: BaseMessage) -> OnTheWire | None:
    """None for a message with nothing to say: it is not sent."""
    rendered = to_openai([message], OPENAI)
    if not rendered:
        return None
    chat = rendered[0]  # the images of a result come after it, when its group is whole
    calls = tuple(call["id"] for call in chat.get("tool_calls", ()))
    return OnTheWire(
        message.index,
        chat["role"],
        calls,
        chat.get("tool_call_id", ""),
        tuple(_faults(chat, message.index)) if chat["role"] == "assistant" else (),
    )


def pairing_faults(messages: Iterable[OnTheWire | None]) -> Iterator[PairingFault]:
    """Every reason for which a server would refuse these messages, with its rule."""
    waiting: Counter[str] = Counter()
    caller = -1
    has_user = False
    for message in messages:
        if message is None:
            continue
        if message.role == "tool":
            if waiting[message.answers] < 1:
                yield "P2", f"the result in entry {message.entry} answers no open call"
            else:
                waiting[message.answers] -= 1
            continue
        if waiting:
            yield from _without_result(waiting, caller)
            waiting.clear()
        has_user = has_user or message.role == "user"
        if message.calls:
            waiting.update(message.calls)
            caller = message.entry
        yield from message.faults
    yield from _without_result(waiting, caller)
    if not has_user:
        yield "P7", "no user message is there"


def _without_result(waiting: Counter[str], caller: int) -> Iterator[PairingFault]:
    for call_id in (+waiting).elements():
        yield "P1", f"call {call_id} of entry {caller} has no result right after it"


def _faults(chat: ChatMessage, index: int) -> Iterator[PairingFault]:
    calls: Sequence[ChatMessage] = chat.get("tool_calls", ())
    if not calls and not (chat["content"] or "").strip():
        yield "P6", f"the answer in entry {index} has neither text nor calls"
    if len({call["id"] for call in calls}) < len(calls):
        yield "P3", f"two calls of entry {index} have the same id"
    for call in calls:
        if not is_json_object(call["function"]["arguments"]):
            yield "P4", f"the arguments of call {call['id']} in entry {index} are not JSON"
