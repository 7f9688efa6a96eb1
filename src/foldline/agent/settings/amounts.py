"""The values of settings that are written in several ways: token numbers, percentages, lists and switches."""

import re
from contextlib import suppress
from typing import Annotated, Literal, NamedTuple

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from foldline.view.budget import SMALLEST_WINDOW

from .layers import on_or_off

ALLOWED = "a number of tokens (32768, 32k, 1M) or a percentage of the window (20%)"
ALLOWED_TOKENS = "a number of tokens (32768, 32k, 1M)"

_NUMBER = re.compile(r"(\d{1,3}(?:[_,]\d{3})+|\d+)(\.\d+)?\s*([kKmM%]?)")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_LARGEST = 1_000_000_000


class Amount(NamedTuple):
    """A number of tokens, or a percentage of a window."""

    tokens: int | None = None
    percent: float | None = None

    def of(self, window: int) -> int:
        """Return the amount in tokens, at least 1."""
        if self.tokens is not None:
            return max(1, self.tokens)
        return max(1, int(window * (self.percent or 0) / 100))

    def __str__(self) -> str:
        return f"{self.percent or 0:g}%" if self.tokens is None else str(self.tokens)


def parse_amount(text: str) -> Amount:
    """Parse an amount. `k` is a thousand.

    Raises:
        ValueError: it is not valid; the message lists allowed values.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(ALLOWED)
    value = float(re.sub("[_,]", "", match[1]) + (match[2] or ""))
    unit = match[3].lower()
    if unit == "%":
        if not 0 < value <= 100:
            raise ValueError(ALLOWED)
        return Amount(percent=value)
    tokens = value * _FACTORS[unit]
    if not 1 <= tokens <= _LARGEST or tokens != int(tokens):
        raise ValueError(ALLOWED)
    return Amount(tokens=int(tokens))


def parse_tokens(text: str) -> int:
    """Parse a number of tokens.

    Raises:
        ValueError: it is not valid; the message lists allowed values.
    """
    with suppress(ValueError):
        if (tokens := parse_amount(text).tokens) is not None:
            return tokens
    raise ValueError(ALLOWED_TOKENS)


def _amount(value: object) -> Amount:
    if isinstance(value, Amount):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(ALLOWED)
    return parse_amount(str(value))


def _tokens(value: object) -> object:
    return parse_tokens(value) if isinstance(value, str) else value


_NUMBER_OR_TEXT = WithJsonSchema({"type": ["integer", "string"]})
Tokens = Annotated[int, BeforeValidator(_tokens), Field(strict=True), _NUMBER_OR_TEXT]
TokensOrShare = Annotated[
    Amount,
    PlainValidator(_amount),
    PlainSerializer(str, return_type=str),
    Field(description=ALLOWED),
    _NUMBER_OR_TEXT,
]


def _names(value: object) -> object:
    """Split a list with commas, as written in the environment and on the Settings screen."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


Names = Annotated[list[str], BeforeValidator(_names)]

OnOff = Annotated[
    Literal["on", "off"],
    BeforeValidator(on_or_off),
    WithJsonSchema({"enum": ["on", "off", True, False]}),
]
OnOffAuto = Annotated[
    Literal["auto", "on", "off"],
    BeforeValidator(on_or_off),
    WithJsonSchema({"enum": ["auto", "on", "off", True, False]}),
]

BoundTokens = Annotated[
    int,
    BeforeValidator(lambda value: value if str(value) == "0" else _tokens(value)),
    _NUMBER_OR_TEXT,
]
Window = Annotated[Tokens, Field(ge=SMALLEST_WINDOW)]
SoftRatio = Annotated[float, Field(gt=0, le=1)]
