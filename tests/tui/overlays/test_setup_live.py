"""The first start, /model and /provider in the running program; the real functions, a real server."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.settings.settings import connect_llm, load_settings
from foldline.cli.agents import agent_for
from foldline.protocol import ModelChange
from foldline.tui.app.app import FoldlineApp
from foldline.tui.app.model_setup import KEY_KEPT, KEY_REMOVED, NO_KEY, OFFLINE_CHOSEN
from foldline.tui.chat.escape_actions import QUIT_WARNING
from foldline.tui.lists.picker import JUST_OPENED
from support.chat_app import Clock
from support.live import Live, session_in
from support.server import MODEL, RunningServer, running_server

pytestmark = pytest.mark.slow

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder the program knows, and an environment that says nothing."""
    folder = tmp_path / "shop-api-home"
    monkeypatch.setenv("FOLDLINE_HOME", str(folder))
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server(key=KEY) as running:
        yield running


@asynccontextmanager
async def started(
    folder: Path,
    *,
    first: bool = False,
    prompt: str = "",
    before: Callable[[FoldlineApp], object] | None = None,
) -> AsyncIterator[Live]:
    """The program as the front door starts it. `before` is done once the chat is painted."""
    from os import environ

    session = session_in(folder)
    settings = load_settings(folder, environ)
    llm = connect_llm(settings, environ)
    agent = agent_for(session, settings, llm, interactive=True)
    clock = Clock()

    def load() -> Agent:
        if before is not None:
            app.call_from_thread(before, app)
        return agent

    app = FoldlineApp(
        load,
        root=folder,
        clock=clock,
        prompts=(prompt,) if prompt else (),
        is_first_start=lambda: first,
    )
    async with app.run_test(size=(100, 30)) as pilot:
        running = Live(app, pilot, llm, agent)  # type: ignore[arg-type]
        await running.until(lambda: app.runner is not None)
        await running.drawn()
        clock.now += (
            2  # past the second in which a screen that came by itself takes no Enter
        )
        yield running


def flat(text: str) -> str:
    """The words of a screen, wherever its lines are broken."""
    return " ".join(text.replace("┃", " ").split())


async def says(running: Live, *words: str) -> None:
    try:
        await running.until(
            lambda: all(flat(word) in flat(running.text) for word in words)
        )
    except TimeoutError:
        raise AssertionError(f"{words} never came:\n{running.text}") from None


def shown(running: Live) -> bool:
    return running.app.screen is not running.app.chat


async def choose(running: Live, server: RunningServer) -> None:
    """From the list of providers to the model of a server of one's own."""
    await running.press("up", "enter")
    await says(running, "Server address")
    await running.press(*server.base_url, "enter")
    await says(running, "if it needs one")
    await running.press(*KEY, "enter")
    await says(running, MODEL)
    await running.press("enter")
    await running.until(lambda: not shown(running))
    await running.at_rest()


@pytest.mark.quick
async def test_the_first_choice_is_made_the_sessions_and_kept(
    tmp_path: Path, home: Path, server: RunningServer
) -> None:
    home.mkdir()
    (home / "config.toml").write_text("# mine\ntheme = 'dusk'  # warm\n")
    async with started(tmp_path / "shop-api", first=True) as running:
        assert shown(running) and "Esc close" in running.text
        await choose(running, server)
        assert MODEL in running.screen[0]
        assert [
            entry.model for entry in running.entries if isinstance(entry, ModelChange)
        ] == [MODEL]
        await running.ask("hello")
        await says(running, "You said: hello")
    config = (home / "config.toml").read_text()
    assert config.startswith("# mine\ntheme = 'dusk'  # warm\n")
    assert (
        f'model = "{MODEL}"' in config and f'base_url = "{server.base_url}"' in config
    )
    async with started(tmp_path / "shop-api") as running:
        assert not shown(running) and MODEL in running.screen[0]


async def test_a_key_is_written_to_its_file_and_nowhere_else(
    tmp_path: Path, home: Path, server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    heard: list[str] = []
    async with started(tmp_path / "shop-api", first=True) as running:
        running.agent.executor.subscribe(lambda event: heard.append(repr(event)))
        await choose(running, server)
        await running.ask("hello")
        heard += [
            running.text,
            running.app.export_screenshot(),
            repr(running.app.state),
            caplog.text,
        ]
    assert heard and not [text for text in heard if KEY in text]
    holding = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert holding == [home / "keys.toml"]
    assert holding[0].stat().st_mode & 0o777 == 0o600


async def test_logging_out_removes_the_key_once_it_is_agreed_to(
    tmp_path: Path, home: Path, server: RunningServer
) -> None:
    async with started(tmp_path / "shop-api", first=True) as running:
        await choose(running, server)
        for answer, holds in (("escape", True), ("down", False)):
            await running.enter("/provider logout")
            await says(running, "Log out of 127-0-0-1")
            await running.press(answer, *["enter"] * (answer == "down"))
            await says(running, KEY_KEPT if holds else KEY_REMOVED.partition("}")[2])
            assert (KEY in (home / "keys.toml").read_text()) is holds
        await running.enter("/provider logout")
        await says(running, NO_KEY)


async def test_skipping_leaves_the_offline_model_and_names_the_way_back(
    tmp_path: Path, home: Path
) -> None:
    async with started(
        tmp_path / "shop-api", first=True, prompt="who are you?"
    ) as running:
        assert shown(running) and not running.entries, "the prompt waits"
        await running.press("escape")
        await running.until(lambda: len(running.entries) > 3)
        await says(running, "I am the offline model", OFFLINE_CHOSEN)
        await running.at_rest()
        await running.ask("and now?")
    assert not (home / "config.toml").exists()


async def test_the_prompt_of_the_command_line_goes_to_the_model_that_is_chosen(
    tmp_path: Path, home: Path, server: RunningServer
) -> None:
    async with started(
        tmp_path / "shop-api", first=True, prompt="hello you"
    ) as running:
        await choose(running, server)
        await says(running, "You said: hello you")


async def test_who_is_typing_already_is_not_interrupted(
    tmp_path: Path, home: Path
) -> None:
    def type_early(app: FoldlineApp) -> None:
        app.chat.prompt.editor.insert("who are you?")

    async with started(tmp_path / "shop-api", first=True, before=type_early) as running:
        assert not shown(running) and running.editor_text == "who are you?"
        await running.press("enter")
        await running.until(lambda: shown(running))
        assert not running.entries
        await running.press("escape")
        await says(running, "I am the offline model")
        await running.at_rest()
        await running.ask("again")
        assert not shown(running)


async def test_an_enter_that_was_meant_for_the_chat_chooses_nothing(
    tmp_path: Path, home: Path
) -> None:
    async with started(tmp_path / "shop-api", first=True) as running:
        clock = running.app._clock
        assert isinstance(clock, Clock)
        clock.now -= 2
        await running.press("enter")
        await says(running, JUST_OPENED)
        assert shown(running) and not (home / "config.toml").exists()
        clock.now += 2
        await running.press("enter")
        await running.until(lambda: not shown(running))
    assert (home / "config.toml").read_text() == 'model = "offline"\n'


async def test_model_without_a_name_shows_the_models_of_the_provider_in_use(
    tmp_path: Path, home: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with started(tmp_path / "shop-api") as running:
        await running.ask("hello")
        await running.enter("/model")
        await says(running, f"{MODEL}  in use", "32.8k")
        await running.press(*"other", "enter")
        await says(running, "▸ Provider", "127.0.0.1", "in use")
        await running.press(*"offline", "enter")
        await running.until(lambda: not shown(running))
        await running.at_rest()
        assert "offline" in running.screen[0]
        await running.enter("/provider")
        await says(running, "▸ Provider")
        await running.press("down", "enter")
        await says(running, MODEL)
        await running.press("enter")
        await running.until(lambda: not shown(running))
        await running.at_rest()
        assert MODEL in running.screen[0]


async def test_ctrl_c_says_on_the_screen_that_it_quits_when_pressed_again(
    tmp_path: Path, home: Path
) -> None:
    async with started(tmp_path / "shop-api", first=True) as running:
        await running.press("ctrl+c")
        await says(running, QUIT_WARNING)
        await running.press("ctrl+c")
        await running.until(
            lambda: running.app.return_code == 0 or not running.app.is_running
        )


async def test_a_file_of_keys_that_others_can_read_is_said_and_not_used(
    tmp_path: Path, home: Path
) -> None:
    async with started(tmp_path / "shop-api") as running:
        home.mkdir(exist_ok=True)
        (home / "keys.toml").write_text(f'[keys]\ndeepseek = "{KEY}"\n')
        (home / "keys.toml").chmod(0o644)
        await running.enter("/provider")
        await says(running, "other users of this machine can read it")
        assert "key in keys.toml" not in running.text
