"""Of the facts of all that was folded, how many the view still says."""

from collections.abc import Sequence
from dataclasses import replace

from foldline.context.audit import audit
from foldline.evaluation.record import Run
from foldline.evaluation.survival import Known, Share, Survival, survival
from foldline.protocol import BaseMessage, UserMessage
from support.evaluation import METER, answered, folded_before, length, messages_of, raw, summary
from support.history import History, call, history, modified, read
from support.pi_messages import pi_messages
from support.recorded import needs_recorded, recorded

RULE = "Never touch the payments table."


def work() -> History:
    """Entries 0 to 7, the last of them an answer; each fact is in one place."""
    return (
        history()
        .user(f"The retry makes two orders. {RULE}")
        .step("bash", "E   LockError: could not obtain lock on orders", command="pytest -k retry -x")
        .step("edit", "Edited.", path="src/b.py", files=[modified("src/b.py")])
        .step("read", "nothing to see", path="src/a.py", files=[read("src/a.py")])
        .assistant("Done.")
    )


def kept(run: Run, built: History) -> Survival:
    return survival(run, Known(messages_of(built), METER))


def folding(text: str) -> Run:
    """All before the last answer becomes a summary of this text."""
    return folded_before(work(), 7, lambda _: [summary(text)])


# -- facts -----------------------------------------------------------------------------------------


def test_where_nothing_was_folded_there_is_nothing_to_survive() -> None:
    found = kept(raw(work()), work())
    assert found.compactions == ()
    assert found.end.facts == Share(0, 0)
    assert found.end.facts.value is None


def test_an_empty_summary_keeps_nothing_of_any_kind() -> None:
    end = kept(folding("Work went on."), work()).end
    assert end.by_kind == {
        "path": Share(0, 2),
        "command": Share(0, 1),
        "error": Share(0, 1),
        "constraint": Share(0, 1),
    }


def test_a_summary_keeps_what_it_says_in_any_form_a_person_would_accept() -> None:
    text = f"- {RULE.rstrip('.')}\nChanged /home/ann/shop/src/b.py; could not obtain lock on orders."
    end = kept(folding(text), work()).end
    assert {kind: share.kept for kind, share in end.by_kind.items()} == {
        "path": 1,
        "command": 0,
        "error": 1,
        "constraint": 1,
    }
    assert end.facts == Share(3, 5)


def test_a_word_broken_at_a_line_end_is_still_the_word() -> None:
    built = history().user("Never break compatibility.").assistant("Yes.")
    run = folded_before(built, 1, lambda _: [summary("Never break compati-\nbility.")])
    assert kept(run, built).end.by_kind["constraint"] == Share(1, 1)


def test_facts_are_those_of_everything_folded_so_far() -> None:
    built = work().user("Go on.").step("bash", "ok", command="make release").assistant("Released.")
    messages = messages_of(built)
    first = (summary("Nothing.", index=7), *messages[7:])
    second = (summary("We ran make release.", index=11),)
    run = raw(built)
    once = folded_before(built, 7, lambda _: [summary("Nothing.", index=7)]).compactions[0]
    twice = replace(once, before=first, after=second, requests=5)
    found = kept(replace(run, compactions=(once, twice), last_view=second), built)
    assert [at.facts for at in found.compactions] == [Share(0, 5), Share(1, 6)]
    assert found.end.facts == Share(1, 6)


def test_what_was_said_after_a_fold_is_not_asked_of_it() -> None:
    built = work().user("Go on.").step("bash", "ok", command="make release").assistant("Released.")
    run = folded_before(built, 7, lambda _: [summary("Nothing.")])
    assert kept(run, built).compactions[0].facts.of == 5


def test_a_hidden_result_counts_as_folded_and_its_call_as_kept() -> None:
    def without_outputs(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [m.model_copy(update={"parts": ()}) if m.type == "tool_result" else m for m in so_far]

    end = kept(folded_before(work(), 7, without_outputs), work()).end
    assert end.by_kind["error"] == Share(0, 1)
    assert end.by_kind["path"] == Share(2, 2)  # the calls name them
    assert "command" not in end.by_kind


def test_density_is_facts_for_a_thousand_tokens_of_the_view() -> None:
    end = kept(folding("We changed src/b.py."), work()).end
    assert end.tokens == length(folding("We changed src/b.py.").last_view)
    assert end.density == 1_000 * 1 / end.tokens


# -- constraints -----------------------------------------------------------------------------------


def test_a_constraint_that_is_always_there_survives_throughout() -> None:
    found = kept(raw(work()), work())
    assert found.constraints == found.constraints_throughout == Share(1, 1)


def test_a_constraint_that_was_missing_once_does_not_survive_throughout() -> None:
    run = raw(work())
    missed = replace(run.requests[1], messages=run.requests[1].messages[1:])
    found = kept(replace(run, requests=(run.requests[0], missed, *run.requests[2:])), work())
    assert found.constraints == Share(1, 1)
    assert found.constraints_throughout == Share(0, 1)


def test_requests_before_it_was_said_are_not_asked_for_a_constraint() -> None:
    built = history().user("Hello.").assistant("Hello.").user(RULE).assistant("Understood.")
    assert kept(raw(built), built).constraints_throughout == Share(1, 1)


def test_a_constraint_survives_in_other_white_space_but_not_in_other_words() -> None:
    wrapped = folding("Never touch\n   the payments table.")
    assert kept(wrapped, work()).constraints == Share(1, 1)
    assert kept(folding("The payments table is not to be touched."), work()).constraints == Share(0, 1)


def test_a_sentence_that_comes_twice_is_one_constraint() -> None:
    built = history().user(RULE).assistant("Yes.").user(RULE).assistant("Yes.")
    assert kept(raw(built), built).constraints == Share(1, 1)


def test_constraints_of_pinned_messages_are_counted_by_themselves() -> None:
    built = history().user(RULE).assistant("Yes.").user("Always run the tests first.").assistant("Yes.")
    run = replace(answered(built, lambda so_far: [m for m in so_far if m.index != 2]), pins=frozenset({2}))
    found = kept(run, built)
    assert found.constraints_throughout == Share(1, 2)
    assert found.pins_throughout == Share(0, 1)


def test_machine_text_sets_no_constraints() -> None:
    built = history().user("Go.")
    built.add(UserMessage(origin="machine", parts=messages_of(history().user(RULE))[0].parts))
    assert kept(raw(built.assistant("Yes.")), built).constraints == Share(0, 0)


# -- todos and edited files ------------------------------------------------------------------------


def planned(*open_items: str, done: Sequence[str] = ()) -> list[dict[str, str]]:
    return [
        *({"content": item, "status": "pending"} for item in open_items),
        *({"content": item, "status": "completed"} for item in done),
    ]


def planning() -> History:
    built = history().user("Go.")
    built.assistant(calls=[call("todo", todos=planned("mend the retry", "write the docs"))]).result("ok")
    newest = planned("write the docs", done=["mend the retry"])
    return built.assistant(calls=[call("todo", todos=newest)]).result("ok").assistant("One is done.")


def test_todos_are_those_open_at_the_end() -> None:
    assert kept(raw(planning()), planning()).todos == Share(1, 1)
    assert kept(
        folded_before(planning(), 5, lambda _: [summary("Mend the retry.")]), planning()
    ).todos == Share(0, 1)


def test_at_a_fold_the_todos_open_by_then_count() -> None:
    early = folded_before(planning(), 3, lambda _: [summary("Mend the retry; write the docs.")])
    assert kept(early, planning()).compactions[0].by_kind["todo"] == Share(2, 2)
    assert kept(early, planning()).end.by_kind["todo"] == Share(1, 1)


def test_an_item_ticked_off_later_is_not_open() -> None:
    built = history().user("- [ ] mend the retry\n- [ ] write the docs").assistant("- [x] mend the retry")
    assert kept(raw(built), built).todos == Share(1, 1)


def test_edited_files_are_kept_where_the_last_view_names_them() -> None:
    assert kept(folding("Nothing."), work()).edited_files == Share(0, 1)
    assert kept(folding("We changed src/b.py."), work()).edited_files == Share(1, 1)


# -- the session is looked through once ------------------------------------------------------------


def test_runs_share_what_is_known_of_their_session() -> None:
    known = Known(messages_of(work()), METER)
    alone = [kept(run, work()) for run in (raw(work()), folding("We changed src/b.py."))]
    together = [survival(run, known) for run in (raw(work()), folding("We changed src/b.py."))]
    assert together == alone


@needs_recorded
def test_a_view_says_what_the_audit_finds_in_it() -> None:
    for path in recorded("pi")[:2]:
        messages = pi_messages(path)
        known = Known(messages, METER)
        for view in messages[40:340:50]:
            lost = {(fact.kind, fact.text) for fact in audit(messages, [view]).lost if fact.kind != "todo"}
            said = known.says(view)
            silent = {
                (fact.kind, fact.text)
                for n, fact in enumerate(known.facts)
                if n not in said and fact.kind != "todo"
            }
            assert silent == lost
