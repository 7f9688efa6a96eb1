"""The numbers decisions use: reported usage first, calibrated estimates behind it."""

import pytest

from foldline.context.calibration import MARGIN, START
from foldline.context.tokens import message_tokens
from foldline.context.weight import categories, entry_weight, item_weight, view_size
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    ModelChange,
    RequestRecord,
    Usage,
    UserMessage,
    text_parts,
)
from support.history import History, history

TEXT = "a sentence of a conversation about orders " * 50


def used(reasoning: int = 0) -> History:
    usage = Usage(input=2_000, output=100 + reasoning, reasoning=reasoning)
    return history().system("s").user(TEXT).assistant("ok", usage=usage, model="m")


def test_without_a_usage_all_is_a_calibrated_estimate_that_errs_high() -> None:
    projection = history().user(TEXT).projection()
    assert view_size(projection).tokens == round(projection.tokens * START * MARGIN)
    assert view_size(projection).estimated


def test_reported_usage_is_the_truth_and_only_what_came_after_is_estimated() -> None:
    projection = used().projection()
    assert view_size(projection).tokens == 2_100
    pending = UserMessage(parts=text_parts(TEXT))
    grown = used().user(TEXT).projection()
    assert view_size(projection, pending=[pending]) == view_size(grown)
    assert view_size(grown).tokens == 2_100 + round(message_tokens(pending) * START * MARGIN)
    assert not view_size(grown).estimated


def test_reasoning_that_is_not_sent_back_is_subtracted() -> None:
    assert view_size(used(reasoning=5_000).projection()).tokens == 2_100


def test_reasoning_that_a_server_gets_back_counts() -> None:
    """Kimi and DeepSeek want it: a long thought then fills their window, too."""
    thought = "let me think about this once more, from the start " * 200
    usage = Usage(input=2_000, output=2_300, reasoning=2_200)
    built = history().user(TEXT).assistant("ok", thinking=thought, usage=usage, model="m")
    plain = built.projection()
    record = RequestRecord(index=built.last + 1, digest="", model="m", dialect="strict-reasoning")
    told = built.add(record).projection()
    assert view_size(plain).tokens == 2_100
    assert view_size(told).tokens == 2_100 + round(plain.thinking * START * MARGIN)
    later = built.user("and?").assistant("yes", thinking=thought, usage=usage, model="m").projection()
    assert view_size(later).tokens == 4_300


@pytest.mark.parametrize("change", ["fold", "revert", "clear", "edit", "undo", "another model"])
def test_a_usage_older_than_a_change_of_the_view_decides_nothing(change: str) -> None:
    """A rewind or a fold is followed by a small view: the usage from before must not fold it at once."""
    huge = Usage(input=100_000, output=100)
    built = history().system("s").checkpoint(0).user(TEXT).assistant("one", usage=huge, model="m")
    built.user("two").assistant("two", usage=huge, model="m")
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
    assert view_size(used().projection(), overhead=500).tokens == 2_100


def test_a_usage_that_a_server_reports_after_truncating_is_not_believed() -> None:
    calibrated = used().add(RequestRecord(digest="", model="m", estimated=1_000, usage=Usage(input=1_200)))
    truncated = calibrated.user(TEXT * 20).assistant("ok", usage=Usage(input=1_500, output=5), model="m")
    assert view_size(truncated.projection()).tokens > 8_000


def test_an_answer_weighs_what_its_provider_reported() -> None:
    projection = used().projection()
    weight = item_weight(projection, projection.view[-1])
    assert (weight.tokens, weight.estimated) == (100, False)
    thinking = AssistantMessage(parts=text_parts(TEXT), usage=Usage(input=9, output=0))
    assert entry_weight(projection, thinking).estimated


def test_categories_add_up_to_the_size() -> None:
    projection = used().edit("pin", 1).projection()
    shares = categories(projection, overhead=300)
    size = view_size(projection, overhead=300).tokens
    assert shares.system + shares.summaries + shares.verbatim == size
    assert shares.summaries > shares.verbatim > 0
