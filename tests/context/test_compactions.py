"""What a compaction did is said alike wherever it is said: its entries, and the sizes around it."""

import pytest

from foldline.context.compactions import (
    compacted_count,
    describe_compaction,
    sizes_words,
    taken_out,
    why_compacted,
)
from foldline.context.weight import view_size
from foldline.protocol import Compaction, Kept, SystemMessage, Usage, Written, text_parts
from support.history import history

SUMMARY = Written(message=SystemMessage(origin="summary", parts=text_parts("so far")), covers=((0, 2),))


def altered(ref: int, fate: str) -> Kept:
    return Kept.model_validate({"ref": ref, "content": "less", "fate": fate})


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ((SUMMARY,), "3 entries compacted"),
        ((SUMMARY, altered(2, "hidden")), "3 entries compacted"),
        ((Kept(ref=0), altered(2, "hidden"), altered(4, "hidden")), "2 results hidden"),
        ((altered(2, "hidden"), altered(4, "clipped")), "1 result hidden, 1 result clipped"),
        ((), "older entries left out"),
    ],
)
def test_a_compaction_is_told_by_what_it_did(head: tuple[Kept | Written, ...], says: str) -> None:
    built = history().user("go").step("read", "a").step("read", "b")
    assert describe_compaction(built.projection(), Compaction(first_kept_index=5, head=head)) == says


def test_what_had_left_the_view_before_is_no_entry_of_a_compaction_nor_when_that_is_undone() -> None:
    built = history().user("go").step("read", "a").edit("drop", 1).user("on")
    built = built.add(Compaction(first_kept_index=4, head=(SUMMARY,)))
    assert (
        describe_compaction(built.projection(), built.projection().all_compactions[0]) == "1 entry compacted"
    )


def test_a_result_that_was_altered_where_it_stands_counts_like_one_before_the_cut() -> None:
    fold = Compaction(first_kept_index=1, replaced=(altered(2, "hidden"),))
    assert describe_compaction(history().user("go").step("read", "a").projection(), fold) == "1 result hidden"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (116_200, 27_400, "116.2k → 27.4k tokens"),
        (185_000, 0, "185.0k → ~{less} tokens"),
        (0, 0, "~{before} → ~{after} tokens"),
    ],
)
def test_what_no_agent_recorded_is_the_size_of_the_view_then(before: int, after: int, says: str) -> None:
    built = history().user("go").step("read", "a " * 400)
    was = view_size(built.projection()).tokens
    done = Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=before, tokens_after=after)
    left = view_size(built.add(done).projection()).tokens
    less = (before or was) - (was - left)
    later = built.user("on").step("read", "b " * 4_000).projection()
    [fold] = later.all_compactions
    assert sizes_words(later, fold, "tokens") == says.format(
        before=f"{was / 1000:.1f}k", after=left, less=f"{less / 1000:.1f}k"
    )
    assert taken_out(later).tokens == (before or was) - (after or less)


def reported(tokens: int) -> Usage:
    return Usage(input=tokens, output=5)


def test_sizes_of_another_agents_compaction_are_those_of_the_requests_around_it() -> None:
    built = history().user("go").step("read", "a " * 400).assistant("one", usage=reported(90_000))
    built.add(Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=91_000))
    built.user("on").assistant("two", usage=reported(41_000)).assistant("three", usage=reported(60_000))
    built.add(Compaction(first_kept_index=5, head=(SUMMARY,))).assistant("four", usage=reported(30_000))
    projection = built.projection()
    sizes = [sizes_words(projection, each) for each in projection.all_compactions]
    assert sizes == ["91.0k → 41.0k", "60.0k → 30.0k"]


def test_a_request_behind_the_next_compaction_is_no_size_of_this_one() -> None:
    built = history().user("go").step("read", "a " * 400).assistant("one", usage=reported(90_000))
    built.add(Compaction(first_kept_index=3, head=(SUMMARY,)))
    built.add(Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=80_000))
    projection = built.assistant("two", usage=reported(41_000)).projection()
    first, second = (sizes_words(projection, each) for each in projection.all_compactions)
    assert first.startswith("90.0k → ~")
    assert second == "80.0k → 41.0k"


def test_a_compaction_that_is_undone_took_nothing_out_and_says_what_is_on_record() -> None:
    done = Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=185_000)
    undone = history().user("go").step("read", "a").add(done).undo().projection()
    [fold] = undone.all_compactions
    assert sizes_words(undone, fold) == "from 185.0k"
    assert (taken_out(undone).tokens, compacted_count(undone, fold)) == (0, 3)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"reason": "threshold", "limit": 88}, "89% full, limit 88%"),
        ({"reason": "threshold", "limit": 90}, "89% full + the prompt, limit 90%"),
        ({"reason": "threshold"}, "89% full: window full"),
        ({"reason": "phase", "limit": 60}, "89% full: end of task, soft limit 60%"),
        ({"reason": "phase", "limit": 95}, "89% full: end of task, already worth it"),
        ({"reason": "phase", "limit": 60, "cause": "cache"}, "89% full: before the cache ends"),
        ({"reason": "phase", "limit": 60, "cause": "asked"}, "89% full: you asked"),
        ({"reason": "threshold", "limit": 20, "cause": "price"}, "89% full: before a higher price"),
        ({"reason": "threshold", "limit": 50, "cause": "model"}, "89% full: for another model"),
        ({"reason": "overflow"}, "89% full: refused as too long"),
        ({"reason": "manual"}, "89% full: you asked"),
        ({"reason": "manual", "window": 0}, "you asked"),
    ],
)
def test_why_it_was_made_is_told_by_what_is_on_record(made: dict[str, object], says: str) -> None:
    fold = Compaction.model_validate({"first_kept_index": 1, "tokens_before": 89, "window": 100, **made})
    built = history().user("go").assistant("ok").asked().add(fold)
    assert why_compacted(built.projection(), fold.model_copy(update={"index": built.last}))[0] == says


def test_an_older_compaction_is_held_against_the_window_the_request_before_it_had() -> None:
    fold = Compaction(first_kept_index=1, tokens_before=5_000, reason="phase")
    built = history().user("go").assistant("ok").asked(window=10_000).user("on").add(fold)
    built = built.assistant("yes").asked(window=90_000)
    [done] = [entry for entry in built.entries if isinstance(entry, Compaction)]
    assert why_compacted(built.projection(), done)[0] == "50% full: end of task"
