"""What is publicly known about models, by name: windows, output limits, prices. Guesses err low.

The tables, `models.toml` kept by hand and `prices.toml` by `make prices`, are read when somebody asks, never
before the first paint.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from foldline.protocol import Usage

from .base import ModelInfo
from .providers import OPENAI, address_of, is_local

DEFAULT_WINDOW = 32_768
"""Tokens, for a model nobody here has heard of: small enough not to overflow most servers of today."""

_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)\Z")
"""What vendors put behind a name for one edition of a model."""


class Table(NamedTuple):
    """The table that travels with the program."""

    date: date
    source: str
    by_model: Mapping[str, Mapping[str, Any]]
    by_family: Mapping[str, int]
    """Windows, in tokens, by how a name begins."""


@cache
def table() -> Table:
    prices, ours = (
        tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
        for name in ("prices.toml", "models.toml")
    )
    rows = prices["models"] | {
        name: prices["models"].get(name, {}) | row for name, row in ours["models"].items()
    }
    return Table(prices["date"], prices["source"], rows, ours["families"])


def model_info(model_id: str, base_url: str | None = None, window: int | None = None) -> ModelInfo:
    """What is known of a model. `window`, in tokens, overrides; an unknown model gets `DEFAULT_WINDOW`.

    A local server gives a model less than it is known for: until it has said how much, it is a guess.
    """
    url = base_url or OPENAI.base_url
    published = is_listed(model_id) and not is_local(url)
    return ModelInfo(
        id=model_id,
        window=window or known_window(model_id) or DEFAULT_WINDOW,
        max_output=known_output(model_id),
        provider=address_of(url),
        window_from="set" if window else "table" if published else "guess",
    )


def is_listed(model_id: str) -> bool:
    """Whether the table has the window of this very model: it is no guess."""
    return "window" in _row(model_id)


def known_window(model_id: str) -> int | None:
    """In tokens; of a model the table does not have, the smallest of those with names like it."""
    if "window" in (row := _row(model_id)):
        window: int = row["window"]
        return window
    # "Kimi-K2-Instruct", "llama3.1:8b": hyphens apart.
    name = plain_name(model_id).replace("-", "")
    families = table().by_family.items()
    return next((size for known, size in families if name.startswith(known.replace("-", ""))), None)


def known_output(model_id: str) -> int | None:
    """The most tokens an answer may have; None where nobody knows."""
    return _row(model_id).get("max_output")


def takes_pictures(model_id: str) -> bool | None:
    """Whether a model looks at pictures; None where the table does not say, which is most often yes."""
    return _row(model_id).get("pictures")


def plain_name(model_id: str) -> str:
    """Without the providers before it: "moonshotai/Kimi-K2-Instruct", "models/gemini-2.5-pro"."""
    return model_id.strip().lower().rsplit("/", 1)[-1]


def spellings(model_id: str) -> tuple[str, ...]:
    """The names under which a table may have a model, the nearest first."""
    name = plain_name(model_id)
    undated = _DATED.sub("", name)
    # OpenRouter writes claude-sonnet-4.5 what Anthropic calls claude-sonnet-4-5.
    return (name, undated, undated.replace(".", "-")) if name.startswith("claude") else (name, undated)


def _row(model_id: str) -> Mapping[str, Any]:
    rows = table().by_model
    return next((rows[name] for name in spellings(model_id) if name in rows), {})


_FIELDS = ("input", "cached", "write", "output")


class LongPrice(NamedTuple):
    """What a request pays that is long, all of it, as factors on the price."""

    above: int
    """Tokens of input, cached ones included."""
    input: float
    """Of cached input, too."""
    output: float


HOUR = 2.0
"""Factor on the price of input for what Anthropic keeps for an hour; for five minutes it is `Price.write`."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: float
    cached: float
    """Input that the provider's prompt cache had."""
    write: float
    """Factor on `input` for what goes into the cache; 1 where that is free."""
    output: float
    long: LongPrice | None = None

    def cost(
        self, fresh: int, cached: int, output: int = 0, *, written: int | None = None, written_1h: int = 0
    ) -> float:
        """USD of a request with so many tokens of input that are new to the cache, and from the cache.

        Args:
            written: of the new ones, what was written to the cache; all of them, where nobody said.
            written_1h: of that, what is kept for an hour.
        """
        kept = fresh if written is None else written
        weighed = (fresh - kept) + (kept - written_1h) * self.write + written_1h * HOUR
        taken, said = weighed * self.input + cached * self.cached, output * self.output
        if self.long and fresh + cached > self.long.above:
            taken, said = taken * self.long.input, said * self.long.output
        return (taken + said) / 1_000_000

    def paid(self, usage: Usage) -> float:
        """USD of a request, as its provider reported it."""
        fresh = max(0, usage.input - usage.cached)
        written = usage.written or None
        return self.cost(fresh, usage.cached, usage.output, written=written, written_1h=usage.written_1h)

    @property
    def cached_ratio(self) -> float:
        return self.cached / self.input if self.input else 1.0

    @property
    def output_ratio(self) -> float:
        return self.output / self.input if self.input else 1.0


@dataclass(frozen=True, slots=True)
class PriceTable:
    date: date
    """When the prices were taken from their source."""
    source: str
    by_model: Mapping[str, Price]


@cache
def price_table() -> PriceTable:
    """The table that travels with the program."""
    ours = table()
    priced = {model: _price(row) for model, row in ours.by_model.items() if "input" in row}
    return PriceTable(ours.date, ours.source, priced)


def _price(row: Mapping[str, object]) -> Price:
    long = LongPrice(**dict(row["long"])) if "long" in row else None  # type: ignore[call-overload]
    return Price(**{name: float(str(row[name])) for name in _FIELDS}, long=long)


CACHED = 0.1
"""Of the price of fresh input: what most providers ask for what their cache had, and our guess for others."""


def cached_price(model_id: str) -> float:
    """What a cached token costs where a fresh one, with what writing it to the cache costs, is 1."""
    price = price_of(model_id)
    return price.cached_ratio / price.write if price else CACHED


def price_of(model_id: str) -> Price | None:
    """The price of a model; None where the table has none: `gpt-5-nano` is no `gpt-5`.

    Providers in front of the name and a date behind it do not matter: `anthropic/claude-opus-4-5-20251101`.
    """
    by_model = price_table().by_model
    return next((by_model[name] for name in spellings(model_id) if name in by_model), None)
