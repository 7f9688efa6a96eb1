"""What models cost, by name: the dated table in `models.toml`. What is not in it has no price here."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from foldline.protocol import FoldlineError, system_words

_FIELDS = ("input", "cached", "write", "output")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: float
    cached: float
    """Input that the provider's prompt cache had."""
    write: float
    """Factor on `input` for what goes into the cache; 1 where that is free."""
    output: float

    def cost(self, fresh: int, cached: int, output: int = 0) -> float:
        """USD of a request with so many tokens of input that are new to the cache, and from the cache."""
        return (fresh * self.input * self.write + cached * self.cached + output * self.output) / 1_000_000

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
def price_table(path: Path | None = None) -> PriceTable:
    """The table that travels with the program, or one of the user's own.

    Raises:
        FoldlineError: there is no such file, or it is no table of prices.
    """
    if path is None:
        from .models import table

        ours = table()
        priced = {model: _price(row) for model, row in ours.by_model.items() if "input" in row}
        return PriceTable(ours.date, ours.source, priced)
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
    return Price(**{name: float(str(row[name])) for name in _FIELDS})


def price_of(model_id: str, table: PriceTable | None = None) -> Price | None:
    """The price of a model; None where the table has none: `gpt-5-nano` is no `gpt-5`.

    Providers in front of the name and a date behind it do not matter: `anthropic/claude-opus-4-5-20251101`.
    """
    from .models import spellings

    by_model = (table or price_table()).by_model
    return next((by_model[name] for name in spellings(model_id) if name in by_model), None)
