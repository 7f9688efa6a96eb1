"""What two views do not share: every item once, and totals that add up."""

from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.context.moments import Pair, at_compaction, difference, runs, sums
from foldline.context.projection import Projection, project
from foldline.context.weight import item_weight
from support.asking import retold
from support.happenings import played, steps


def _fold(index: int) -> tuple[Projection, Projection, list[Pair]]:
    entries = retold().entries
    now = project(entries)
    before, after = (
        project(entries[: at_compaction(now, now.all_compactions[index].index, before=b).length])
        for b in (True, False)
    )
    return before, after, difference(before.view, after.view)


def test_a_fold_takes_items_out_and_puts_a_summary_in() -> None:
    _, after, pairs = _fold(0)
    changes = [(change, len(run)) for change, run in runs(pairs)]
    assert changes == [("same", 1), ("new", 1), ("gone", 16), ("same", 6)]
    assert [pair.item.index for pair in pairs if pair.change == "new"] == [after.all_compactions[0].index]


def test_a_clipped_and_a_hidden_result_have_changed() -> None:
    _, after, pairs = _fold(1)
    changed = [pair for pair in pairs if pair.change == "changed"]
    assert [pair.after.fate for pair in changed if pair.after] == ["clipped", "hidden"]
    assert all(pair.before is not None and pair.before.fate == "live" for pair in changed)
    assert {pair.change for pair in pairs} == {"same", "changed"}
    total = sums(after, pairs)
    assert total["changed"].change < 0 == total["same"].change


@settings(max_examples=60)
@given(steps, st.floats(0, 1))
def test_each_item_stands_there_once_and_the_totals_add_up(
    happened: list[tuple[str, int, int]], share: float
) -> None:
    entries = played(happened)
    before, after = project(entries[: round(share * len(entries))]), project(entries)
    pairs = difference(before.view, after.view)
    assert [pair.after for pair in pairs if pair.after is not None] == after.view
    assert sorted(p.before.key for p in pairs if p.before is not None) == sorted(i.key for i in before.view)
    total = sums(after, pairs).values()
    assert sum(part.before for part in total) == sum(item_weight(after, item).tokens for item in before.view)
    assert sum(part.after for part in total) == sum(item_weight(after, item).tokens for item in after.view)


def test_a_view_and_itself_share_everything() -> None:
    view = retold().projection().view
    assert {pair.change for pair in difference(view, view)} == {"same"}
