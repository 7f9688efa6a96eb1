import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.compaction.strategy import load_prompt
from foldline.data import data_dir
from foldline.memory.language import Language
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


def test_a_users_prompt_replaces_the_built_in_prompt_of_the_same_name(
    own_folder: Path,
) -> None:
    (own_folder / "prompts").mkdir()
    (own_folder / "prompts" / "summary-first.md").write_text("Mine.\n")
    assert load_prompt("summary-first") == "Mine."
    assert "## Goal" in load_prompt("summary-update")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_summary_prompt_names_its_sections(language: Language) -> None:
    for name in ("summary-first", "summary-update"):
        text = load_prompt(name, language)
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
        assert f"## {section}" in load_prompt("summary-prefix", language)


SIMPLE_TAGS = (
    "current_focus",
    "environment",
    "completed_tasks",
    "active_issues",
    "code_state",
    "important_context",
)
SIMPLE_PRIORITIES = {
    "en": (
        "current task",
        "rrors ",
        "latest version",
        "structure",
        "ecisions",
        "pen todos",
    ),
    "zh": ("当前任务", "错误及其解决办法", "最新版本", "项目结构", "决定", "待办事项"),
}
SIMPLE_RULES = {
    "en": ("stack traces", "working solutions|solutions that work", "[Mm]erge", "[Rr]emove", "lesson",
           "under 20 lines stays whole", "signatures and key logic", "full message, .*cause and", "decided"),
    "zh": ("调用栈", "有效的解决办法", "合并|合为一条", "删除", "教训",
           "不足 20 行的(代码)?整段保留", "签名和关键逻辑", "完整信息、原因", "决定了什么"),
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["simple", "simple-update"])
def test_the_simple_prompt_lists_six_tags_by_priority_and_its_condensing_rules(
    name: str, language: Language
) -> None:
    text = load_prompt(name, language)
    tags = [text.index(f"<{tag}>") for tag in SIMPLE_TAGS]
    assert tags == sorted(tags)
    ranking = text[
        text.index("room for everything" if language == "en" else "篇幅不够") :
    ]
    places = [ranking.index(words) for words in SIMPLE_PRIORITIES[language]]
    assert places == sorted(places)
    for rule in SIMPLE_RULES[language]:
        assert re.search(rule, text), rule


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_cache_preserving_form_states_that_tools_are_disabled(
    language: Language,
) -> None:
    said = {"en": "Tools are off", "zh": "工具在此期间已停用"}[language]
    assert said in load_prompt("summary-cached", language)


def test_no_prompt_mentions_compaction() -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in data_dir("prompts").rglob("*.md")
    ]
    assert len(texts) > 30
    assert not [text for text in texts if re.search(r"\bfold(s|ed|ing)?\b", text)]


def test_a_chinese_conversation_gets_chinese_prompts_if_available() -> None:
    assert load_prompt("summariser", "zh") != load_prompt("summariser", "en")
    assert load_prompt("summary-frame", "zh") == load_prompt("summary-frame", "en")


def test_a_missing_prompt_is_one_sentence() -> None:
    with pytest.raises(FoldlineError, match=r"nonsense\.md is missing"):
        load_prompt("nonsense")
