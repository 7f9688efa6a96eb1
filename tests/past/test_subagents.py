"""Subagents in a history: their results, their usage and their running time."""

from foldline.past.subagents import (
    IN_BACKGROUND,
    SubagentAnswers,
    SubagentWork,
    result_of,
    started_by,
    tokens_in_view,
    work_of,
)
from foldline.protocol import Edit, Revert, Subagent
from support.children import TASKS, child, finished_parent, parent
from support.history import call, history
from support.request_stories import RequestStory


def missing_answers(story: RequestStory) -> list[str]:
    """Return the tasks of agents whose answer has not reached the model."""
    return [each.title for each in SubagentAnswers().owed(story.projection())]


def test_an_answer_is_missing_if_neither_its_call_nor_a_message_delivered_it() -> None:
    titles = [title for _, title in TASKS.values()]
    assert missing_answers(parent()) == titles[1:]  # no results: the program was killed
    assert missing_answers(finished_parent()) == []
    without = RequestStory()
    for entry in finished_parent().entries:
        if entry.type != "developer":
            without.add(entry)
    assert missing_answers(without) == [titles[1]]
    asked = next(entry.index for entry in without.entries if entry.type == "user")
    assert missing_answers(without.add(Revert(checkpoint=0, moment=asked))) == []
    assert (
        missing_answers(finished_parent().add(Revert(checkpoint=0, moment=asked))) == []
    )
    brought = next(
        entry.index for entry in finished_parent().entries if entry.type == "developer"
    )
    assert missing_answers(
        finished_parent().add(Revert(checkpoint=0, moment=brought - 1))
    ) == [titles[1]]
    assert (
        missing_answers(finished_parent().add(Edit(target=brought, action="drop")))
        == []
    )


def test_the_usage_of_a_subagent_is_the_sum_of_its_requests() -> None:
    assert work_of(child().projection()) == SubagentWork(2, 900 + 20 + 2_000 + 20)
    unrecorded = (
        history().user("q").assistant(calls=[call("ls")]).result("a").assistant("b")
    )
    assert work_of(unrecorded.projection()) == SubagentWork(2, 0)


def test_a_result_is_the_answer_of_the_subagent_its_call_started() -> None:
    projection = finished_parent().projection()
    results = [result_of(projection, each) for each in projection.subagents]
    assert [
        None if each is None else projection.entry(each.index).details.brief
        for each in results
    ] == [
        "3 steps, 12.0k tokens",
        IN_BACKGROUND,
        "1 step ✗",
    ]
    for started, result in zip(projection.subagents, results, strict=True):
        assert result is not None
        assert (
            started_by(projection, result.index)
            == started
            == started_by(projection, started.index)
        )
    assert started_by(projection, 1) is None


def test_a_repeated_call_id_refers_to_the_last_call_before_the_subagent() -> None:
    story = RequestStory().user("go")
    for answer in ("first", "second"):
        story.ask("", call("task", call_id="call_0", prompt=answer))
        story.add(Subagent(child=answer, call_id="call_0", agent="explore")).answer(
            answer
        )
    projection = story.projection()
    found = [result_of(projection, each) for each in projection.subagents]
    assert [projection.entry(each.index).text for each in found if each] == [
        "first",
        "second",
    ]


def test_a_subagent_without_a_known_call_has_no_result() -> None:
    projection = (
        RequestStory()
        .user("go")
        .add(Subagent(child="c", call_id="", agent=""))
        .projection()
    )
    assert SubagentAnswers().of(projection, projection.subagents[0]) == []


def test_a_later_answer_from_the_background_counts() -> None:
    projection, answers = finished_parent().projection(), SubagentAnswers()
    one, later, _ = (answers.of(projection, each) for each in projection.subagents)
    assert [each.type for each in later] == ["tool_result", "developer"]
    assert tokens_in_view(projection, later) > 0
    before = tokens_in_view(projection, one)
    dropped = (
        finished_parent().add(Edit(target=one[0].index, action="hide")).projection()
    )
    assert 0 < tokens_in_view(dropped, one) < before


def test_a_running_subagent_spans_to_the_end_and_a_finished_one_to_its_answer() -> None:
    projection = parent().projection()
    ran = [(start, end) for _, start, end in SubagentAnswers().spans(projection)]
    end = len(projection.entries)
    assert (
        ran[0][1] == projection.count_up_to(projection.last_index)
        and ran[1][1] == ran[2][1] == end
    )
    [_, background, _] = SubagentAnswers().spans(finished_parent().projection())
    assert background[2] - background[1] > 3


def test_a_growing_history_is_read_once() -> None:
    answers, story = SubagentAnswers(), parent()
    projection = story.projection()
    assert answers.of(projection, projection.subagents[1]) == []
    for entry in finished_parent().entries[len(story.entries) :]:
        projection.append(entry)
    assert len(answers.of(projection, projection.subagents[1])) == 2
