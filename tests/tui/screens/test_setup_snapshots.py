"""The setup screen as pictures. Look at them before accepting them: `--snapshot-update`, then svg2png."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from foldline.llm import LLMError
from foldline.llm.listing import ListedModel
from foldline.llm.models import Price
from foldline.llm.providers import PROVIDERS
from foldline.tui.screens.setup_servers import OFFLINE, OTHER, Source
from support.setup_screen import ANTHROPIC, DEEPSEEK, KEY, OPENAI, MadeUp, Seen, SetupApp

Compare = Callable[..., bool]
EVERYBODY = (
    OFFLINE,
    *(
        {"anthropic": ANTHROPIC, "deepseek": DEEPSEEK}.get(
            each.name,
            Source(
                each.name,
                each.title,
                each.base_url,
                key_env=each.key_env,
                key="needed" if each.key_env else "none",
                default_model=each.default_model,
                key_page=each.key_page,
            ),
        )
        for each in PROVIDERS.values()
    ),
    OTHER,
)
MODELS = [
    ListedModel("gpt-5-mini", 400_000, 128_000, Price(0.25, 0.025, 1, 2.0)),
    ListedModel("gpt-5", 400_000, 128_000, Price(1.25, 0.125, 1, 10.0)),
    ListedModel("gpt-4o", 128_000, 16_384, Price(2.5, 1.25, 1, 10), pictures=True),
    ListedModel("gpt-oss-20b:free", 131_072, None, Price(0, 0, 1, 0)),
    ListedModel("深度求索/模型-8b [/nope]", None),
    *(ListedModel(f"vendor-{number % 7}/model-{number:03}", 131_072) for number in range(40)),
]


def taken(
    compare: Compare,
    servers: MadeUp,
    terminal: tuple[int, int],
    play: Callable[[Seen], Awaitable[object]],
    theme: str = "foldline-dark",
    **opened: Any,
) -> bool:
    servers.sources = servers.sources if opened else EVERYBODY
    app = SetupApp(servers, theme, **opened)

    async def run(pilot: Pilot[None]) -> None:
        await play(Seen(app, pilot))

    return compare(app, terminal_size=terminal, run_before=run)


async def nothing(seen: Seen) -> None:
    """As it opens."""


async def refused(seen: Seen) -> None:
    await seen.mark(next(source for source in seen.state.sources if source.name == OPENAI.name))
    await seen.press("enter")
    await seen.paste(KEY)
    await seen.press("enter")
    await seen.until(lambda: seen.state.said[0])


def test_providers_in_a_small_terminal(snap_compare: Compare) -> None:
    assert taken(snap_compare, MadeUp(), (80, 24), nothing)


def test_providers_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    assert taken(snap_compare, MadeUp(), (120, 36), nothing)


def test_a_refused_key(snap_compare: Compare) -> None:
    servers = MadeUp(LLMError("It refused the key.", 401))
    assert taken(snap_compare, servers, (80, 24), refused, theme="foldline-light")


def test_a_server_that_is_away_in_a_tiny_terminal(snap_compare: Compare) -> None:
    servers = MadeUp(LLMError("https://api.openai.com/v1 cannot be reached: no route to host."))
    assert taken(snap_compare, servers, (60, 14), refused)


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "high-contrast"), ((120, 36), "foldline-dark")], ids=["small", "large"]
)
def test_models_in_the_middle_of_a_session(snap_compare: Compare, size: tuple[int, int], theme: str) -> None:
    servers = MadeUp(MODELS)
    servers.too_small = {"gpt-4o", "gpt-oss-20b:free"}

    async def look(seen: Seen) -> None:
        await seen.until(lambda: len(seen.state.rows) > 9)
        await seen.press("up", "up")

    servers.sources = [
        replace(source, key_in="OPENAI_API_KEY") if source.name == "openai" else source
        for source in EVERYBODY
    ]
    opened = {"current": ("openai", "gpt-5-mini"), "step": "model"}
    assert taken(snap_compare, servers, size, look, theme, **opened)
