"""Descriptions of a compaction: its entries and the sizes around it, the same everywhere."""

import pytest

from foldline.past.compactions import (
    BEFORE_CACHE_EXPIRY,
    LEFT_OUT,
    compacted_count,
    describe_compaction,
    removed_tokens,
    sizes_words,
    why_compacted,
)
from foldline.protocol import (
    Compaction,
    Kept,
    SystemMessage,
    Usage,
    Written,
    text_parts,
)
from foldline.view.weight import view_size
from support.history import history

SUMMARY = Written(
    message=SystemMessage(origin="summary", parts=text_parts("so far")),
    covers=((0, 2),),
)


def altered_result(ref: int, fate: str) -> Kept:
    return Kept.model_validate({"ref": ref, "content": "less", "fate": fate})


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ((SUMMARY,), "3 entries compacted"),
        ((SUMMARY, altered_result(2, "hidden")), "3 entries compacted"),
        (
            (Kept(ref=0), altered_result(2, "hidden"), altered_result(4, "hidden")),
            "2 results hidden",
        ),
        (
            (altered_result(2, "hidden"), altered_result(4, "clipped")),
            "1 result hidden, 1 result clipped",
        ),
        ((), LEFT_OUT),
    ],
)
def test_a_compaction_is_described_by_its_effect(
    head: tuple[Kept | Written, ...], says: str
) -> None:
    built = history().user("go").step("read", "a").step("read", "b")
    assert (
        describe_compaction(
            built.projection(), Compaction(first_kept_index=5, head=head)
        )
        == says
    )


def test_entries_already_out_of_the_view_do_not_count_for_a_compaction() -> None:
    built = history().user("go").step("read", "a").edit("drop", 1).user("on")
    built = built.add(Compaction(first_kept_index=4, head=(SUMMARY,)))
    assert (
        describe_compaction(built.projection(), built.projection().all_compactions[0])
        == "1 entry compacted"
    )


def test_a_result_altered_in_place_counts_like_one_before_the_cut() -> None:
    compaction = Compaction(first_kept_index=1, replaced=(altered_result(2, "hidden"),))
    assert (
        describe_compaction(
            history().user("go").step("read", "a").projection(), compaction
        )
        == "1 result hidden"
    )


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (116_200, 27_400, "116.2k → 27.4k tokens"),
        (185_000, 0, "185.0k → ~{less} tokens"),
        (0, 0, "~{before} → ~{after} tokens"),
    ],
)
def test_an_unrecorded_size_is_the_size_of_the_view_at_that_time(
    before: int, after: int, says: str
) -> None:
    built = history().user("go").step("read", "a " * 400)
    was = view_size(built.projection()).tokens
    done = Compaction(
        first_kept_index=3, head=(SUMMARY,), tokens_before=before, tokens_after=after
    )
    left = view_size(built.add(done).projection()).tokens
    less = (before or was) - (was - left)
    later = built.user("on").step("read", "b " * 4_000).projection()
    [compaction] = later.all_compactions
    assert sizes_words(later, compaction, "tokens") == says.format(
        before=f"{was / 1000:.1f}k", after=left, less=f"{less / 1000:.1f}k"
    )
    assert removed_tokens(later).tokens == (before or was) - (after or less)


def usage_of(tokens: int) -> Usage:
    return Usage(input=tokens, output=5)


def test_another_agents_compaction_has_the_sizes_of_the_requests_around_it() -> None:
    built = (
        history()
        .user("go")
        .step("read", "a " * 400)
        .assistant("one", usage=usage_of(90_000))
    )
    built.add(Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=91_000))
    built.user("on").assistant("two", usage=usage_of(41_000)).assistant(
        "three", usage=usage_of(60_000)
    )
    built.add(Compaction(first_kept_index=5, head=(SUMMARY,))).assistant(
        "four", usage=usage_of(30_000)
    )
    projection = built.projection()
    sizes = [sizes_words(projection, each) for each in projection.all_compactions]
    assert sizes == ["91.0k → 41.0k", "60.0k → 30.0k"]


def test_a_request_after_the_next_compaction_gives_no_size_for_this_one() -> None:
    built = (
        history()
        .user("go")
        .step("read", "a " * 400)
        .assistant("one", usage=usage_of(90_000))
    )
    built.add(Compaction(first_kept_index=3, head=(SUMMARY,)))
    built.add(Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=80_000))
    projection = built.assistant("two", usage=usage_of(41_000)).projection()
    first, second = (
        sizes_words(projection, each) for each in projection.all_compactions
    )
    assert first.startswith("90.0k → ~")
    assert second == "80.0k → 41.0k"


def test_an_undone_compaction_removed_nothing_and_shows_its_recorded_sizes() -> None:
    done = Compaction(first_kept_index=3, head=(SUMMARY,), tokens_before=185_000)
    undone = history().user("go").step("read", "a").add(done).undo().projection()
    [compaction] = undone.all_compactions
    assert sizes_words(undone, compaction) == "from 185.0k"
    assert (removed_tokens(undone).tokens, compacted_count(undone, compaction)) == (
        0,
        3,
    )


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"reason": "threshold", "limit": 88}, "89% full, limit 88%"),
        ({"reason": "threshold", "limit": 90}, "89% full + the prompt, limit 90%"),
        ({"reason": "threshold"}, "89% full: window full"),
        ({"reason": "phase", "limit": 60}, "89% full: end of task, soft limit 60%"),
        ({"reason": "phase", "limit": 95}, "89% full: end of task, already worth it"),
        (
            {"reason": "phase", "limit": 60, "cause": "cache"},
            f"89% full: {BEFORE_CACHE_EXPIRY}",
        ),
        ({"reason": "phase", "limit": 60, "cause": "asked"}, "89% full: you asked"),
        (
            {"reason": "threshold", "limit": 20, "cause": "price"},
            "89% full: before a price increase",
        ),
        (
            {"reason": "threshold", "limit": 50, "cause": "model"},
            "89% full: for another model",
        ),
        ({"reason": "overflow"}, "89% full: rejected as too long"),
        ({"reason": "manual"}, "89% full: you asked"),
        ({"reason": "manual", "window": 0}, "you asked"),
    ],
)
def test_the_reason_of_a_compaction_comes_from_its_record(
    made: dict[str, object], says: str
) -> None:
    compaction = Compaction.model_validate(
        {"first_kept_index": 1, "tokens_before": 89, "window": 100, **made}
    )
    built = history().user("go").assistant("ok").asked().add(compaction)
    assert (
        why_compacted(
            built.projection(), compaction.model_copy(update={"index": built.last})
        )[0]
        == says
    )


def test_an_older_compaction_is_compared_with_the_window_of_the_previous_request() -> (
    None
):
    compaction = Compaction(first_kept_index=1, tokens_before=5_000, reason="phase")
    built = (
        history()
        .user("go")
        .assistant("ok")
        .asked(window=10_000)
        .user("on")
        .add(compaction)
    )
    built = built.assistant("yes").asked(window=90_000)
    [done] = [entry for entry in built.entries if isinstance(entry, Compaction)]
    assert why_compacted(built.projection(), done)[0] == "50% full: end of task"
