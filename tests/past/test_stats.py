"""Statistics of a session, computed from its entries."""

from foldline.past.stats import stats_of
from foldline.protocol import AssistantMessage, Compaction, RequestRecord, Usage
from support.history import call, history

USED = Usage(input=1_000, cached=900, output=50)


def test_requests_count_by_model_including_failures_and_compactions() -> None:
    told = history().user("go").assistant("done")
    told.add(RequestRecord(digest="", model="m", usage=USED)).add(
        RequestRecord(digest="", model="m", error="no")
    )
    told.add(
        Compaction(
            first_kept_index=0,
            model="small",
            usage=USED,
            tokens_before=9_000,
            tokens_after=2_000,
        )
    )
    stats = stats_of(told.entries)
    assert (stats.models["m"].requests, stats.models["m"].input, stats.failed) == (
        2,
        1_000,
        1,
    )
    assert (stats.models["small"].requests, stats.compactions) == (1, 1)


def test_answers_stand_for_unrecorded_requests() -> None:
    told = history().user("go").add(AssistantMessage(model="theirs", usage=USED))
    assert stats_of(told.entries).models["theirs"].cached == 900


def test_an_answer_written_by_a_program_is_not_a_request() -> None:
    told = (
        history()
        .user("go")
        .add(AssistantMessage(model="theirs", usage=USED))
        .assistant("Got it.")
    )
    assert {
        name: use.requests for name, use in stats_of(told.entries).models.items()
    } == {"theirs": 1}
    assert (
        stats_of(history().assistant("Hello.").entries).models["unknown model"].requests
        == 1
    )


def test_tool_calls_and_failures_are_counted_and_only_typed_prompts() -> None:
    told = (
        history()
        .user("go")
        .assistant(calls=[call("read"), call("read")])
        .result("a")
        .result("b")
    )
    stats = stats_of(told.entries)
    assert (
        stats.prompts,
        stats.answers,
        stats.tools["read"].calls,
        stats.tools["read"].errors,
    ) == (
        1,
        1,
        2,
        0,
    )


def test_an_empty_history_counts_nothing() -> None:
    assert (stats_of([]).entries, stats_of([]).first) == (0, None)
