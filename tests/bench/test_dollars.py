"""The cost of ten turns of reading with each preset, in dollars at dated prices.

With the preset's cache and without; the latter was the price of Claude at the compatible endpoint.
"""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from bench.tables import table
from foldline.llm.models import price_of, price_table
from support.reading_turns import Run, read_files

MODELS = {
    "openai": "gpt-5.5",
    "openai-responses": "gpt-5.5",
    "anthropic": "claude-sonnet-5-5",
    "openrouter": "anthropic/claude-sonnet-5.5",
    "gemini": "gemini-3.5-flash",
    "moonshot": "kimi-k2.5",
    "deepseek": "deepseek-v4-pro",
    "mistral": "mistral-medium-latest",
    "xai": "grok-4.7",
}
"""A model with a price and a cache for each preset."""
LINES = 400
"""Lines of each of twenty files: about 4,000 tokens."""


@pytest.mark.parametrize("preset", MODELS)
def test_what_ten_turns_cost(
    benchmark: Callable[..., object], tmp_path: Path, preset: str
) -> None:
    name, price = MODELS[preset], price_of(MODELS[preset])
    assert price is not None
    model = name if preset == "openrouter" else "scripted-1"
    run: Run = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: asyncio.run(read_files(tmp_path, preset, model, lines=LINES)), rounds=1
    )
    sent = sum(seen.prompt_tokens for seen in run.requests)
    cached = sum(seen.cached_tokens for seen in run.requests)
    answered_tokens = sum(seen.completion_tokens for seen in run.requests)
    now = sum(
        price.cost(s.prompt_tokens - s.cached_tokens, s.cached_tokens)
        for s in run.requests
    )
    without = sum(price.cost(seen.prompt_tokens, 0, written=0) for seen in run.requests)
    output = table(
        f"Ten turns that read 20 files, in dollars at the prices of {price_table().date:%d %B %Y}",
        *(
            "preset",
            "model",
            "requests",
            "input",
            "cached",
            "output",
            "USD",
            "without a cache",
            "times",
        ),
    )
    output.row(
        *(
            preset,
            name,
            len(run.requests),
            f"{sent:,}",
            f"{cached / sent:.1%}",
            f"{answered_tokens:,}",
        ),
        *(f"{now:.3f}", f"{without:.3f}", f"{without / now:.1f}"),
    )
    output.note(
        "USD of the input alone: what is said costs the same with and without a cache"
    )
    grown = [
        pair
        for pair in pairwise(run.requests)
        if pair[1].prompt_tokens > pair[0].prompt_tokens
    ]
    resent = sum(before.prompt_tokens for before, _ in grown)
    assert sum(after.cached_tokens for _, after in grown) >= 0.95 * resent, (
        "what was sent before is cached"
    )
    assert now < without / 2
