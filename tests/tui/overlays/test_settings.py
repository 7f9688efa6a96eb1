"""The Settings screen: what is seen of each setting, and changing it without a look at the file."""

import stat
from pathlib import Path

import pytest

from foldline.agent.settings.schema import ADVANCED, KEYS, LABELS
from foldline.tui.lists.picker import NO_MATCH
from foldline.tui.overlays.settings import IN_EFFECT, UNFOLD
from support.settings_screen import OWN, SettingsFile, settings_on
from support.trust import bring

pytestmark = pytest.mark.usefixtures("data_folder")


async def test_every_setting_there_is_is_listed_with_its_value_and_who_set_it(
    tmp_path: Path,
) -> None:
    kept = SettingsFile(
        tmp_path,
        environ={"FOLDLINE_CONTEXT_WINDOW": "32k"},
        **{"compaction.strategy": "hide"},
    )
    bring(kept.cwd / ".foldline.toml", "[compaction]\nsoft_ratio = 0.5\n")
    async with settings_on(kept, size=(120, 48)) as seen:
        assert set(seen.state.settings) >= set(KEYS)
        rows = {
            each.key: (each.value, each.origin.rpartition("/")[2])
            for each in seen.state.settings.values()
        }
        assert rows["compaction.mode"] == ("ask", "config.toml")
        assert rows["compaction.soft_ratio"] == ("0.5", ".foldline.toml")
        assert rows["context.window"] == ("32000", "FOLDLINE_CONTEXT_WINDOW")
        assert rows["compaction.strategy"] == ("hide", "command line")
        assert rows["offline.pace"] == ("0.008", "")
        await seen.mark("context.window")
        assert "FOLDLINE_CONTEXT_WINDOW overrides" in seen.text
        assert "planted-secret" not in seen.text and "planted-secret" not in repr(
            seen.state.settings
        )


async def test_advanced_settings_are_folded_unless_they_are_set_or_searched_for(
    tmp_path: Path,
) -> None:
    kept = SettingsFile(tmp_path, environ={"FOLDLINE_CONTEXT__DMAIL": "true"})
    async with settings_on(kept) as seen:
        keys = [row.choice.id for row in seen.state.rows]
        assert {*keys} == {*KEYS} - {*ADVANCED} | {"context.dmail", UNFOLD}
        await seen.press(*"pace")
        assert seen.state.rows[0].choice.id == "offline.pace"
        await seen.press(*["backspace"] * 4, "up", "delete", "enter")
        assert [row.choice.id for row in seen.state.rows] == sorted(
            KEYS, key=ADVANCED.__contains__
        )


def test_every_setting_has_a_label_of_its_own() -> None:
    assert list(LABELS) == list(KEYS)
    assert len(set(LABELS.values())) == len(KEYS)


async def test_what_is_chosen_from_a_list_changes_only_its_line_of_the_file(
    tmp_path: Path,
) -> None:
    kept = SettingsFile(tmp_path)
    async with settings_on(kept) as seen:
        kept.answer = "off"
        await seen.mark("compaction.mode")
        await seen.press("enter")
        await seen.until(lambda: IN_EFFECT in seen.state.box.message)
        assert kept.text == OWN.replace('mode = "ask" # I', 'mode = "off" # I')
        assert kept.now.compaction.mode == "off"
        await seen.press("delete")
        await seen.until(lambda: kept.now.compaction.mode == "auto")
        assert "mode =" not in kept.text and 'theme = "dusk" # at night' in kept.text


async def test_what_is_typed_is_kept_only_when_it_is_right(tmp_path: Path) -> None:
    kept = SettingsFile(tmp_path)
    async with settings_on(kept) as seen:
        await seen.mark("offline.window")
        await seen.press("enter", *["backspace"] * 5, "4", "q", "enter")
        await seen.until(
            lambda: "offline.window cannot be '4q'. Allowed: a number" in seen.text
        )
        assert seen.app.screen is not seen.state and kept.text == OWN
        await seen.press("backspace", "k", "enter")
        await seen.until(lambda: kept.now.offline.window == 4_000)
        assert '[offline]\nwindow = "4k"' in kept.text
        await seen.press("enter", "escape", "escape")
        await seen.until(lambda: seen.app.screen is not seen.app.screen_shown)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("key", "typed", "line"),
    [
        ("compaction.soft_ratio", "0.5", "soft_ratio = 0.5"),
        ("compaction.threshold", "90000", "threshold = 90000"),
        ("compaction.reserve_tokens", "10%", 'reserve_tokens = "10%"'),
        ("compaction.model", "总结-3", 'model = "总结-3"'),
    ],
)
async def test_numbers_and_texts_are_written_as_what_they_are(
    tmp_path: Path, key: str, typed: str, line: str
) -> None:
    kept = SettingsFile(tmp_path, own="")
    async with settings_on(kept) as seen:
        await seen.mark(key)
        await seen.press("enter", "ctrl+u", *typed)
        await seen.press("enter")
        await seen.until(lambda: kept.path.exists())
        assert line in kept.text.splitlines()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("broken", ["not writable", "not TOML"])
async def test_a_file_that_cannot_be_changed_is_told_in_one_sentence_and_stays(
    tmp_path: Path, broken: str
) -> None:
    kept = SettingsFile(tmp_path)
    async with settings_on(kept) as seen:
        kept.answer = "off"
        await seen.mark("compaction.mode")
        if broken == "not TOML":
            kept.path.write_text("theme = [")
            left, says = "theme = [", "are not valid TOML"
        else:
            kept.path.unlink()
            kept.path.mkdir()
            left, says = "", "cannot be read"
        await seen.press("enter")
        await seen.until(lambda: says in seen.state.box.message)
        assert "! The settings in" in seen.text
        assert seen.state.settings, "what was in force stays on the screen"
        if left:
            assert kept.text == left


async def test_a_choice_that_no_file_may_hold_leaves_it_as_it_was(
    tmp_path: Path,
) -> None:
    kept = SettingsFile(tmp_path)
    mode = stat.S_IMODE(kept.path.stat().st_mode)
    async with settings_on(kept) as seen:
        kept.answer = "nobody"
        await seen.mark("provider")
        await seen.press("enter")
        await seen.until(
            lambda: "there is no provider nobody" in seen.state.box.message
        )
        assert kept.opened_lists == ["provider"] and kept.text == OWN
    assert mode


async def test_search_finds_by_key_value_meaning_and_who_set_it(tmp_path: Path) -> None:
    kept = SettingsFile(tmp_path, environ={"FOLDLINE_OFFLINE__PACE": "0.1"})
    async with settings_on(kept) as seen:
        for query, found in (
            ("FOLDLINE_", "offline.pace"),
            ("verbatim newest", "compaction.keep_recent_tokens"),
            ("dusk", "theme"),
            ("compaction.mode", "compaction.mode"),
        ):
            seen.state.field.value = ""
            await seen.press(*(each if each != " " else "space" for each in query))
            assert seen.state.marked == found
        await seen.press("q", "q", "q")
        assert NO_MATCH in seen.text


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(40, 10), (50, 16), (80, 24), (200, 60)])
async def test_the_marked_one_is_in_sight_at_every_size(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with settings_on(SettingsFile(tmp_path), size=size) as seen:
        for _ in seen.state.settings:
            assert "▶" in seen.text
            await seen.press("down")
        await seen.pilot.resize_terminal(size[0], size[1] + 7)
        await seen.until(lambda: "▶" in seen.text and "Esc close" in seen.text)


async def test_a_small_terminal_says_first_what_overrides_the_file(
    tmp_path: Path,
) -> None:
    async with settings_on(
        SettingsFile(tmp_path, environ={"FOLDLINE_MODEL": "offline"}), size=(40, 10)
    ) as seen:
        await seen.mark("model")
        assert "! FOLDLINE_MODEL overrides" in seen.text
