"""The one formatter of numbers: each token count, share, time and price on screens and pages is from here."""

import math
from collections.abc import Sequence


def tokens(count: int, *, estimated: bool = False) -> str:
    """A token count: `38`, `0.5k`, `116.2k`, `1.23M`; `~` in front of an estimate."""
    return ("~" if estimated else "") + _tokens(max(count, 0))


def short_tokens(count: int, *, estimated: bool = False) -> str:
    """A token count in three digits or so, for windows and caches: `131k`, `26.6k`, `32k`, `8.2k`, `1M`."""
    if estimated:
        return f"~{short_tokens(count)}"
    count = max(count, 0)
    if count < 100:
        return str(count)
    if count < 99_950:
        return _rounded(count / 1000, 1).removesuffix(".0") + "k"
    if count < 999_500:
        return _rounded(count / 1000, 0) + "k"
    return _rounded(count / 1_000_000, 2).rstrip("0").rstrip(".") + "M"


def about_tokens(count: int) -> str:
    """What a plan expects, in whole thousands: `~27k`; below ten thousand in hundreds: `~5.5k`."""
    return f"~{_tokens(count)}" if count < 10_000 else f"~{_rounded(count / 1000, 0)}k"


def percent(part: int, whole: int) -> str:
    """`89%`. Never `100%` below the whole, and `<1%` rather than nothing for something."""
    if whole <= 0:
        return "?%"
    if 0 < part * 200 < whole:
        return "<1%"
    value = int(_rounded(part * 100 / whole, 0))
    return f"{min(value, 99) if part < whole else value}%"


def elapsed(seconds: float) -> str:
    """Time that runs: `0:14`, `12:05`, `1:02:03`."""
    whole = max(int(seconds), 0)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def seconds(value: float) -> str:
    """Time something took: `0.1 s`, `1.4 s`, `93 s`; `? s` where a record says what is no time."""
    if not math.isfinite(value):
        return "? s"
    value = max(value, 0.0)
    return f"{_rounded(value, 1)} s" if value < 99.95 else f"{_rounded(value, 0)} s"


def change(added: int, removed: int) -> str:
    """Lines added and removed: `+31 −12`, `+24`, `−3`; empty where nothing is known to have changed."""
    parts = (f"+{added}" if added else "", f"−{removed}" if removed else "")
    return " ".join(part for part in parts if part)


def price(dollars: float) -> str:
    """`$1.84`; `$0.030` where cents say too little; `<$0.001` rather than nothing for something."""
    if 0 < dollars < 0.0005:
        return "<$0.001"
    return f"${dollars:.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.3f}"


def _tokens(count: int) -> str:
    if count < 100:
        return str(count)
    if count < 999_950:
        return f"{_rounded(count / 1000, 1)}k"
    return f"{_rounded(count / 1_000_000, 2)}M"


def _rounded(value: float, places: int) -> str:
    factor = 10**places
    return f"{math.floor(value * factor + 0.5 + 1e-9) / factor:.{places}f}"


def many(count: int, one: str, more: str = "") -> str:
    """A count and what is counted: `1 entry`, `1,204 entries`; `more` where the plural is not an s."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def some(names: Sequence[str], most: int = 4) -> str:
    """The first of some names, and how many more there are: `a, b, c, d and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
