"""Public facts about models, by name: windows, output limits and prices.

In case of doubt, windows and limits are set too low rather than too high. The tables are read on demand,
never before the first paint. `models.toml` is maintained by hand, and `prices.toml` by `make prices`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from foldline.json_text import JsonFields, JsonObject
from foldline.protocol import Usage

from .base import ModelInfo
from .providers import OPENAI, address_of, is_local

DEFAULT_WINDOW = 32_768
"""Window assumed for an unknown model, in tokens.

Most current servers have at least this window.
"""

_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)\Z")
"""Matches the date suffix of a model's name, or the suffix `-latest`."""


class ModelTable(NamedTuple):
    """The bundled tables."""

    date: date
    by_model: Mapping[str, Mapping[str, Any]]
    by_family: Mapping[str, int]
    """Context windows in tokens, by the beginning of a model's name."""


@cache
def table() -> ModelTable:
    prices = _bundled("prices.toml")
    models = _bundled("models.toml")
    rows = dict(prices["models"])
    for name, row in models["models"].items():
        rows[name] = rows.get(name, {}) | row
    return ModelTable(prices["date"], rows, models["families"])


def _bundled(name: str) -> JsonObject:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def model_info(
    model_id: str, base_url: str | None = None, window: int | None = None
) -> ModelInfo:
    """Return the known facts about a model.

    A local server often runs a model with a smaller window than published, so the window is a guess until the
    server has reported it.

    Args:
        window: replaces the known window, in tokens. An unknown model gets `DEFAULT_WINDOW`.
    """
    url = base_url or OPENAI.base_url
    window_from: Literal["set", "table", "guess"] = "guess"
    if window:
        window_from = "set"
    elif is_listed(model_id) and not is_local(url):
        window_from = "table"
    return ModelInfo(
        id=model_id,
        window=window or known_window(model_id) or DEFAULT_WINDOW,
        max_output=known_output(model_id),
        provider=address_of(url),
        window_from=window_from,
    )


def is_listed(model_id: str) -> bool:
    """Return whether the table contains the window of exactly this model."""
    return "window" in _row(model_id)


def known_window(model_id: str) -> int | None:
    """Return the model's window in tokens.

    For an unlisted model, returns the smallest window in its family.
    """
    window: int | None = _row(model_id).get("window")
    if window is not None:
        return window
    # Spellings differ: "Kimi-K2-Instruct", "llama3.1:8b".
    name = plain_name(model_id).replace("-", "")
    for family, size in table().by_family.items():
        if name.startswith(family.replace("-", "")):
            return size
    return None


def known_output(model_id: str) -> int | None:
    """Return the maximum size of an answer, in tokens, if known."""
    return _row(model_id).get("max_output")


def takes_pictures(model_id: str) -> bool | None:
    """Return whether a model accepts images, if the table says so.

    Most unlisted models accept images.
    """
    return _row(model_id).get("pictures")


def plain_name(model_id: str) -> str:
    """Strip provider prefixes: "moonshotai/Kimi-K2-Instruct", "models/gemini-2.5-pro"."""
    return model_id.strip().lower().rsplit("/", 1)[-1]


def spellings(model_id: str) -> tuple[str, ...]:
    """Return the names under which a model may be listed in a table, most specific first."""
    name = plain_name(model_id)
    undated = _DATED.sub("", name)
    if not name.startswith("claude"):
        return name, undated
    # OpenRouter writes claude-sonnet-4.5 for Anthropic's claude-sonnet-4-5.
    return name, undated, undated.replace(".", "-")


def _row(model_id: str) -> Mapping[str, Any]:
    rows = table().by_model
    return next((rows[name] for name in spellings(model_id) if name in rows), {})


_FIELDS = ("input", "cached", "write", "output")


class LongPrice(NamedTuple):
    """Factors that increase the price of a long request.

    They apply to all tokens of the request.
    """

    above: int
    """The factors apply if the input exceeds this number of tokens, including cached ones."""
    input: float
    """Factor for input, including cached input."""
    output: float


HOUR = 2.0
"""Factor on the input price for tokens that Anthropic caches for an hour.

`Price.write` is the factor for five minutes.
"""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices in USD per million tokens."""

    input: float
    cached: float
    """Price of input read from the provider's prompt cache."""
    write: float
    """Factor on `input` for tokens written to the cache.

    1 if writing costs nothing extra.
    """
    output: float
    long: LongPrice | None = None

    def cost(
        self,
        fresh: int,
        cached: int,
        output: int = 0,
        *,
        written: int | None = None,
        written_1h: int = 0,
    ) -> float:
        """Return the price of a request in USD.

        Args:
            fresh: number of input tokens that were not in the cache.
            cached: number of input tokens read from the cache.
            written: number of fresh tokens written to the cache; by default, all of them.
            written_1h: number of written tokens that are kept for an hour.
        """
        if written is None:
            written = fresh
        weighted = (
            (fresh - written) + (written - written_1h) * self.write + written_1h * HOUR
        )
        input_cost = weighted * self.input + cached * self.cached
        output_cost = output * self.output
        if self.long and fresh + cached > self.long.above:
            input_cost *= self.long.input
            output_cost *= self.long.output
        return (input_cost + output_cost) / 1_000_000

    def paid(self, usage: Usage) -> float:
        """Return the price of reported usage in USD."""
        fresh = max(0, usage.input - usage.cached)
        written = usage.written or None
        return self.cost(
            fresh,
            usage.cached,
            usage.output,
            written=written,
            written_1h=usage.written_1h,
        )

    @property
    def cached_ratio(self) -> float:
        return self.cached / self.input if self.input else 1.0

    @property
    def output_ratio(self) -> float:
        return self.output / self.input if self.input else 1.0


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The bundled prices in USD."""

    date: date
    """Date on which the prices were copied from the source."""
    by_model: Mapping[str, Price]


@cache
def price_table() -> PriceTable:
    models = table()
    priced = {
        name: _price(row) for name, row in models.by_model.items() if "input" in row
    }
    return PriceTable(models.date, priced)


def _price(row: JsonFields) -> Price:
    long = LongPrice(**dict(row["long"])) if "long" in row else None  # type: ignore[call-overload]
    return Price(**{name: float(str(row[name])) for name in _FIELDS}, long=long)


CACHED = 0.1
"""Price of cached input, as a share of the price of fresh input.

Most providers charge this share. It is assumed for all others.
"""


def cached_price(model_id: str) -> float:
    """Return the price of reading a cached token, relative to that of writing one."""
    price = price_of(model_id)
    return price.cached_ratio / price.write if price else CACHED


def price_of(model_id: str) -> Price | None:
    """Return the price of a model, if the table has one.

    A provider prefix and a date suffix are ignored, as in `anthropic/claude-opus-4-5-20251101`. Apart from
    these, the name must match exactly: `gpt-5-nano` does not get the price of `gpt-5`.
    """
    by_model = price_table().by_model
    return next(
        (by_model[name] for name in spellings(model_id) if name in by_model), None
    )
