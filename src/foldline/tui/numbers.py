"""Numbers as the screens show them. They are made in `context.numbers`, which exported pages use as well."""

from foldline.context.numbers import (
    about_tokens,
    change,
    elapsed,
    percent,
    price,
    seconds,
    short_tokens,
    sizes,
    tokens,
)

__all__ = [
    "about_tokens",
    "change",
    "elapsed",
    "percent",
    "price",
    "seconds",
    "short_tokens",
    "sizes",
    "tokens",
]
