"""What a fold costs and saves, in dollars, where the prices of its models are known. Pure."""

from foldline.llm.prices import Price
from foldline.protocol import Usage
from foldline.tui import numbers
from foldline.tui.preview.outlook import Outlook
from foldline.tui.preview.state import PreviewState

_LEAST = 0.0005
"""Dollars below which a saving is not worth a word."""


def draft_cost(state: PreviewState) -> float | None:
    """What the newest draft cost; None where its price, or what it took, is not known."""
    usage = state.proposal.entry.usage if state.proposal else None
    return None if usage is None or state.draft_price is None else _cost(usage, state.draft_price)


def draft_words(state: PreviewState, outlook: Outlook) -> str:
    """`draft cost $0.030, 97 % from cache`; without a price `draft took 97.1k, 97 % from cache`.

    Before there is a draft, what it may cost: that much where nothing of it comes from the cache.
    """
    usage = state.proposal.entry.usage if state.proposal else None
    if state.proposal is None and state.draft_price is not None:
        most = state.draft_price.cost(outlook.before, 0, outlook.calibrated(outlook.written))
        return f"draft up to {numbers.price(most)}"
    if usage is None or not usage.input:
        return ""
    cost = draft_cost(state)
    what = f"took {numbers.tokens(usage.total)}" if cost is None else f"cost {numbers.price(cost)}"
    took = f"draft {what}"
    if not usage.cached:
        return took
    return f"{took}, {numbers.percent(usage.cached, usage.input).replace('%', ' %')} from cache"


def saving_words(state: PreviewState, outlook: Outlook) -> str:
    """`next request $0.014, then −$0.013 each`; without a price `−91.7k in every request`.

    The first request after a fold finds only what opens it in the cache; those that follow read from there
    what they would have read without the fold, less what it took away.
    """
    saved = outlook.before - outlook.after
    if state.price is None:
        return f"−{numbers.tokens(saved)} in every request" if saved > 0 else ""
    opening = min(outlook.weights_after().system, outlook.after)
    about = "~" if state.proposal is None or state.proposal.state == "stale" else ""
    following = f"{about}{numbers.price(state.price.cost(outlook.after - opening, opening))}"
    each = state.price.cost(0, saved)
    later = f", then −{numbers.price(each)} each" if each >= _LEAST else ""
    return f"next request {following}{later}"


def redraft_words(state: PreviewState) -> str:
    """` ~$0.03`: what another draft will cost, by the newest one."""
    cost = draft_cost(state)
    return "" if cost is None else f" ~{numbers.price(cost)}"


def _cost(usage: Usage, price: Price) -> float:
    return price.cost(max(0, usage.input - usage.cached), usage.cached, usage.output)
