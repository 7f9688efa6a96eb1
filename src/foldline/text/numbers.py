"""Formats token counts, shares, times and prices for all screens and pages."""

import math
from collections.abc import Sequence


def tokens(count: int, *, estimated: bool = False) -> str:
    """Format a token count: `38`, `0.5k`, `116.2k`, `~1.23M`.

    Args:
        estimated: whether to prefix the count with `~`.
    """
    text = _tokens(max(count, 0))
    return f"~{text}" if estimated else text


def short_tokens(count: int, *, estimated: bool = False) -> str:
    """Format a token count with up to three digits: `131k`, `8.2k`."""
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
    """Format an expected token count: `~5.5k`, `~27k`."""
    if count < 10_000:
        return f"~{_tokens(count)}"
    return f"~{_rounded(count / 1000, 0)}k"


def sized(size: int) -> str:
    """Format a size in bytes, for example `812 B` or `4.1 kB`."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def percent(part: int, whole: int) -> str:
    """Format a share as a percentage: `89%`.

    The result is `100%` only if `part` equals `whole`, and `0%` only if `part` is 0; otherwise it is `<1%`.
    """
    if whole <= 0:
        return "?%"
    if 0 < part * 200 < whole:
        return "<1%"
    value = int(_rounded(part * 100 / whole, 0))
    if part < whole:
        value = min(value, 99)
    return f"{value}%"


def elapsed(seconds: float) -> str:
    """Format an elapsed time: `0:14`, `12:05`, `1:02:03`."""
    all_minutes, second = divmod(max(int(seconds), 0), 60)
    hour, minute = divmod(all_minutes, 60)
    if hour:
        return f"{hour}:{minute:02}:{second:02}"
    return f"{minute}:{second:02}"


def seconds(value: float) -> str:
    """Format a duration: `0.1 s`, `93 s`.

    An infinite duration, or one that is not a number, becomes `? s`.
    """
    if not math.isfinite(value):
        return "? s"
    value = max(value, 0.0)
    digits = 1 if value < 99.95 else 0
    return f"{_rounded(value, digits)} s"


def change(added: int, removed: int) -> str:
    """Format the number of changed lines: `+31 −12`, `+24`, `−3`.

    Returns an empty string if nothing changed.
    """
    parts = []
    if added:
        parts.append(f"+{added}")
    if removed:
        parts.append(f"−{removed}")
    return " ".join(parts)


def price(dollars: float) -> str:
    """Format a price: `$1.84`, `$0.030`.

    A price that would be rounded to `$0.000` becomes `<$0.001`.
    """
    if 0 < dollars < 0.0005:
        return "<$0.001"
    if dollars == 0 or dollars >= 0.1:
        return f"${dollars:.2f}"
    return f"${dollars:.3f}"


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
    """Format a count with its noun: `1 entry`, `1,204 entries`.

    Args:
        more: the plural, if it is not formed by adding "s".
    """
    if count == 1:
        return f"1 {one}"
    return f"{count:,} {more or one + 's'}"


def some(names: Sequence[str], most: int = 4) -> str:
    """Format the first `most` names and the number of others: `a, b and 3 more`."""
    text = ", ".join(names[:most])
    if len(names) <= most:
        return text
    return f"{text} and {len(names) - most:,} more"
