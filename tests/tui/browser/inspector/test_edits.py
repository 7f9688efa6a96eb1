"""What the edit keys would do: which of them do anything, what it costs, and how the row says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.protocol import Clear, Compaction, Edit, Undo, Usage
from foldline.protocol.entries import EditAction
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.panels.edit_hints import (
    IS_COMPACTION,
    PREAMBLE,
    EditHint,
    EditHints,
    SizeBasis,
    action_of,
    change_words,
    edit_hints,
    nothing_to,
    undo_target,
)
from foldline.tui.browser.panels.status_rows import KEPT_LATER, edit_row
from foldline.tui.look.cells import width_of
from foldline.view.outline import CompactionOutline
from foldline.view.projection import Projection
from foldline.view.undo import BUILDS_ON
from foldline.view.weight import view_size
from support.history import call, history
from support.stories import Story, chinese, shop

KEY = InspectorPanels.key
SHOP = shop().projection()


def index_of(projection: Projection, fate: str, kind: str = "tool_result") -> int:
    return next(
        e.index
        for e in projection.entries
        if e.type == kind and projection.fate(e.index).kind == fate
    )


def offered(
    projection: Projection, index: int | None, basis: SizeBasis | None = None
) -> dict[str, EditHint]:
    return {
        offer.action: offer
        for offer in edit_hints(projection, index, basis or SizeBasis()).keys
    }


def text(
    projection: Projection, found: EditHints, width: int, *, later: bool = False
) -> str:
    return "".join(
        words for words, _ in edit_row(projection, found, KEY, later=later, width=width)
    )


def test_a_summarised_entry_can_come_back_and_be_pinned_but_not_dropped_or_hidden() -> (
    None
):
    found = offered(SHOP, index_of(SHOP, "summarised"))
    assert list(found) == ["restore", "pin", "undo"]
    assert found["restore"].change == found["pin"].change > 0


def test_what_a_key_is_said_to_cost_is_what_it_costs() -> None:
    index = index_of(SHOP, "summarised")
    restore = offered(SHOP, index)["restore"]
    after = SHOP.with_entries(Edit(target=index, action="restore"))
    scale = SHOP.meter.calibration.scale(SHOP.meter.model)
    assert restore.change == round((after.tokens - SHOP.tokens) * scale)
    assert restore.size == view_size(after).tokens


def results(*texts: str) -> Projection:
    """A prompt, calls of one answer, and what they gave back: entries 2 and on."""
    built = (
        history()
        .user("go")
        .assistant(calls=[call("read", path=str(at)) for at in range(len(texts))])
    )
    for text in texts:
        built = built.result(text)
    return built.projection()


def test_an_entry_in_the_view_can_be_dropped_and_its_result_hidden() -> None:
    found = offered(results("long " * 400), 2)
    assert {"pin", "drop", "hide"} <= set(found) and "restore" not in found
    assert (
        found["pin"].change == 0
        and found["drop"].change < 0
        and found["hide"].change < 0
    )


def test_a_dropped_entry_can_be_restored_and_not_pinned() -> None:
    dropped = history().user("go").assistant("one").edit("drop", 1).projection()
    found = offered(dropped, 1)
    assert "restore" in found and "pin" not in found
    assert action_of(dropped, 1, "pin") is None


def test_hiding_what_is_shorter_than_its_stub_is_no_gain_and_not_offered() -> None:
    assert "hide" not in offered(results("ok"), 2) and "drop" in offered(
        results("ok"), 2
    )


def test_a_hidden_result_is_shown_by_the_key_that_hides_and_restore_is_not_offered_twice() -> (
    None
):
    index = index_of(SHOP, "hidden")
    assert "show" in offered(SHOP, index) and "restore" not in offered(SHOP, index)
    assert action_of(SHOP, index, "hide") == "show"
    assert action_of(SHOP, index, "restore") == "restore", "the key works all the same"


def test_a_pinned_entry_is_unpinned_and_keeps_its_place() -> None:
    found = offered(SHOP, 2)
    assert "unpin" in found and "pin" not in found
    assert found["unpin"].change == 0


@pytest.mark.parametrize("index", [0, 1])
def test_nothing_applies_to_what_opens_every_request(index: int) -> None:
    assert list(offered(SHOP, index)) == ["undo"]
    assert nothing_to(SHOP, index, "drop", KEY) == PREAMBLE.format(index=index)


@pytest.mark.parametrize("fate", ["reverted", "cleared"])
def test_what_a_rewind_or_a_clear_took_away_does_not_come_back_by_an_edit(
    fate: str,
) -> None:
    projection = SHOP if fate == "reverted" else shop().add(Clear()).projection()
    index = index_of(projection, fate)
    assert list(offered(projection, index)) == ["undo"]
    assert fate in nothing_to(projection, index, "restore", KEY)


def test_a_compaction_is_undone_not_edited() -> None:
    compaction = SHOP.compactions()[0].index
    assert list(offered(SHOP, compaction)) == ["undo"]
    refusal = IS_COMPACTION.format(index=compaction, key="u")
    assert nothing_to(SHOP, compaction, "pin", KEY) == refusal


@pytest.mark.parametrize("index", [None, -1, -2])
def test_off_the_entries_only_an_undo_is_offered(index: int | None) -> None:
    assert list(offered(SHOP, index)) == ["undo"]


def test_a_history_without_changes_offers_no_undo() -> None:
    projection = Story().system("prompt").user("hello").projection()
    assert undo_target(projection) is None
    assert set(offered(projection, 1)) == {"pin", "drop"}


def test_undo_goes_back_change_by_change() -> None:
    projection = shop().edit("pin", 4).projection()
    seen = []
    while (marker := undo_target(projection)) is not None:
        undo = offered(projection, None)["undo"]
        assert undo.target == marker.index
        seen.append(undo.undone.split()[0])
        projection.append(Undo(index=projection.last_index + 1, target=marker.index))
    assert seen == ["pin", "rewind", "drop", "compaction", "pin"]


def test_an_undo_past_the_threshold_says_so_beforehand() -> None:
    story = chinese()
    projection = story.projection()
    before = view_size(projection).tokens
    undo = offered(projection, None, SizeBasis(threshold=before + 1))["undo"]
    assert undo.crosses_threshold and undo.size > before
    assert not offered(projection, None, SizeBasis(threshold=10 * before))[
        "undo"
    ].crosses_threshold
    assert "over the threshold" in text(
        projection, edit_hints(projection, None, SizeBasis(0, before + 1)), 120
    )


def test_the_undo_of_a_compaction_names_the_size_that_the_meter_shows_then() -> None:
    story = (
        chinese()
        .user("and now?")
        .assistant("this", usage=Usage(input=900, output=9), model="m")
        .asked()
    )
    projection = story.projection()
    marker = undo_target(projection)
    assert isinstance(marker, CompactionOutline)
    undo = offered(projection, None)["undo"]
    assert undo.size - undo.change == view_size(projection).tokens
    projection.append(Undo(index=projection.last_index + 1, target=marker.index))
    assert undo.size == view_size(projection).tokens


def test_a_report_that_differs_from_the_estimate_is_no_effect_of_a_key() -> None:
    story = Story().system("prompt").user("hello " * 500)
    story.assistant("done", usage=Usage(input=700, output=10), model="m").asked()
    projection = story.projection()
    assert projection.meter.anchor is not None
    found = offered(projection, 1)
    assert found["pin"].change == 0
    assert found["drop"].size == view_size(projection).tokens + found["drop"].change


def test_the_row_names_entry_fate_and_group_and_prices_every_key() -> None:
    index = index_of(SHOP, "summarised")
    row = text(SHOP, edit_hints(SHOP, index, SizeBasis()), 160)
    first, last = SHOP.group(index)
    assert row.startswith(f" {index} S┊ summarised by ")
    assert f"tool group {first}–{last}:" in row
    assert "r restore +" in row and KEPT_LATER in row and "u undo rewind" in row


def test_hiding_one_result_of_several_says_that_it_acts_on_that_alone() -> None:
    projection = results("long " * 400, "other " * 400)
    assert projection.group(2) == (1, 2, 3)
    assert "z hide only 2 " in text(
        projection, edit_hints(projection, 2, SizeBasis()), 200
    )


def test_a_row_for_an_agent_at_work_says_when_the_key_acts() -> None:
    found = edit_hints(SHOP, index_of(SHOP, "live"), SizeBasis())
    for width in (80, 160):
        assert ", after this turn:" in text(SHOP, found, width, later=True)


@given(
    st.sampled_from([SHOP, chinese().projection()]),
    st.integers(-2, 60),
    st.integers(40, 200),
    st.booleans(),
)
def test_the_row_has_exactly_its_width(
    projection: Projection, index: int, width: int, later: bool
) -> None:
    found = edit_hints(
        projection, index if projection.entry(index) or index < 0 else 0, SizeBasis()
    )
    assert width_of(edit_row(projection, found, KEY, later=later, width=width)) == width


@given(st.sampled_from(range(50)), st.sampled_from(["pin", "hide", "drop", "restore"]))
def test_a_key_that_does_nothing_is_neither_offered_nor_asked_for(
    index: int, key: str
) -> None:
    if SHOP.entry(index) is None:
        return
    action: EditAction | None = action_of(SHOP, index, key)  # type: ignore[arg-type]
    if action is None:
        assert nothing_to(SHOP, index, key, KEY)  # type: ignore[arg-type]
        return
    after = SHOP.with_entries(Edit(target=index, action=action))
    changed = after.view != SHOP.view or after.pins != SHOP.pins
    assert changed, f"{action} of {index} would be written down and change nothing"


def test_working_it_out_changes_nothing() -> None:
    projection = shop().projection()
    view, pins, entries = (
        list(projection.view),
        projection.pins,
        len(projection.entries),
    )
    for entry in projection.entries:
        edit_hints(projection, entry.index, SizeBasis())
    assert (projection.view, projection.pins, len(projection.entries)) == (
        view,
        pins,
        entries,
    )
    assert all(
        projection.fate(e.index) == SHOP.fate(e.index) for e in projection.entries
    )


@pytest.mark.parametrize(
    ("tokens", "words"), [(0, "±0"), (3_200, "+3.2k"), (-38, "−38"), (-4_700, "−4.7k")]
)
def test_a_change_carries_its_sign(tokens: int, words: str) -> None:
    assert change_words(tokens) == words


def test_a_change_that_cannot_be_undone_says_why() -> None:
    refusal = BUILDS_ON.format(373, 131)
    found = EditHints(4, (), (), refusal)
    assert refusal in text(SHOP, found, 160)
    assert isinstance(SHOP.entry(SHOP.compactions()[0].index), Compaction)
