"""The size of the view: reported usage first, calibrated estimates behind it; its categories add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.projection import Projection
from foldline.context.tally import Kind, Tally, kind_of
from foldline.context.tokens import MARGIN, START, message_tokens, start_ratio
from foldline.context.weight import (
    Schemas,
    categories,
    entry_weight,
    item_weight,
    prompt_weight,
    usage_of,
    view_size,
)
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
from support.happenings import Step, played, steps
from support.history import History, history
from support.stories import long_story, shop

TEXT = "a sentence of a conversation about orders " * 50


def used(reasoning: int = 0) -> History:
    usage = Usage(input=2_000, output=10 + reasoning, reasoning=reasoning)
    return history().system("s").user(TEXT).assistant("ok", usage=usage, model="m").asked()


def test_without_a_usage_all_is_a_calibrated_estimate_that_errs_high() -> None:
    projection = history().user(TEXT).projection()
    assert view_size(projection).tokens == round(projection.tokens * START * MARGIN)
    assert view_size(projection).estimated


def test_reported_usage_is_the_truth_and_only_what_came_after_is_estimated() -> None:
    projection = used().projection()
    assert view_size(projection).tokens == 2_010
    pending = UserMessage(parts=text_parts(TEXT))
    grown = used().user(TEXT).projection()
    assert view_size(projection, pending=[pending]) == view_size(grown)
    assert view_size(grown).tokens == 2_010 + round(message_tokens(pending) * start_ratio("m") * MARGIN)
    assert not view_size(grown).estimated


def learnt_on_english(ratio: float) -> History:
    """A session whose server counts so many tokens for each estimated one."""
    built = history().user(TEXT * 20)
    estimated = built.projection().tokens
    usage = Usage(input=round(estimated * ratio), output=10)
    return built.assistant("ok", usage=usage, model="m").asked(estimated=estimated)


@given(
    ratio=st.floats(0.7, 2.0),
    pieces=st.lists(st.text("请检查订单かなカナ한국어", min_size=1, max_size=200), min_size=1, max_size=4),
    english=st.text("abc \n", max_size=200),
)
def test_new_cjk_text_weighs_a_token_a_character_whatever_was_learnt_on_english(
    ratio: float, pieces: list[str], english: str
) -> None:
    built = learnt_on_english(ratio)
    before = view_size(built.projection()).tokens
    assert built.projection().calibration.ratio("m") == pytest.approx(ratio, abs=0.01)
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
def test_text_without_cjk_weighs_what_the_ratio_says(ratio: float) -> None:
    built = learnt_on_english(ratio)
    projection = built.projection()
    assert projection.scale == pytest.approx(projection.calibration.scale("m"))


def test_reasoning_that_is_not_sent_back_is_subtracted() -> None:
    assert view_size(used(reasoning=5_000).projection()).tokens == 2_010


def test_reasoning_that_a_server_gets_back_counts() -> None:
    """Kimi and DeepSeek want it: a long thought then fills their window, too."""
    thought = "let me think about this once more, from the start " * 200
    usage = Usage(input=2_000, output=2_210, reasoning=2_200)

    def thought_of(dialect: str) -> Projection:
        built = history().user(TEXT).assistant("ok", thinking=thought, usage=usage, model="m")
        return built.asked(dialect=dialect).projection()

    assert view_size(thought_of("strict")).tokens == 2_010
    assert view_size(thought_of("strict-reasoning")).tokens == 4_210


@pytest.mark.parametrize("change", ["fold", "revert", "clear", "edit", "undo", "another model"])
def test_a_usage_older_than_a_change_of_the_view_decides_nothing(change: str) -> None:
    """A rewind or a fold is followed by a small view: the usage from before must not fold it at once."""
    huge = Usage(input=100_000, output=100)
    built = history().system("s").checkpoint(0).user(TEXT).assistant("one", usage=huge, model="m").asked()
    built.user("two").assistant("two", usage=huge, model="m").asked()
    before = built.projection()
    assert view_size(before).tokens > 100_000
    index = built.entries[2].index
    match change:
        case "fold" | "undo":
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


def test_the_schemas_of_tools_count_where_no_usage_holds_them() -> None:
    unreported = history().user(TEXT).projection()
    assert view_size(unreported, overhead=500).tokens > view_size(unreported).tokens + 500
    assert view_size(used().projection(), overhead=500).tokens == 2_010


def test_a_usage_that_a_server_reports_after_truncating_is_not_believed() -> None:
    truncated = used().user(TEXT * 20).assistant("ok", usage=Usage(input=1_500, output=5), model="m").asked()
    assert view_size(truncated.projection()).tokens > 8_000


def test_an_answer_weighs_what_its_provider_reported() -> None:
    projection = used().projection()
    weight = item_weight(projection, projection.view[-1])
    assert (weight.tokens, weight.estimated) == (10, False)
    thinking = AssistantMessage(parts=text_parts(TEXT), usage=Usage(input=9, output=0))
    assert entry_weight(projection, thinking).estimated


@pytest.mark.parametrize(("text", "output"), [(TEXT * 7, 1), (TEXT * 7, 900), ("ok", 5_000)])
def test_a_count_that_cannot_be_that_of_its_text_is_not_taken(text: str, output: int) -> None:
    """Claude Code writes down the usage of the first piece of a stream: 14,420 characters as 1 token."""
    built = history().user("write it").assistant(text, usage=Usage(input=30, output=output), model="m")
    projection = built.asked().projection()
    weight = item_weight(projection, projection.view[-1])
    assert weight.estimated and weight.tokens != output
    assert view_size(projection).tokens == 30 + weight.tokens


def foreign(beside: int, turns: int, rate: float = 1.0) -> History:
    """A session of another agent, which sends so many tokens beside the messages with every request."""
    built = history()
    for _ in range(turns):
        projection = built.user(TEXT).projection()
        usage = Usage(input=round(rate * projection.sent) + beside, output=2)
        built.assistant("ok", usage=usage, model="m")
    return built


def test_what_another_agent_sent_beside_its_messages_is_no_part_of_our_next_request() -> None:
    light, heavy = foreign(0, 3).projection(), foreign(50_000, 3).projection()
    assert view_size(heavy) == view_size(light)
    assert view_size(heavy).estimated and view_size(heavy).tokens < 3_000
    assert usage_of(heavy, []).shares == usage_of(light, []).shares  # no row that says what is too low


def test_by_how_much_its_usage_grew_calibrates_the_text_that_came() -> None:
    """The overhead is the same in both usages; a view that another fold or agent changed begins anew."""
    grown = foreign(50_000, 12, rate=1.1)
    assert grown.projection().calibration.ratio("m") == pytest.approx(1.1, abs=0.01)
    assert foreign(50_000, 2, rate=1.1).projection().calibration.ratio("m") == start_ratio("m")
    folded = foreign(50_000, 2).add(Compaction(first_kept_index=2)).user(TEXT * 6)
    folded.assistant("ok", usage=Usage(input=9_000, output=2), model="m")
    assert folded.projection().calibration.ratio("m") == start_ratio("m")


def test_reasoning_that_another_agent_sent_back_makes_the_text_no_heavier() -> None:
    """A recorded session of DeepSeek: 185k tokens of text, 112k of reasoning, and a usage that holds both."""
    built = history()
    for _ in range(8):
        projection = built.user(TEXT).projection()
        usage = Usage(input=projection.tokens + projection.thinking + 9_000, output=2)
        built.assistant("ok", thinking=TEXT, usage=usage, model="m")
    assert built.projection().calibration.ratio("m") == pytest.approx(1.0, abs=0.01)


def test_after_the_first_request_of_our_own_its_usage_decides() -> None:
    continued = (
        foreign(50_000, 3).user("and?").assistant("yes", usage=Usage(input=4_000, output=2), model="m")
    )
    assert view_size(continued.asked(estimated=3_500).projection()).tokens == 4_002


def test_categories_add_up_to_the_size() -> None:
    projection = used().edit("pin", 1).projection()
    shares = categories(projection, overhead=300)
    size = view_size(projection, overhead=300).tokens
    assert shares.system + shares.summaries + shares.verbatim == size
    assert shares.summaries > shares.verbatim > 0


OURS = Schemas("", 11, 900)
THEIRS = Schemas("github", 26, 7_000)


def reported() -> History:
    """A session whose newest answer came with a usage."""
    built = history().system("rules").instructions("cents").user(TEXT)
    built.assistant("ok", usage=Usage(input=9_000, output=12), model="m")
    return built.asked(estimated=8_500).user(TEXT)


def test_the_parts_add_up_to_what_the_meter_says() -> None:
    for built in (history(), shop(), reported()):
        projection = built.projection()
        usage = usage_of(projection, [OURS, THEIRS])
        meter = view_size(projection, overhead=7_900)
        assert usage.size == meter
        assert abs(sum(share.tokens for share in usage.shares) - meter.tokens) < 1


def test_an_item_weighs_in_its_category_what_the_inspector_says() -> None:
    projection = reported().projection()
    shares = {share.category: share for share in usage_of(projection, []).shares}
    assert shares["assistant"].tokens == 12 and not shares["assistant"].estimated
    asked = [item_weight(projection, item).tokens for item in projection.view if kind_of(item) == "user"]
    assert abs(shares["user"].tokens - sum(asked)) <= len(asked) and shares["user"].estimated
    assert shares["difference"].tokens != 0


def test_every_kind_has_its_place() -> None:
    built = shop()
    image = ImagePart(media_type="image/png", data="", width=750, height=100)
    built.add(UserMessage(parts=(TextPart(text="look"), image)))
    usage = usage_of(built.projection(), [OURS, THEIRS])
    shares = {share.category: share for share in usage.shares}
    for category in ("system", "instructions", "summaries", "pins", "user", "assistant", "results"):
        assert shares[category].items > 0, category
    assert [shares[category].items for category in ("images", "clipped", "hidden")] == [1, 1, 1]
    schemas = [
        share for share in usage_of(built.projection(), [OURS, THEIRS]).shares if share.category == "tools"
    ]
    assert [(share.server, share.items) for share in schemas] == [("", 11), ("github", 26)]


@given(steps)
def test_a_tally_that_is_kept_up_is_one_made_afresh(happened: list[Step]) -> None:
    built = History()
    projection = built.projection()
    for entry in played(happened):
        projection.append(entry)
        kept, fresh = projection.tally, Tally()
        fresh.catch_up(projection.view, 0)
        for item in projection.view:
            kind: Kind = kind_of(item)
            assert kept.sum(kind) == fresh.sum(kind)
        heaviest = [item.reported or item.tokens for item in kept.heaviest(5, 1.0)]
        assert heaviest == [item.reported or item.tokens for item in fresh.heaviest(5, 1.0)]
        shares = categories(projection, overhead=300)
        total = shares.system + shares.summaries + shares.verbatim
        assert total == view_size(projection, overhead=300).tokens


def test_a_message_more_costs_the_tally_one_item_however_long_the_history_is() -> None:
    built = long_story(4_000)
    projection = built.projection()
    projection.tally.heaviest(20, 1.0)
    before = projection.tally.looked_at
    for _ in range(10):
        built.user("and then?")
        projection.append(built.entries[-1])
        usage_of(projection, [OURS])
        projection.tally.heaviest(20, 1.0)
    assert projection.tally.looked_at == before + 10


def test_what_is_unpinned_counts_as_what_it_is() -> None:
    built = shop()
    projection = built.projection()
    assert (projection.tally.sum("pins").items, projection.tally.sum("user").items) == (1, 2)
    projection.append(built.edit("unpin", 2).entries[-1])
    assert (projection.tally.sum("pins").items, projection.tally.sum("user").items) == (0, 3)
