"""PromptHistory of earlier prompts, files for `@`, choices of a picker: the pure parts."""

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from foldline.frontend.inputs import PromptHistory
from foldline.tui.lists.picker import ranked
from foldline.tui.lists.rows import PickerItem
from foldline.tui.prompting.completion import arguments
from foldline.tui.prompting.file_finder import FileListing, list_files, matching


def test_recall_goes_back_and_returns_the_draft() -> None:
    recall = PromptHistory(("one", "two"))
    older = recall.older("draft")
    assert older is not None and older.shown == "two"
    oldest = older.older("two")
    assert oldest is not None and oldest.shown == "one"
    assert oldest.older("one") is None
    newer = oldest.newer()
    assert newer is not None
    draft = newer.newer()
    assert draft is not None and draft.shown == "draft"
    assert draft.newer() is None


def test_what_is_sent_twice_is_recalled_once() -> None:
    assert PromptHistory(("one",)).with_item("one").items == ("one",)


@given(st.lists(st.text(min_size=1), max_size=5), st.text(), st.integers(0, 8))
def test_as_many_steps_forward_as_back_return_the_draft(
    items: list[str], draft: str, steps: int
) -> None:
    recall, taken = PromptHistory(tuple(items)), 0
    for _ in range(steps):
        if (
            older := recall.older(draft if recall.at is None else recall.shown)
        ) is not None:
            recall, taken = older, taken + 1
    for _ in range(taken):
        newer = recall.newer()
        assert newer is not None
        recall = newer
    assert recall.at is None
    assert not taken or recall.shown == draft


PATHS = (
    "src/shop/api/orders.py",
    "src/shop/orders/service.py",
    "tests/test_orders.py",
    "README.md",
    "src/ordinary.py",
)


def match_files(typed: str, paths: Sequence[str]) -> tuple[str, ...]:
    listing = FileListing(tuple(paths), tuple(path.lower() for path in paths))
    return next(found for found in matching(typed, listing) if found is not None)


def test_names_that_begin_with_what_was_typed_come_first() -> None:
    assert match_files("ord", PATHS)[0] == "src/ordinary.py"
    assert match_files("readme", PATHS) == ("README.md",)
    assert "tests/test_orders.py" in match_files("orders", PATHS)


def test_letters_in_order_are_found_and_capitals_count_where_typed() -> None:
    assert match_files("sosvc", PATHS) == ("src/shop/orders/service.py",)
    assert match_files("READ", PATHS) == ("README.md",)
    assert match_files("Readme", PATHS) == ()


def test_files_are_listed_below_the_root_without_what_is_ignored(
    tmp_path: Path,
) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "src").mkdir()
    for name in ("src/a.py", "b.log", "c.md"):
        (tmp_path / name).write_text("")
    for hostile in ("e\x1b]2;title\x07.md", "turned\u202eround.md"):
        (tmp_path / hostile).touch()
    assert set(list_files(tmp_path)) == {".gitignore", "src/a.py", "c.md"}
    assert len(list_files(tmp_path, most=2)) == 2


def test_a_picker_ranks_label_starts_before_labels_before_notes() -> None:
    choices = [
        PickerItem("1", "Clear the context", "/clear"),
        PickerItem("2", "Compact", "/compact"),
        PickerItem("3", "Theme", "colour"),
    ]
    assert [each.choice.id for each in ranked("co", choices)] == ["2", "1", "3"]
    assert [each.choice.id for each in ranked("", choices)] == ["1", "2", "3"]
    assert [each.choice.id for each in ranked("context clear", choices)] == ["1"]


def test_a_model_whose_window_nobody_lists_is_offered_too() -> None:
    offered = arguments("model", "gpt", App[None]())
    assert len(offered) > 5
    assert any("window" not in candidate.note for candidate in offered)
