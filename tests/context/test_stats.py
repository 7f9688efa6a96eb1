"""What a session came to, from its entries alone."""

from foldline.context.stats import stats_of
from foldline.protocol import AssistantMessage, Compaction, RequestRecord, Usage
from support.history import call, history

USED = Usage(input=1_000, cached=900, output=50)


def test_requests_count_by_model_failed_ones_included_and_compactions_with_them() -> None:
    told = history().user("go").assistant("done")
    told.add(RequestRecord(digest="", model="m", usage=USED)).add(
        RequestRecord(digest="", model="m", error="no")
    )
    told.add(
        Compaction(first_kept_index=0, model="small", usage=USED, tokens_before=9_000, tokens_after=2_000)
    )
    stats = stats_of(told.entries)
    assert (stats.models["m"].requests, stats.models["m"].input, stats.failed) == (2, 1_000, 1)
    assert (stats.models["small"].requests, stats.compactions) == (1, 1)


def test_where_no_request_was_recorded_the_answers_stand_for_them() -> None:
    told = history().user("go").add(AssistantMessage(model="theirs", usage=USED))
    assert stats_of(told.entries).models["theirs"].cached == 900


def test_an_answer_that_a_program_wrote_is_no_request() -> None:
    told = history().user("go").add(AssistantMessage(model="theirs", usage=USED)).assistant("Got it.")
    assert {name: use.requests for name, use in stats_of(told.entries).models.items()} == {"theirs": 1}
    assert stats_of(history().assistant("Hello.").entries).models["unknown model"].requests == 1


def test_tools_are_counted_with_what_went_wrong_and_only_typed_prompts_are_prompts() -> None:
    told = history().user("go").assistant(calls=[call("read"), call("read")]).result("a").result("b")
    stats = stats_of(told.entries)
    assert (stats.prompts, stats.answers, stats.tools["read"].calls, stats.tools["read"].errors) == (
        1,
        1,
        2,
        0,
    )


def test_an_empty_history_counts_nothing() -> None:
    assert (stats_of([]).entries, stats_of([]).first) == (0, None)
