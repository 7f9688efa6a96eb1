"""Commands and skills that lie on disk, on the screen: completion, palette, `/skill`, and the transcript."""

from pathlib import Path

import pytest

from foldline.agent.extensions.catalogue import NOT_APPROVED
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.palette import Palette
from foldline.tui.transcript.rows import EXPANDED_COMMAND
from support.chat_app import Clock
from support.homes import put, usual_home, usual_project
from support.live import live

pytestmark = [pytest.mark.usefixtures("data_folder"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    usual_home(tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.quick
async def test_they_complete_with_what_they_do_and_run_as_a_prompt(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "work", "Reviewed.") as running:
        await running.until(lambda: running.app.state.own_commands)
        await running.type("/revi")
        await running.until(lambda: "Reviews a change" in running.text)
        assert "/review [path] [focus]" in running.text
        await running.press("enter")
        assert running.editor_text == "/review ", "something may stand behind it"
        await running.type("src")
        await running.press("enter")
        await running.until(lambda: "Reviewed." in running.text)
        assert "❯ /review src" in running.text and EXPANDED_COMMAND in running.text
        assert "slash-command" not in running.text
        assert (
            "Review src as a stranger would."
            in running.llm.requests[0].messages[-1].text
        )
        await running.press("up")
        assert running.editor_text == "/review src"


async def test_one_that_comes_while_the_program_runs_is_offered_with_the_next_slash(
    tmp_path: Path, home: Path
) -> None:
    async with live(tmp_path / "work", "Done.") as running:
        await running.until(lambda: running.app.state.own_commands)
        put(home / ".claude/commands/greet.md", "Say hello.")
        await running.type("/")
        await running.until(
            lambda: any(each.name == "greet" for each in running.app.state.own_commands)
        )
        await running.type("greet")
        await running.press("enter")
        await running.until(lambda: "Done." in running.text)
        assert "Say hello." in running.llm.requests[0].messages[-1].text


async def test_the_palette_puts_one_into_the_prompt(tmp_path: Path) -> None:
    async with live(tmp_path / "work") as running:
        await running.until(lambda: running.app.state.own_commands)
        await running.press("ctrl+p")
        await running.until(lambda: isinstance(running.app.screen, Palette))
        await running.press(*"ticket")
        await running.until(lambda: "Write a ticket about" in running.text)
        await running.press("enter")
        await running.until(lambda: running.editor_text == "/ticket ")


@pytest.mark.quick
async def test_skill_lists_loads_and_unloads(tmp_path: Path) -> None:
    async with live(tmp_path / "work") as running:
        await running.until(lambda: running.app.state.own_commands)
        await running.enter("/skill")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert (
            "Fills in PDF forms. (~/.claude/skills/pdf-forms/SKILL.md)" in running.text
        )
        await running.press(*"pdf")
        await running.press("enter")
        await running.until(lambda: "pdf-forms is loaded" in running.text)
        await running.enter("/skill")
        await running.until(
            lambda: "unload pdf-forms" in running.text and "tokens" in running.text
        )
        await running.press("enter")
        await running.until(lambda: not running.agent.state.projection.pins)
        await running.enter("/skill nope")
        await running.until(lambda: "There is no skill 'nope'" in running.text)
        await running.enter("/skill unload nope")
        await running.until(lambda: "'nope' is not loaded" in running.text)


async def test_one_of_the_project_asks_before_it_is_used_and_then_goes(
    tmp_path: Path,
) -> None:
    usual_project(tmp_path / "work")
    clock = Clock()
    async with live(tmp_path / "work", "Fixed.", clock=clock) as running:
        await running.until(lambda: running.app.state.own_commands)
        await running.type("/fix")
        await running.until(lambda: NOT_APPROVED in running.text)
        await running.press("enter")
        await running.type(" 12")
        await running.press("enter")
        await running.until(lambda: "Use them" in running.text)
        assert (
            ".claude/skills/deploy/SKILL.md: 5 lines of a skill: “Deploys the shop.”"
            in " ".join(running.text.replace("│", " ").split())
        )
        clock.now += 2
        await running.press("1")
        await running.until(lambda: "Fixed." in running.text)
        assert "Fix issue #12" in running.llm.requests[0].messages[-1].text
