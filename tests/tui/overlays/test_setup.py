"""The choice of a model: from a provider over a key to a model, by keyboard alone."""

from pathlib import Path

import pytest

from foldline.llm import LLMError
from foldline.tui.overlays.help import HelpScreen
from foldline.tui.overlays.setup import (
    ASKING,
    KEY_PLACEHOLDER,
    MODEL_HINT,
    OPTIONAL_KEY,
    TYPE_MODEL,
    KeyField,
)
from foldline.tui.overlays.setup_servers import OFFLINE, OTHER, Secret, SetupResult
from support.setup_screen import (
    ANTHROPIC,
    DEEPSEEK,
    KEY,
    OLLAMA,
    OPENAI,
    FakeServers,
    SetupDriver,
    offers,
    setup_on,
)

pytestmark = pytest.mark.slow

REFUSED = LLMError("api.openai.com refused the key.", 401)
AWAY = LLMError("api.openai.com cannot be reached: no route to host.")


async def key_step(seen: SetupDriver) -> None:
    await seen.mark(OPENAI)
    await seen.press("enter")
    await seen.shows("Your key for OpenAI")


@pytest.mark.quick
async def test_provider_key_model_and_the_choice_is_written_down() -> None:
    servers = FakeServers(offers("gpt-5", "gpt-5-mini", "o3"))
    async with setup_on(servers) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.shows("•" * len(KEY))
        await seen.press("enter")
        await seen.shows("gpt-5-mini")
        await seen.press(*"o3", "enter")
        await seen.until(lambda: seen.app.results)
        assert servers.requests == [(OPENAI, Secret(KEY))]
        assert (
            seen.app.results
            == servers.choices
            == [SetupResult(OPENAI, "o3", Secret(KEY))]
        )


@pytest.mark.quick
async def test_escape_at_the_first_step_changes_nothing() -> None:
    async with setup_on(FakeServers()) as seen:
        await seen.press("escape")
        await seen.until(lambda: seen.app.results == [None])
        assert seen.app.servers.choices == []


@pytest.mark.quick
async def test_the_built_in_model_needs_nothing_more() -> None:
    async with setup_on(FakeServers()) as seen:
        await seen.mark(OFFLINE)
        await seen.press("enter")
        await seen.until(lambda: seen.app.results)
        assert seen.app.results == [SetupResult(OFFLINE, "offline")]


@pytest.mark.quick
async def test_a_found_key_is_checked_and_not_asked_for() -> None:
    servers = FakeServers(offers("claude-sonnet-5-5"))
    async with setup_on(servers) as seen:
        assert "key in ANTHROPIC_API_KEY" in seen.text
        await seen.press("enter")
        await seen.shows("Choose a model ▸ Anthropic")
        assert servers.requests == [(ANTHROPIC, None)]


@pytest.mark.quick
async def test_a_local_server_wants_no_key() -> None:
    async with setup_on(FakeServers(offers("qwen3:8b"))) as seen:
        await seen.mark(OLLAMA)
        await seen.press("enter")
        await seen.shows("qwen3:8b")


async def test_a_paste_with_a_line_end_is_taken_over_and_submits_nothing() -> None:
    async with setup_on(FakeServers(offers("gpt-5"))) as seen:
        await key_step(seen)
        await seen.paste(f'\n  "{KEY}"\r\n')
        await seen.shows("•" * len(KEY))
        assert seen.app.servers.requests == []
        await seen.press("enter")
        await seen.shows(MODEL_HINT)
        assert (
            seen.app.servers.requests == [(OPENAI, Secret(KEY))]
            and not seen.app.results
        )


async def test_keys_that_come_after_enter_do_not_take_a_model_unseen() -> None:
    servers = FakeServers(offers("gpt-5-mini"))
    async with setup_on(servers) as seen:
        servers.open.clear()
        await key_step(seen)
        await seen.press(*"sk-1", "enter", "enter", "ctrl+j", "enter")
        await seen.shows(ASKING.format(host="api.openai.com"))
        servers.open.set()
        await seen.shows(MODEL_HINT)
        assert len(servers.requests) == 1 and not seen.app.results


async def test_escape_stops_the_check_and_keeps_the_field() -> None:
    servers = FakeServers(offers("gpt-5"))
    async with setup_on(servers) as seen:
        servers.open.clear()
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.shows(ASKING.format(host="api.openai.com"), "Esc")
        await seen.press("escape")
        await seen.until(lambda: "Requesting" not in seen.text)
        await seen.shows("•" * len(KEY))
        servers.open.set()
        await seen.pilot.pause()
        await seen.press("enter")
        await seen.shows(MODEL_HINT)


@pytest.mark.quick
async def test_a_refused_key_stays_for_correction() -> None:
    async with setup_on(FakeServers(REFUSED, offers("gpt-5-mini"))) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.shows(
            "✗ api.openai.com does not accept this key (401).", "•" * len(KEY)
        )
        await seen.press("backspace", "enter")
        await seen.shows(MODEL_HINT)
        assert seen.app.servers.requests[1] == (OPENAI, Secret(KEY[:-1]))


@pytest.mark.quick
async def test_where_the_server_is_away_a_model_is_named_by_hand_or_it_is_asked_again() -> (
    None
):
    async with setup_on(FakeServers(AWAY, AWAY)) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.shows("! api.openai.com cannot be reached", TYPE_MODEL[:18])
        await seen.press("escape")
        await seen.shows("•" * len(KEY))
        await seen.press("enter")
        await seen.until(lambda: len(seen.app.servers.requests) == 2)
        await seen.shows("! api.openai.com cannot be reached")
        await seen.press(*"my-own", "enter")
        await seen.until(lambda: seen.app.results)
        assert seen.app.results == [SetupResult(OPENAI, "my-own", Secret(KEY))]


async def test_a_refused_key_of_the_environment_is_not_asked_for_here() -> None:
    async with setup_on(FakeServers(LLMError("It refused the key.", 403))) as seen:
        await seen.press("enter")
        await seen.shows(
            "✗ It refused the key.", "Correct ANTHROPIC_API_KEY in the environment"
        )
        assert not seen.app.results


@pytest.mark.parametrize("source", [DEEPSEEK, OLLAMA])
async def test_a_server_that_refuses_what_was_kept_is_given_a_key(
    source: object,
) -> None:
    async with setup_on(
        FakeServers(LLMError("It wants another key.", 401), offers("m"))
    ) as seen:
        await seen.mark(source)  # type: ignore[arg-type]
        await seen.press("enter")
        await seen.shows("✗ It wants another key.")
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.shows(MODEL_HINT)
        assert seen.app.servers.requests[1][1] == Secret(KEY)


@pytest.mark.quick
async def test_another_server_is_named_by_its_address() -> None:
    async with setup_on(FakeServers(offers("mine"))) as seen:
        await seen.mark(OTHER)
        await seen.press("enter")
        await seen.press(*"ftp://x", "enter")
        await seen.shows("✗ This is no http or https address.")
        await seen.press(*["backspace"] * 7)
        await seen.paste("http://gpu-box:9000/v1\n")
        await seen.press("enter")
        await seen.shows(OPTIONAL_KEY.format(server="own-server"))
        await seen.press("enter")
        await seen.shows("mine")
        assert [(s.url, key) for s, key in seen.app.servers.requests] == [
            ("http://gpu-box:9000/v1", None)
        ]
        await seen.press("escape")
        await seen.shows("▸ Provider")


async def test_no_key_is_carried_from_one_provider_to_another() -> None:
    async with setup_on(FakeServers(offers("gpt-5"), offers("qwen3"))) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.shows(MODEL_HINT)
        await seen.press("escape")
        await seen.shows("•" * len(KEY))
        await seen.press("escape")
        await seen.shows("▸ Provider")
        await seen.mark(OLLAMA)
        await seen.press("enter")
        await seen.shows("qwen3")
        assert seen.app.servers.requests[1] == (OLLAMA, None)
        await seen.press("enter")
        await seen.until(lambda: seen.app.results)
        assert seen.app.results == [SetupResult(OLLAMA, "qwen3")]


async def test_what_cannot_be_written_down_is_said_and_the_screen_stays() -> None:
    servers = FakeServers(offers("gpt-5"))
    servers.refuses = "config.toml cannot be written: no space left on device."
    async with setup_on(servers) as seen:
        await seen.press("enter")
        await seen.shows(MODEL_HINT)
        await seen.press("enter")
        await seen.shows("✗ config.toml cannot be written: no space left on device.")
        assert not seen.app.results
        servers.refuses = ""
        await seen.press("enter")
        await seen.until(lambda: seen.app.results)


async def test_in_a_session_it_opens_at_the_models_of_the_provider_in_use() -> None:
    servers = FakeServers(offers("gpt-5-mini", "o3"), LLMError("No.", 500))
    servers.too_small = {"o3"}
    async with setup_on(servers, current=("openai", "o3"), step="model") as seen:
        await seen.shows("in use, compacts first")
        await seen.press("down", "enter")
        await seen.shows("▸ Provider", "in use")
        await seen.press("escape")
        await seen.until(lambda: seen.app.results == [None])


async def test_a_thousand_models_are_scrolled_and_filtered() -> None:
    many = [f"vendor-{number % 40}/model-{number:04}" for number in range(1_000)]
    async with setup_on(FakeServers(offers(*many))) as seen:
        await seen.press("enter")
        await seen.shows("of 1000")
        await seen.press("up", "pageup", "up", *"0777")
        await seen.shows("vendor-17/model-0777", "1 of 2")


async def test_help_lists_the_keys_and_gives_the_step_back() -> None:
    async with setup_on(FakeServers()) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("f1")
        assert isinstance(seen.app.screen, HelpScreen)
        await seen.press("escape")
        await seen.shows("•" * len(KEY))
        assert seen.app.screen.query_one(KeyField).has_focus


async def test_the_key_cannot_be_copied_out_of_its_field() -> None:
    async with setup_on(FakeServers()) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("ctrl+shift+a", "ctrl+c", "super+c", "ctrl+x")
        assert KEY not in seen.app.clipboard
        await seen.shows(KEY_PLACEHOLDER)


@pytest.mark.quick
async def test_the_key_is_in_nothing_that_is_drawn_or_said(tmp_path: Path) -> None:
    servers = FakeServers(REFUSED, AWAY, offers("gpt-5"))
    servers.refuses = "The disk is full."
    async with setup_on(servers) as seen:
        drawn = []
        await key_step(seen)
        await seen.paste(KEY)
        for _ in range(4):
            drawn += [
                seen.text,
                seen.app.export_screenshot(),
                repr(vars(seen.app.screen)),
                repr(servers.requests),
            ]
            await seen.press("enter")
            await seen.pilot.pause()
        assert "The disk is full." in seen.text
        assert not [text for text in drawn if KEY in text]


async def test_a_smaller_terminal_keeps_the_field_under_its_line() -> None:
    async with setup_on(FakeServers(offers("gpt-5")), terminal=(60, 12)) as seen:
        await seen.mark(OPENAI)
        await seen.press("enter")
        await seen.paste(KEY[:9])
        assert any("•" * 9 in row and "❯" in row for row in seen.rows)
        await seen.pilot.resize_terminal(30, 8)
        await seen.shows("Too small")
        assert "•" not in seen.text
        await seen.pilot.resize_terminal(80, 24)
        await seen.pilot.pause()
        assert any("•" * 9 in row and "❯" in row for row in seen.rows)
