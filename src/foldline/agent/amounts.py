"""Amounts of tokens as people write them: `32768`, `32k`, `1.5M`, or a share of the window, `20%`."""

import re
from typing import NamedTuple

ALLOWED = "a number of tokens (32768, 32k, 1M) or a share of the window (20%)"
ALLOWED_TOKENS = "a number of tokens (32768, 32k, 1M)"

_NUMBER = re.compile(r"(\d{1,3}(?:[_,]\d{3})+|\d+)(\.\d+)?\s*([kKmM%]?)")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_LARGEST = 1_000_000_000


class Amount(NamedTuple):
    """Tokens, or a share of a window that is not known yet."""

    tokens: int | None = None
    percent: float | None = None

    def of(self, window: int) -> int:
        """The amount in tokens, at least 1; `window` in tokens."""
        return max(1, self.tokens if self.tokens is not None else int(window * (self.percent or 0) / 100))

    def __str__(self) -> str:
        return str(self.tokens) if self.tokens is not None else f"{self.percent or 0:g}%"


def parse_amount(text: str) -> Amount:
    """The amount this says. `k` is a thousand, as on the screens.

    Raises:
        ValueError: it says none; the text is what is allowed.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(ALLOWED)
    value = float(re.sub("[_,]", "", found[1]) + (found[2] or ""))
    unit = found[3].lower()
    if unit == "%":
        if not 0 < value <= 100:
            raise ValueError(ALLOWED)
        return Amount(percent=value)
    tokens = value * _FACTORS[unit]
    if not 1 <= tokens <= _LARGEST or tokens != int(tokens):
        raise ValueError(ALLOWED)
    return Amount(tokens=int(tokens))


def parse_tokens(text: str) -> int:
    """Like `parse_amount`, without shares.

    Raises:
        ValueError: it says no number of tokens; the text is what is allowed.
    """
    try:
        amount = parse_amount(text)
    except ValueError:
        amount = Amount(percent=0)
    if amount.tokens is None:
        raise ValueError(ALLOWED_TOKENS)
    return amount.tokens
