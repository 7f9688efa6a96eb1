"""What models cost, by name: the dated table in `prices.toml`. What is not in it has no price here."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from foldline.protocol import FoldlineError, system_words

_TABLE = Path(__file__).with_name("prices.toml")
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)\Z")
"""What vendors put behind a name for one edition of a model."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: float
    cached: float
    """Input that the provider's prompt cache had."""
    write: float
    """Factor on `input` for what goes into the cache; 1 where that is free."""
    output: float

    @property
    def cached_ratio(self) -> float:
        return self.cached / self.input

    @property
    def output_ratio(self) -> float:
        return self.output / self.input


@dataclass(frozen=True, slots=True)
class PriceTable:
    date: date
    """When the prices were taken from their source."""
    source: str
    by_model: Mapping[str, Price]


@cache
def price_table(path: Path = _TABLE) -> PriceTable:
    """The table that travels with the program, or another one of the same form.

    Raises:
        FoldlineError: there is no such file, or it is no table of prices.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = [({**row}.pop("models"), _price(row)) for row in data["price"]]
        return PriceTable(
            date=date.fromisoformat(str(data["date"])),
            source=str(data["source"]),
            by_model={model.lower(): price for models, price in rows for model in models},
        )
    except OSError as error:
        raise FoldlineError(f"{path} cannot be read: {system_words(error)}.") from None
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise FoldlineError(
            f"{path} is no table of prices ({error}): it needs date, source, and [[price]] with models, "
            "input, cached, write and output, in USD per million tokens."
        ) from None


def _price(row: Mapping[str, object]) -> Price:
    return Price(**{name: float(str(row[name])) for name in ("input", "cached", "write", "output")})


def price_of(model_id: str, table: PriceTable | None = None) -> Price | None:
    """The price of a model; None where the table has none: `gpt-5-nano` is no `gpt-5`.

    Providers in front of the name and a date behind it do not matter: `anthropic/claude-opus-4-5-20251101`.
    """
    name = model_id.strip().lower().rsplit("/", 1)[-1]
    by_model = (table or price_table()).by_model
    return by_model.get(name) or by_model.get(_DATED.sub("", name))
