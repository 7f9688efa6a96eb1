"""Survival: the share of compacted facts the view still contains."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from foldline.memory.audit import audit
from foldline.protocol import BaseMessage, UserMessage
from foldline_eval.record import ReplayRun
from foldline_eval.survival import KnownFacts, Ratio, Survival, survival
from support.evaluation import (
    length,
    messages_of,
    raw_run,
    run_compacted_before,
    run_with_view,
    summary,
)
from support.history import History, call, history, modified, read
from support.pi_messages import pi_messages
from support.recordings import needs_recorded, recordings

RULE = "Never touch the payments table."


def work() -> History:
    """Build entries 0 to 7, ending with an answer; each fact occurs once."""
    return (
        history()
        .user(f"The retry makes two orders. {RULE}")
        .step(
            "bash",
            "E   LockError: could not obtain lock on orders",
            command="pytest -k retry -x",
        )
        .step("edit", "Edited.", path="src/b.py", files=[modified("src/b.py")])
        .step("read", "nothing to see", path="src/a.py", files=[read("src/a.py")])
        .assistant("Done.")
    )


def survival_of(run: ReplayRun, built: History) -> Survival:
    return survival(run, KnownFacts(messages_of(built)))


def compacting(text: str) -> ReplayRun:
    """Compact everything before the last answer into this summary."""
    return run_compacted_before(work(), 7, lambda _: [summary(text)])


# -- facts -----------------------------------------------------------------------------------------


def test_survival_is_undefined_without_a_compaction() -> None:
    found = survival_of(raw_run(work()), work())
    assert found.compactions == ()
    assert found.end.facts == Ratio(0, 0)
    assert found.end.facts.value is None


def test_an_empty_summary_keeps_no_fact_of_any_kind() -> None:
    end = survival_of(compacting("Work went on."), work()).end
    assert end.by_kind == {
        "path": Ratio(0, 2),
        "command": Ratio(0, 1),
        "error": Ratio(0, 1),
        "constraint": Ratio(0, 1),
    }


def test_a_summary_keeps_a_fact_in_any_equivalent_form() -> None:
    text = f"- {RULE.rstrip('.')}\nChanged /home/ann/shop/src/b.py; could not obtain lock on orders."
    end = survival_of(compacting(text), work()).end
    assert {kind: share.kept for kind, share in end.by_kind.items()} == {
        "path": 1,
        "command": 0,
        "error": 1,
        "constraint": 1,
    }
    assert end.facts == Ratio(3, 5)


def test_a_word_broken_at_a_line_end_is_recognised() -> None:
    built = history().user("Never break compatibility.").assistant("Yes.")
    run = run_compacted_before(
        built, 1, lambda _: [summary("Never break compati-\nbility.")]
    )
    assert survival_of(run, built).end.by_kind["constraint"] == Ratio(1, 1)


def test_facts_include_everything_compacted_so_far() -> None:
    built = (
        work()
        .user("Go on.")
        .step("bash", "ok", command="make release")
        .assistant("Released.")
    )
    messages = messages_of(built)
    first = (summary("Nothing.", index=7), *messages[7:])
    second = (summary("We ran make release.", index=11),)
    run = raw_run(built)
    once = run_compacted_before(
        built, 7, lambda _: [summary("Nothing.", index=7)]
    ).compactions[0]
    twice = replace(once, before=first, after=second, requests=5)
    found = survival_of(
        replace(run, compactions=[once, twice], last_view=second), built
    )
    assert [at.facts for at in found.compactions] == [Ratio(0, 5), Ratio(1, 6)]
    assert found.end.facts == Ratio(1, 6)


def test_facts_after_a_compaction_do_not_count_for_it() -> None:
    built = (
        work()
        .user("Go on.")
        .step("bash", "ok", command="make release")
        .assistant("Released.")
    )
    run = run_compacted_before(built, 7, lambda _: [summary("Nothing.")])
    assert survival_of(run, built).compactions[0].facts.of == 5


def test_a_hidden_result_counts_as_compacted_and_its_call_as_kept() -> None:
    def without_outputs(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [
            m.model_copy(update={"parts": ()}) if m.type == "tool_result" else m
            for m in so_far
        ]

    end = survival_of(run_compacted_before(work(), 7, without_outputs), work()).end
    assert end.by_kind["error"] == Ratio(0, 1)
    assert end.by_kind["path"] == Ratio(2, 2)  # the calls name them
    assert "command" not in end.by_kind


def test_density_is_facts_per_thousand_tokens_of_the_view() -> None:
    end = survival_of(compacting("We changed src/b.py."), work()).end
    assert end.tokens == length(compacting("We changed src/b.py.").last_view)
    assert end.density == 1_000 * 1 / end.tokens


# -- constraints -----------------------------------------------------------------------------------


def test_a_constraint_in_every_view_survives_throughout() -> None:
    found = survival_of(raw_run(work()), work())
    assert found.constraints == found.constraints_throughout == Ratio(1, 1)


def test_a_constraint_missing_from_one_view_does_not_survive_throughout() -> None:
    run = raw_run(work())
    missed = replace(run.requests[1], messages=run.requests[1].messages[1:])
    found = survival_of(
        replace(run, requests=[run.requests[0], missed, *run.requests[2:]]), work()
    )
    assert found.constraints == Ratio(1, 1)
    assert found.constraints_throughout == Ratio(0, 1)


def test_requests_before_a_constraint_need_not_contain_it() -> None:
    built = (
        history().user("Hello.").assistant("Hello.").user(RULE).assistant("Understood.")
    )
    assert survival_of(raw_run(built), built).constraints_throughout == Ratio(1, 1)


def test_a_constraint_survives_other_white_space_but_not_other_words() -> None:
    wrapped = compacting("Never touch\n   the payments table.")
    assert survival_of(wrapped, work()).constraints == Ratio(1, 1)
    assert survival_of(
        compacting("The payments table is not to be touched."), work()
    ).constraints == Ratio(0, 1)


def test_a_repeated_sentence_is_one_constraint() -> None:
    built = history().user(RULE).assistant("Yes.").user(RULE).assistant("Yes.")
    assert survival_of(raw_run(built), built).constraints == Ratio(1, 1)


def test_a_constraint_that_leaves_the_view_does_not_survive_throughout() -> None:
    built = (
        history()
        .user(RULE)
        .assistant("Yes.")
        .user("Always run the tests first.")
        .assistant("Yes.")
    )
    run = run_with_view(built, lambda so_far: [m for m in so_far if m.index != 2])
    found = survival_of(run, built)
    assert found.constraints_throughout == Ratio(1, 2)


def test_machine_text_contains_no_constraints() -> None:
    built = history().user("Go.")
    built.add(
        UserMessage(origin="machine", parts=messages_of(history().user(RULE))[0].parts)
    )
    assert survival_of(raw_run(built.assistant("Yes.")), built).constraints == Ratio(
        0, 0
    )


# -- todos and edited files ------------------------------------------------------------------------


def todo_items(*open_items: str, done: Sequence[str] = ()) -> list[dict[str, str]]:
    return [
        *({"content": item, "status": "pending"} for item in open_items),
        *({"content": item, "status": "completed"} for item in done),
    ]


def planning() -> History:
    built = history().user("Go.")
    built.assistant(
        calls=[call("todo", todos=todo_items("mend the retry", "write the docs"))]
    ).result("ok")
    newest = todo_items("write the docs", done=["mend the retry"])
    return (
        built.assistant(calls=[call("todo", todos=newest)])
        .result("ok")
        .assistant("One is done.")
    )


def test_only_todos_open_at_the_end_count() -> None:
    assert survival_of(raw_run(planning()), planning()).todos == Ratio(1, 1)
    assert survival_of(
        run_compacted_before(planning(), 5, lambda _: [summary("Mend the retry.")]),
        planning(),
    ).todos == Ratio(0, 1)


def test_todos_open_at_a_compaction_count_for_it() -> None:
    early = run_compacted_before(
        planning(), 3, lambda _: [summary("Mend the retry; write the docs.")]
    )
    assert survival_of(early, planning()).compactions[0].by_kind["todo"] == Ratio(2, 2)
    assert survival_of(early, planning()).end.by_kind["todo"] == Ratio(1, 1)


def test_an_item_ticked_off_later_is_not_open() -> None:
    built = (
        history()
        .user("- [ ] mend the retry\n- [ ] write the docs")
        .assistant("- [x] mend the retry")
    )
    assert survival_of(raw_run(built), built).todos == Ratio(1, 1)


def test_edited_files_survive_if_the_last_view_names_them() -> None:
    assert survival_of(compacting("Nothing."), work()).edited_files == Ratio(0, 1)
    assert survival_of(
        compacting("We changed src/b.py."), work()
    ).edited_files == Ratio(1, 1)


# -- the session is scanned once ------------------------------------------------------------


def test_runs_share_the_facts_of_their_session() -> None:
    known = KnownFacts(messages_of(work()))
    alone = [
        survival_of(run, work())
        for run in (raw_run(work()), compacting("We changed src/b.py."))
    ]
    together = [
        survival(run, known)
        for run in (raw_run(work()), compacting("We changed src/b.py."))
    ]
    assert together == alone


@pytest.mark.slow
@needs_recorded
def test_a_view_contains_the_facts_the_audit_finds_in_it() -> None:
    for path in recordings("pi")[:2]:
        messages = pi_messages(path)
        known = KnownFacts(messages)
        for view in messages[40:340:50]:
            lost = {
                (fact.kind, fact.text)
                for fact in audit(messages, [view]).lost
                if fact.kind != "todo"
            }
            said = known.stated_in(view)
            silent = {
                (fact.kind, fact.text)
                for n, fact in enumerate(known.facts)
                if n not in said and fact.kind != "todo"
            }
            assert silent == lost
