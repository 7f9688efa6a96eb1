"""What a history tells of subagents: whose answer a result is, what each worked, when it ran."""

from foldline.context.subagents import Answers, Work, result_of, started_by, tokens_in_view, work_of
from foldline.protocol import Edit, Revert, Subagent
from support.asking import Asking
from support.children import TASKS, all_back, child, parent
from support.history import call, history


def owed(story: Asking) -> list[str]:
    """The agents of which the model has yet to hear, by what they were to do."""
    return [each.title for each in Answers().owed(story.projection())]


def test_an_answer_is_missing_where_its_call_had_none_and_no_message_brought_it() -> None:
    titles = [title for _, title in TASKS.values()]
    assert owed(parent()) == titles[1:]  # no results: the program was killed
    assert owed(all_back()) == []
    without = Asking()
    for entry in all_back().entries:
        if entry.type != "developer":
            without.add(entry)
    assert owed(without) == [titles[1]]
    asked = next(entry.index for entry in without.entries if entry.type == "user")
    assert owed(without.add(Revert(checkpoint=0, moment=asked))) == []
    assert owed(all_back().add(Revert(checkpoint=0, moment=asked))) == []
    brought = next(entry.index for entry in all_back().entries if entry.type == "developer")
    assert owed(all_back().add(Revert(checkpoint=0, moment=brought - 1))) == [titles[1]]
    assert owed(all_back().add(Edit(target=brought, action="drop"))) == []


def test_the_work_of_a_subagent_is_what_its_requests_came_to() -> None:
    assert work_of(child().projection()) == Work(2, 900 + 20 + 2_000 + 20)
    unrecorded = history().user("q").assistant(calls=[call("ls")]).result("a").assistant("b")
    assert work_of(unrecorded.projection()) == Work(2, 0)


def test_a_result_is_the_answer_of_the_subagent_that_its_call_has_started() -> None:
    projection = all_back().projection()
    results = [result_of(projection, each) for each in projection.subagents]
    assert [None if each is None else projection.entry(each.index).details.brief for each in results] == [
        "3 steps, 12.0k tokens",
        "in the background",
        "1 step ✗",
    ]
    for started, result in zip(projection.subagents, results, strict=True):
        assert result is not None
        assert started_by(projection, result.index) == started == started_by(projection, started.index)
    assert started_by(projection, 1) is None


def test_an_id_that_a_provider_gives_twice_is_the_call_before_the_subagent() -> None:
    story = Asking().user("go")
    for answer in ("first", "second"):
        story.ask("", call("task", call_id="call_0", prompt=answer))
        story.add(Subagent(child=answer, call_id="call_0", agent="explore")).answer(answer)
    projection = story.projection()
    found = [result_of(projection, each) for each in projection.subagents]
    assert [projection.entry(each.index).text for each in found if each] == ["first", "second"]


def test_a_subagent_nobody_knows_the_call_of_has_no_result() -> None:
    projection = Asking().user("go").add(Subagent(child="c", call_id="", agent="")).projection()
    assert Answers().of(projection, projection.subagents[0]) == []


def test_the_answer_that_comes_later_from_the_background_counts_too() -> None:
    projection, answers = all_back().projection(), Answers()
    one, later, _ = (answers.of(projection, each) for each in projection.subagents)
    assert [each.type for each in later] == ["tool_result", "developer"]
    assert tokens_in_view(projection, later) > 0
    before = tokens_in_view(projection, one)
    dropped = all_back().add(Edit(target=one[0].index, action="hide")).projection()
    assert 0 < tokens_in_view(dropped, one) < before


def test_one_that_runs_spans_to_the_end_and_one_that_has_answered_to_its_answer() -> None:
    projection = parent().projection()
    ran = [(start, end) for _, start, end in Answers().spans(projection)]
    end = len(projection.entries)
    assert ran[0][1] == projection.count_up_to(projection.last_index) and ran[1][1] == ran[2][1] == end
    [_, background, _] = Answers().spans(all_back().projection())
    assert background[2] - background[1] > 3


def test_growing_history_is_read_once() -> None:
    answers, story = Answers(), parent()
    projection = story.projection()
    assert answers.of(projection, projection.subagents[1]) == []
    for entry in all_back().entries[len(story.entries) :]:
        projection.append(entry)
    assert len(answers.of(projection, projection.subagents[1])) == 2
