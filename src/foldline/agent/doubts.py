"""Usage that cannot be that of the whole request in a window of the size we know: said once for each model.

The answer is kept either way: the window may be larger than we know, and the answer complete. Nothing is
sent again. A usage above the window makes the next request one that is folded first, like any full window;
one far below the estimate is no measure of anything (`Calibration.plausible`), and the estimate goes on
deciding.
"""

from foldline.context.overflow import silent_overflow
from foldline.protocol import events

from .desk import Desk


def doubt(desk: Desk, reported: int, estimated: int) -> None:
    """Look at the input tokens reported for a request of `estimated` tokens, before calibration."""
    model, window = desk.llm.info.id, desk.window
    if not reported or model in desk.doubted:
        return
    if silent_overflow(reported, window):
        text = (
            f"The server counted {reported:,} tokens in a request, more than the window of {window:,} holds: "
        )
        text += "it may have cut it without a word, and answered a part of it. "
        text += "The next request is folded first. " if desk.mode == "auto" else ""
        text += "If the window is larger than that, set FOLDLINE_CONTEXT_WINDOW."
    elif not desk.projection.calibration.plausible(model, reported, estimated):
        text = f"The server counted only {reported:,} tokens in a request of about {estimated:,}: it may "
        text += "have cut it without a word. Set FOLDLINE_CONTEXT_WINDOW to the window it runs with."
    else:
        return
    desk.doubted.add(model)
    desk.emit(events.Notice(level="warning", text=text))
