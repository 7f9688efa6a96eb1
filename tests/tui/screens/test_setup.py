"""The setup screen: from a provider over a key to a model, by keyboard alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from foldline.llm import LLMError
from foldline.tui.screens.help import HelpScreen
from foldline.tui.screens.setup import KeyField
from foldline.tui.screens.setup_servers import OFFLINE, OTHER, Choice, Secret
from support.setup_screen import (
    ANTHROPIC,
    DEEPSEEK,
    KEY,
    OLLAMA,
    OPENAI,
    MadeUp,
    Seen,
    offers,
    setup_on,
)

REFUSED = LLMError("api.openai.com refused the key.", 401)
AWAY = LLMError("api.openai.com cannot be reached: no route to host.")


async def key_step(seen: Seen) -> None:
    await seen.mark(OPENAI)
    await seen.press("enter")
    await seen.says("Your key for OpenAI")


async def test_provider_key_model_and_the_choice_is_written_down() -> None:
    servers = MadeUp(offers("gpt-5", "gpt-5-mini", "o3"))
    async with setup_on(servers) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.says("•" * len(KEY))
        await seen.press("enter")
        await seen.says("3 of 3", "gpt-5-mini")
        await seen.press(*"o3", "enter")
        await seen.until(lambda: seen.app.left)
        assert servers.asked == [(OPENAI, Secret(KEY))]
        assert seen.app.left == servers.kept == [Choice(OPENAI, "o3", Secret(KEY))]


async def test_escape_at_the_first_step_changes_nothing() -> None:
    async with setup_on(MadeUp()) as seen:
        await seen.press("escape")
        assert seen.app.left == [None] and seen.app.servers.kept == []


async def test_the_built_in_model_needs_nothing_more() -> None:
    async with setup_on(MadeUp()) as seen:
        await seen.mark(OFFLINE)
        await seen.press("enter")
        await seen.until(lambda: seen.app.left)
        assert seen.app.left == [Choice(OFFLINE, "offline")]


async def test_a_found_key_is_checked_and_not_asked_for() -> None:
    servers = MadeUp(offers("claude-sonnet-5-5"))
    async with setup_on(servers) as seen:
        assert "key in ANTHROPIC_API_KEY" in seen.text
        await seen.press("enter")
        await seen.says("3 of 3", "Choose a model ▸ Anthropic")
        assert servers.asked == [(ANTHROPIC, None)]


async def test_a_local_server_wants_no_key() -> None:
    async with setup_on(MadeUp(offers("qwen3:8b"))) as seen:
        await seen.mark(OLLAMA)
        await seen.press("enter")
        await seen.says("3 of 3", "qwen3:8b")


async def test_a_paste_with_a_line_end_is_taken_over_and_submits_nothing() -> None:
    async with setup_on(MadeUp(offers("gpt-5"))) as seen:
        await key_step(seen)
        await seen.paste(f'\n  "{KEY}"\r\n')
        await seen.says("•" * len(KEY))
        assert seen.app.servers.asked == []
        await seen.press("enter")
        await seen.says("3 of 3")
        assert seen.app.servers.asked == [(OPENAI, Secret(KEY))] and not seen.app.left


async def test_keys_that_come_after_enter_do_not_take_a_model_unseen() -> None:
    servers = MadeUp(offers("gpt-5-mini"))
    async with setup_on(servers) as seen:
        servers.open.clear()
        await key_step(seen)
        await seen.press(*"sk-1", "enter", "enter", "ctrl+j", "enter")
        await seen.says("Asking api.openai.com")
        servers.open.set()
        await seen.says("3 of 3")
        assert len(servers.asked) == 1 and not seen.app.left


async def test_escape_stops_the_check_and_keeps_the_field() -> None:
    servers = MadeUp(offers("gpt-5"))
    async with setup_on(servers) as seen:
        servers.open.clear()
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.says("Asking api.openai.com", "Esc stop")
        await seen.press("escape")
        await seen.says("Enter check the key", "•" * len(KEY))
        servers.open.set()
        await seen.pilot.pause()
        assert seen.state.step == "key"
        await seen.press("enter")
        await seen.says("3 of 3")


async def test_a_refused_key_stays_for_correction() -> None:
    async with setup_on(MadeUp(REFUSED, offers("gpt-5-mini"))) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.says("✗ api.openai.com does not take this key (401).", "•" * len(KEY))
        await seen.press("backspace", "enter")
        await seen.says("3 of 3")
        assert seen.app.servers.asked[1] == (OPENAI, Secret(KEY[:-1]))


async def test_where_the_server_is_away_a_model_is_named_by_hand_or_it_is_asked_again() -> None:
    async with setup_on(MadeUp(AWAY, AWAY)) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.says("3 of 3", "! api.openai.com cannot be reached", "Name a model to go on")
        await seen.press("escape")
        await seen.says("2 of 3", "•" * len(KEY))
        await seen.press("enter")
        await seen.until(lambda: len(seen.app.servers.asked) == 2)
        await seen.says("3 of 3", "! api.openai.com cannot be reached")
        await seen.press(*"my-own", "enter")
        await seen.until(lambda: seen.app.left)
        assert seen.app.left == [Choice(OPENAI, "my-own", Secret(KEY))]


async def test_a_refused_key_of_the_environment_is_not_asked_for_here() -> None:
    async with setup_on(MadeUp(LLMError("It refused the key.", 403))) as seen:
        await seen.press("enter")
        await seen.says("✗ It refused the key.", "Correct ANTHROPIC_API_KEY where it is set")
        assert seen.state.step == "provider"


@pytest.mark.parametrize("source", [DEEPSEEK, OLLAMA])
async def test_a_server_that_refuses_what_was_kept_is_given_a_key(source: object) -> None:
    async with setup_on(MadeUp(LLMError("It wants another key.", 401), offers("m"))) as seen:
        await seen.mark(source)  # type: ignore[arg-type]
        await seen.press("enter")
        await seen.says("✗ It wants another key.")
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.says("3 of 3")
        assert seen.app.servers.asked[1][1] == Secret(KEY)


async def test_another_server_is_named_by_its_address() -> None:
    async with setup_on(MadeUp(offers("mine"))) as seen:
        await seen.mark(OTHER)
        await seen.press("enter")
        await seen.press(*"ftp://x", "enter")
        await seen.says("✗ This is no http or https address.")
        await seen.press(*["backspace"] * 7)
        await seen.paste("http://gpu-box:9000/v1\n")
        await seen.press("enter")
        await seen.says("A key for own-server, if it wants one")
        await seen.press("enter")
        await seen.says("3 of 3", "mine")
        assert [(s.url, key) for s, key in seen.app.servers.asked] == [("http://gpu-box:9000/v1", None)]
        await seen.press("escape")
        await seen.says("1 of 3")


async def test_no_key_is_carried_from_one_provider_to_another() -> None:
    async with setup_on(MadeUp(offers("gpt-5"), offers("qwen3"))) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("enter")
        await seen.says("3 of 3")
        await seen.press("tab")
        await seen.mark(OLLAMA)
        await seen.press("enter")
        await seen.says("qwen3")
        assert seen.app.servers.asked[1] == (OLLAMA, None)
        assert seen.app.setup.query_one(KeyField).value == ""
        await seen.press("enter")
        await seen.until(lambda: seen.app.left)
        assert seen.app.left == [Choice(OLLAMA, "qwen3")]


async def test_what_cannot_be_written_down_is_said_and_the_screen_stays() -> None:
    servers = MadeUp(offers("gpt-5"))
    servers.refuses = "config.toml cannot be written: no space left on device."
    async with setup_on(servers) as seen:
        await seen.press("enter")
        await seen.says("3 of 3")
        await seen.press("enter")
        await seen.says("✗ config.toml cannot be written: no space left on device.")
        assert not seen.app.left
        servers.refuses = ""
        await seen.press("enter")
        await seen.until(lambda: seen.app.left)


async def test_in_a_session_it_opens_at_the_models_of_the_provider_in_use() -> None:
    servers = MadeUp(offers("gpt-5-mini", "o3"), LLMError("No.", 500))
    servers.too_small = {"o3"}
    async with setup_on(servers, current=("openai", "o3"), step="model") as seen:
        await seen.says("3 of 3", "o3  in use  compacts first", "Esc cancel")
        await seen.press("tab")
        await seen.says("1 of 3", "in use")
        await seen.press("escape")
        assert seen.app.left == [None]


async def test_a_thousand_models_are_scrolled_and_filtered() -> None:
    many = [f"vendor-{number % 40}/model-{number:04}" for number in range(1_000)]
    async with setup_on(MadeUp(offers(*many))) as seen:
        await seen.press("enter")
        await seen.says("1 of 1,000")
        await seen.press("ctrl+end")
        assert "1,000 of 1,000" in seen.text
        await seen.press("pageup", "up", "home", *"0777")
        await seen.says("vendor-17/model-0777")
        assert len(seen.state.rows) == 2, "the one, and the words as a name"


async def test_help_lists_the_keys_and_gives_the_step_back() -> None:
    async with setup_on(MadeUp()) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("f1")
        assert isinstance(seen.app.screen, HelpScreen)
        await seen.press("escape")
        await seen.says("•" * len(KEY))
        assert seen.app.setup.query_one(KeyField).has_focus


async def test_the_key_cannot_be_copied_out_of_its_field() -> None:
    async with setup_on(MadeUp()) as seen:
        await key_step(seen)
        await seen.paste(KEY)
        await seen.press("ctrl+shift+a", "ctrl+c", "super+c", "ctrl+x")
        assert KEY not in seen.app.clipboard
        await seen.says("paste or type it")


async def test_the_key_is_in_nothing_that_is_drawn_or_said(tmp_path: Path) -> None:
    servers = MadeUp(REFUSED, AWAY, offers("gpt-5"))
    servers.refuses = "The disk is full."
    async with setup_on(servers) as seen:
        drawn = []
        await key_step(seen)
        await seen.paste(KEY)
        for _ in range(4):
            drawn += [seen.text, seen.app.export_screenshot(), repr(vars(seen.state)), repr(servers.asked)]
            await seen.press("enter")
            await seen.pilot.pause()
        assert "The disk is full." in seen.text
        assert not [text for text in drawn if KEY in text]


async def test_a_smaller_terminal_keeps_the_field_under_its_line() -> None:
    async with setup_on(MadeUp(offers("gpt-5")), terminal=(60, 12)) as seen:
        await seen.mark(replace(OPENAI))
        await seen.press("enter")
        await seen.paste(KEY[:9])
        assert any("•" * 9 in row and "❯" in row for row in seen.rows)
        await seen.pilot.resize_terminal(30, 8)
        await seen.says("Too small")
        assert "•" not in seen.text
        await seen.pilot.resize_terminal(80, 24)
        await seen.pilot.pause()
        assert any("•" * 9 in row and "❯" in row for row in seen.rows)
