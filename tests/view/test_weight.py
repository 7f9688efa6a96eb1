"""The size of the view: reported usage plus calibrated estimates of newer messages, by category."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.protocol import (
    AssistantMessage,
    Compaction,
    ImagePart,
    ModelChange,
    TextPart,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.view.projection import Projection
from foldline.view.tally import ItemKind, Tally, kind_of
from foldline.view.tokens import MARGIN, START, message_tokens, start_ratio
from foldline.view.weight import (
    Schemas,
    categories,
    entry_weight,
    item_weight,
    prompt_weight,
    request_breakdown,
    view_size,
)
from support.history import History, history
from support.random_histories import Step, build_history, steps
from support.stories import shop

TEXT = "a sentence of a conversation about orders " * 50


def with_usage(reasoning: int = 0) -> History:
    usage = Usage(input=2_000, output=10 + reasoning, reasoning=reasoning)
    return (
        history().system("s").user(TEXT).assistant("ok", usage=usage, model="m").asked()
    )


def test_the_size_is_a_high_calibrated_estimate_without_reported_usage() -> None:
    projection = history().user(TEXT).projection()
    assert view_size(projection).tokens == round(projection.tokens * START * MARGIN)
    assert view_size(projection).estimated


def test_only_messages_after_the_reported_usage_are_estimated() -> None:
    projection = with_usage().projection()
    assert view_size(projection).tokens == 2_010
    pending = UserMessage(parts=text_parts(TEXT))
    grown = with_usage().user(TEXT).projection()
    assert view_size(projection, pending=[pending]) == view_size(grown)
    assert view_size(grown).tokens == 2_010 + round(
        message_tokens(pending) * start_ratio("m") * MARGIN
    )
    assert not view_size(grown).estimated


def english_session(ratio: float) -> History:
    """Build a session whose server counts `ratio` tokens for each estimated one."""
    built = history().user(TEXT * 20)
    estimated = built.projection().tokens
    usage = Usage(input=round(estimated * ratio), output=10)
    return built.assistant("ok", usage=usage, model="m").asked(estimated=estimated)


@given(
    ratio=st.floats(0.7, 2.0),
    pieces=st.lists(
        st.text("请检查订单かなカナ한국어", min_size=1, max_size=200),
        min_size=1,
        max_size=4,
    ),
    english=st.text("abc \n", max_size=200),
)
def test_cjk_text_counts_a_token_per_character_despite_a_ratio_learnt_on_english(
    ratio: float, pieces: list[str], english: str
) -> None:
    built = english_session(ratio)
    before = view_size(built.projection()).tokens
    assert built.projection().meter.calibration.ratio("m") == pytest.approx(
        ratio, abs=0.01
    )
    wide = sum(map(len, pieces))
    pending = [UserMessage(parts=text_parts(english + piece)) for piece in pieces]
    waiting = view_size(built.projection(), pending=pending).tokens - before
    for piece in pieces:
        built.user(english + piece)
    assert view_size(built.projection()).tokens - before == waiting >= wide
    assert sum(prompt_weight(built.projection(), piece) for piece in pieces) >= wide
    unanchored = built.add(ModelChange(model="m")).projection()
    assert view_size(unanchored).tokens >= wide


@given(st.floats(0.7, 2.0))
def test_text_without_cjk_is_estimated_by_the_ratio(ratio: float) -> None:
    built = english_session(ratio)
    projection = built.projection()
    assert projection.meter.scale == pytest.approx(
        projection.meter.calibration.scale("m")
    )


def test_reasoning_that_is_not_sent_back_is_subtracted() -> None:
    assert view_size(with_usage(reasoning=5_000).projection()).tokens == 2_010


def test_reasoning_sent_back_to_the_server_is_counted() -> None:
    """Kimi and DeepSeek require it, so long reasoning fills their window as well."""
    thought = "let me think about this once more, from the start " * 200
    usage = Usage(input=2_000, output=2_210, reasoning=2_200)

    def thought_of(dialect: str) -> Projection:
        built = (
            history()
            .user(TEXT)
            .assistant("ok", thinking=thought, usage=usage, model="m")
        )
        return built.asked(dialect=dialect).projection()

    assert view_size(thought_of("strict")).tokens == 2_010
    assert view_size(thought_of("strict-reasoning")).tokens == 4_210


@pytest.mark.parametrize(
    "change", ["compaction", "revert", "clear", "edit", "undo", "another model"]
)
def test_usage_older_than_a_change_of_the_view_is_ignored(change: str) -> None:
    """A rewind or a compaction is followed by a small view: the usage from before must not compact it at
    once."""
    huge = Usage(input=100_000, output=100)
    built = (
        history()
        .system("s")
        .checkpoint(0)
        .user(TEXT)
        .assistant("one", usage=huge, model="m")
        .asked()
    )
    built.user("two").assistant("two", usage=huge, model="m").asked()
    before = built.projection()
    assert view_size(before).tokens > 100_000
    index = built.entries[2].index
    match change:
        case "compaction" | "undo":
            built.add(Compaction(first_kept_index=built.last - 1))
            if change == "undo":
                built.undo()
        case "revert":
            built.revert(0)
        case "clear":
            built.clear()
        case "edit":
            built.edit("drop", index)
        case "another model":
            built.add(ModelChange(model="n"))
    size = view_size(built.projection())
    assert size.estimated
    assert size.tokens < 2_000


def test_tool_schemas_are_counted_if_no_usage_includes_them() -> None:
    unreported = history().user(TEXT).projection()
    assert (
        view_size(unreported, overhead=500).tokens > view_size(unreported).tokens + 500
    )
    assert view_size(with_usage().projection(), overhead=500).tokens == 2_010


def test_usage_reported_after_truncation_is_not_trusted() -> None:
    truncated = (
        with_usage()
        .user(TEXT * 20)
        .assistant("ok", usage=Usage(input=1_500, output=5), model="m")
        .asked()
    )
    assert view_size(truncated.projection()).tokens > 8_000


def test_an_answer_has_the_size_its_provider_reported() -> None:
    projection = with_usage().projection()
    weight = item_weight(projection, projection.view[-1])
    assert (weight.tokens, weight.estimated) == (10, False)
    thinking = AssistantMessage(parts=text_parts(TEXT), usage=Usage(input=9, output=0))
    assert entry_weight(projection, thinking).estimated


@pytest.mark.parametrize(
    ("text", "output"), [(TEXT * 7, 1), (TEXT * 7, 900), ("ok", 5_000)]
)
def test_an_implausible_output_count_is_ignored(text: str, output: int) -> None:
    """Claude Code records the usage of the first stream chunk: 14,420 characters as 1 token."""
    built = (
        history()
        .user("write it")
        .assistant(text, usage=Usage(input=30, output=output), model="m")
    )
    projection = built.asked().projection()
    weight = item_weight(projection, projection.view[-1])
    assert weight.estimated and weight.tokens != output
    assert view_size(projection).tokens == 30 + weight.tokens


def foreign_session(beside: int, turns: int, rate: float = 1.0) -> History:
    """Build another agent's session whose requests carry extra tokens besides the messages."""
    built = history()
    for _ in range(turns):
        projection = built.user(TEXT).projection()
        usage = Usage(input=round(rate * projection.meter.sent) + beside, output=2)
        built.assistant("ok", usage=usage, model="m")
    return built


def test_another_agents_request_overhead_is_not_part_of_our_next_request() -> None:
    light, heavy = (
        foreign_session(0, 3).projection(),
        foreign_session(50_000, 3).projection(),
    )
    assert view_size(heavy) == view_size(light)
    assert view_size(heavy).estimated and view_size(heavy).tokens < 3_000
    # There is no row for an estimate that is too low.
    assert request_breakdown(heavy, []).shares == request_breakdown(light, []).shares


def test_growth_of_another_agents_usage_calibrates_the_new_text() -> None:
    """The overhead is the same in both usages; another compaction or agent restarts the calibration."""
    grown = foreign_session(50_000, 12, rate=1.1)
    assert grown.projection().meter.calibration.ratio("m") == pytest.approx(
        1.1, abs=0.01
    )
    assert foreign_session(50_000, 2, rate=1.1).projection().meter.calibration.ratio(
        "m"
    ) == start_ratio("m")
    compacted = (
        foreign_session(50_000, 2).add(Compaction(first_kept_index=2)).user(TEXT * 6)
    )
    compacted.assistant("ok", usage=Usage(input=9_000, output=2), model="m")
    assert compacted.projection().meter.calibration.ratio("m") == start_ratio("m")


def test_reasoning_sent_back_by_another_agent_does_not_raise_the_text_estimate() -> (
    None
):
    """As in a recorded DeepSeek session: 185k tokens of text, 112k of reasoning, and usage for both."""
    built = history()
    for _ in range(8):
        projection = built.user(TEXT).projection()
        usage = Usage(input=projection.tokens + projection.thinking + 9_000, output=2)
        built.assistant("ok", thinking=TEXT, usage=usage, model="m")
    assert built.projection().meter.calibration.ratio("m") == pytest.approx(
        1.0, abs=0.01
    )


def test_the_usage_of_our_own_first_request_takes_precedence() -> None:
    continued = (
        foreign_session(50_000, 3)
        .user("and?")
        .assistant("yes", usage=Usage(input=4_000, output=2), model="m")
    )
    assert view_size(continued.asked(estimated=3_500).projection()).tokens == 4_002


def test_categories_add_up_to_the_size() -> None:
    projection = with_usage().edit("pin", 1).projection()
    shares = categories(projection, overhead=300)
    size = view_size(projection, overhead=300).tokens
    assert shares.system + shares.summaries + shares.verbatim == size
    assert shares.summaries > shares.verbatim > 0


OWN_TOOLS = Schemas("", 11, 900)
SERVER_TOOLS = Schemas("github", 26, 7_000)


def with_newest_usage() -> History:
    """Build a session whose newest answer has a reported usage."""
    built = history().system("rules").instructions("cents").user(TEXT)
    built.assistant("ok", usage=Usage(input=9_000, output=12), model="m")
    return built.asked(estimated=8_500).user(TEXT)


def test_the_parts_add_up_to_the_size_on_the_meter() -> None:
    for built in (history(), shop(), with_newest_usage()):
        projection = built.projection()
        usage = request_breakdown(projection, [OWN_TOOLS, SERVER_TOOLS])
        meter = view_size(projection, overhead=7_900)
        assert usage.size == meter
        assert abs(sum(share.tokens for share in usage.shares) - meter.tokens) < 1


def test_an_item_has_the_same_size_in_its_category_and_in_the_inspector() -> None:
    projection = with_newest_usage().projection()
    shares = {
        share.category: share for share in request_breakdown(projection, []).shares
    }
    assert shares["assistant"].tokens == 12 and not shares["assistant"].estimated
    asked = [
        item_weight(projection, item).tokens
        for item in projection.view
        if kind_of(item) == "user"
    ]
    assert (
        abs(shares["user"].tokens - sum(asked)) <= len(asked)
        and shares["user"].estimated
    )
    assert shares["difference"].tokens != 0


def test_every_kind_of_item_has_a_category() -> None:
    built = shop()
    image = ImagePart(media_type="image/png", data="", width=750, height=100)
    built.add(UserMessage(parts=(TextPart(text="look"), image)))
    usage = request_breakdown(built.projection(), [OWN_TOOLS, SERVER_TOOLS])
    shares = {share.category: share for share in usage.shares}
    for category in (
        "system",
        "instructions",
        "summaries",
        "pins",
        "user",
        "assistant",
        "results",
    ):
        assert shares[category].items > 0, category
    assert [shares[category].items for category in ("images", "clipped", "hidden")] == [
        1,
        1,
        1,
    ]
    schemas = [
        share
        for share in request_breakdown(
            built.projection(), [OWN_TOOLS, SERVER_TOOLS]
        ).shares
        if share.category == "tools"
    ]
    assert [(share.server, share.items) for share in schemas] == [
        ("", 11),
        ("github", 26),
    ]


@given(steps)
def test_an_incremental_tally_equals_a_new_one(happened: list[Step]) -> None:
    built = History()
    projection = built.projection()
    for entry in build_history(happened):
        projection.append(entry)
        kept, fresh = projection.tally, Tally()
        fresh.catch_up(projection.view, 0)
        for item in projection.view:
            kind: ItemKind = kind_of(item)
            assert kept.sum(kind) == fresh.sum(kind)
        heaviest = [item.reported or item.tokens for item in kept.heaviest(5, 1.0)]
        assert heaviest == [
            item.reported or item.tokens for item in fresh.heaviest(5, 1.0)
        ]
        shares = categories(projection, overhead=300)
        total = shares.system + shares.summaries + shares.verbatim
        assert total == view_size(projection, overhead=300).tokens


def test_an_unpinned_item_returns_to_its_own_category() -> None:
    built = shop()
    projection = built.projection()
    assert (projection.tally.sum("pins").items, projection.tally.sum("user").items) == (
        1,
        2,
    )
    projection.append(built.edit("unpin", 2).entries[-1])
    assert (projection.tally.sum("pins").items, projection.tally.sum("user").items) == (
        0,
        3,
    )
