from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.compaction.strategy import load_prompt
from foldline.protocol import FoldlineError

SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path))
    load_prompt.cache_clear()
    yield tmp_path
    load_prompt.cache_clear()


def test_a_users_prompt_of_the_same_name_replaces_ours(own_folder: Path) -> None:
    (own_folder / "prompts").mkdir()
    (own_folder / "prompts" / "summary-first.md").write_text("Mine.\n")
    assert load_prompt("summary-first") == "Mine."
    assert "## Goal" in load_prompt("summary-update")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_prompt_of_a_summary_names_the_sections_it_asks_for(language: str) -> None:
    for name in ("summary-first", "summary-update"):
        text = load_prompt(name, language)  # type: ignore[arg-type]
        for section in (
            "Goal",
            "Constraints & Preferences",
            "Progress",
            "Key Decisions",
            "Next Steps",
            "Critical Context",
        ):
            assert f"## {section}" in text
    for section in ("Original Request", "Early Progress", "Context for Suffix"):
        assert f"## {section}" in load_prompt("summary-prefix", language)  # type: ignore[arg-type]


def test_a_chinese_conversation_gets_chinese_prompts_where_there_are_any() -> None:
    assert load_prompt("summariser", "zh") != load_prompt("summariser", "en")
    assert load_prompt("summary-frame", "zh") == load_prompt("summary-frame", "en")


def test_a_missing_prompt_is_one_sentence() -> None:
    with pytest.raises(FoldlineError, match=r"nonsense\.md is missing"):
        load_prompt("nonsense")
