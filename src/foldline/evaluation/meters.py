"""How tokens are counted in a report: our estimate, or a real vocabulary where it is installed."""

from foldline.context.tokens import MESSAGE_OVERHEAD, message_tokens
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError

from .record import Meter

METERS = ("weights", "o200k")


def meter_named(name: str) -> Meter:
    """The meter of this name.

    Raises:
        FoldlineError: there is none, or its vocabulary is not installed.
    """
    match name:
        case "weights":
            return Meter("script weights", message_tokens)
        case "o200k":
            return _o200k()
        case _:
            raise FoldlineError(f"There is no tokenizer {name}: there are {', '.join(METERS)}.")


def _o200k() -> Meter:
    try:
        import bpe_openai
    except ImportError as missing:
        raise FoldlineError(
            "The tokenizer o200k needs the package bpe-openai: install foldline[bench], or use weights."
        ) from missing
    vocabulary = bpe_openai.get_encoding("o200k_base")

    def tokens(message: BaseMessage) -> int:
        calls = message.calls if isinstance(message, AssistantMessage) else ()
        texts = [message.text, *(f"{call.name} {call.arguments}" for call in calls)]
        return MESSAGE_OVERHEAD + sum(len(vocabulary.encode_ordinary(text)) for text in texts)

    return Meter("o200k_base", tokens)
