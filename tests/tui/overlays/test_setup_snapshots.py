"""The choice of a model as pictures. Look at them before accepting them."""

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
from foldline.tui.overlays.setup_servers import OFFLINE, OTHER, ModelServer
from support.setup_screen import (
    ANTHROPIC,
    DEEPSEEK,
    KEY,
    OPENAI,
    FakeServers,
    SetupApp,
    SetupDriver,
)

Compare = Callable[..., bool]
EVERYBODY = (
    OFFLINE,
    *(
        {"anthropic": ANTHROPIC, "deepseek": DEEPSEEK}.get(
            each.name,
            ModelServer(
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
    *(
        ListedModel(f"vendor-{number % 7}/model-{number:03}", 131_072)
        for number in range(40)
    ),
]


def taken(
    compare: Compare,
    servers: FakeServers,
    terminal: tuple[int, int],
    play: Callable[[SetupDriver], Awaitable[object]],
    theme: str = "foldline-dark",
    **opened: Any,
) -> bool:
    servers.sources = servers.sources if opened else EVERYBODY
    app = SetupApp(servers, theme, **opened)

    async def run(pilot: Pilot[None]) -> None:
        await play(SetupDriver(app, pilot))

    return compare(app, terminal_size=terminal, run_before=run)


async def nothing(seen: SetupDriver) -> None:
    """As it opens."""


async def refused(seen: SetupDriver) -> None:
    await seen.mark(next(source for source in EVERYBODY if source.name == OPENAI.name))
    await seen.press("enter")
    await seen.paste(KEY)
    await seen.press("enter")
    await seen.until(lambda: "api.openai.com" in seen.text)


def test_providers_in_a_small_terminal(snap_compare: Compare) -> None:
    assert taken(snap_compare, FakeServers(), (80, 24), nothing)


@pytest.mark.slow
def test_providers_without_colour(
    snap_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    assert taken(snap_compare, FakeServers(), (120, 36), nothing)


def test_a_refused_key(snap_compare: Compare) -> None:
    servers = FakeServers(LLMError("It refused the key.", 401))
    assert taken(snap_compare, servers, (80, 24), refused, theme="foldline-light")


@pytest.mark.slow
def test_a_server_that_is_away_in_a_tiny_terminal(snap_compare: Compare) -> None:
    servers = FakeServers(
        LLMError("https://api.openai.com/v1 cannot be reached: no route to host.")
    )
    assert taken(snap_compare, servers, (60, 14), refused)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("size", "theme"),
    [((80, 24), "high-contrast"), ((120, 36), "foldline-dark")],
    ids=["small", "large"],
)
def test_models_in_the_middle_of_a_session(
    snap_compare: Compare, size: tuple[int, int], theme: str
) -> None:
    servers = FakeServers(MODELS)
    servers.too_small = {"gpt-4o", "gpt-oss-20b:free"}

    async def look(seen: SetupDriver) -> None:
        await seen.until(lambda: len(seen.picker.rows) > 9)
        await seen.press("up", "up")

    servers.sources = [
        replace(source, key_in="OPENAI_API_KEY") if source.name == "openai" else source
        for source in EVERYBODY
    ]
    opened = {"current": ("openai", "gpt-5-mini"), "step": "model"}
    assert taken(snap_compare, servers, size, look, theme, **opened)
