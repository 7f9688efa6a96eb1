"""How an answer ended before its model had said all of it."""

from foldline.protocol import AssistantMessage

_AT_THE_END = 0.9
"""Share of the window from which an answer was cut off by the window and not by its own limit."""


def early_end(answer: AssistantMessage, window: int = 0) -> str:
    """How an answer ended early, as the end of "it was ..."; empty if it came to its end.

    Cancelled and failed requests have sentences of their own. `window` is the model's, in tokens.
    """
    match answer.stop_reason:
        case "repeated":
            return "stopped because it repeated itself"
        case "filtered":
            return "stopped by the provider's content filter"
        case "length" if answer.error:
            return "cut off because it went on without end"
        case "length" if window and answer.usage is not None and answer.usage.total >= _AT_THE_END * window:
            return f"cut off where the window of {window:,} tokens ends"
        case "length":
            tokens = 0 if answer.usage is None else answer.usage.output
            return "cut off at the output limit" + (f" of {tokens:,} tokens" if tokens else "")
        case _:
            return ""
