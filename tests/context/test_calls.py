"""Calls and results are paired before anything is sent; whether a conversation waits for the model."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.calls import broke_off, paired, pairing_faults, subject_of, unanswered
from foldline.context.conversation import statements_of
from foldline.context.facts import command_arguments, patches
from foldline.context.view import INTERRUPTED
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    Written,
    text_parts,
)
from support.history import History, call, history


def messages(builder_entries: list) -> list[BaseMessage]:
    return [entry for entry in builder_entries if isinstance(entry, BaseMessage)]


def test_an_unpaired_call_left_by_a_crash_gets_a_stated_interrupted_result() -> None:
    crashed = messages(history().user("go").assistant(calls=[call("bash"), call("read")]).result("a").entries)
    sent = paired([*crashed, UserMessage(parts=text_parts("what happened?"))])
    assert [message.type for message in sent] == ["user", "assistant", "tool_result", "tool_result", "user"]
    assert sent[3].text == INTERRUPTED
    assert pairing_faults(sent) == []


def test_what_is_paired_already_is_sent_as_it_is() -> None:
    whole = messages(history().user("go").step("read", "x").assistant("done").entries)
    assert paired(whole) == whole


def test_each_way_to_be_refused_is_named() -> None:
    orphan = ToolResultMessage(index=1, call_id="a")
    waiting = AssistantMessage(index=2, parts=(call("read", call_id="b"),))
    silent = AssistantMessage(index=3)
    assert pairing_faults([orphan, waiting, silent]) == [
        "entry 1 answers no call before it",
        "call b has no result before entry 3",
        "entry 3 is an answer without text and calls",
    ]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), max_size=6), st.data())
def test_any_subset_of_results_in_any_order_is_paired(groups: list[list[str]], data: st.DataObject) -> None:
    """Repeated ids included: some servers give every call the same one."""
    sent: list[BaseMessage] = []
    for ids in groups:
        sent.append(AssistantMessage(parts=tuple(call("read", call_id=each) for each in ids)))
        answered = data.draw(st.permutations(ids))[: data.draw(st.integers(0, len(ids)))]
        sent += [ToolResultMessage(call_id=each) for each in answered]
    once = paired(sent)
    assert pairing_faults(once) == []
    assert paired(once) == once


def broken_answer(reason: str = "error") -> AssistantMessage:
    return AssistantMessage.model_validate({"parts": text_parts("half of"), "stop_reason": reason})


def open_at(story: History) -> int | None:
    found = unanswered(story.projection())
    return None if found is None else found.index


def asked() -> History:
    return history().system("Be kind.").user("read a.py")


def read() -> History:
    return asked().assistant(calls=[call("read", path="a.py")])


@pytest.mark.parametrize(
    ("story", "index"),
    [
        (history(), None),
        (history().system("Be kind."), None),
        (asked(), 1),
        (asked().notice("The key was refused."), 1),
        (read(), 2),
        (read().result("line"), 3),
        (read().result("line").assistant("Done."), None),
        (asked().add(broken_answer()), 2),
        (asked().add(broken_answer("cancelled")), 2),
        (asked().add(broken_answer()).edit("drop", 2), 1),
        (asked().add(broken_answer("length")), None),
        (asked().assistant("Done.").notice("The folder was moved."), None),
        (asked().assistant("Done.").add(UserMessage(parts=text_parts("$ ls"), origin="shell")), None),
        (asked().clear(), None),
        (asked().clear().user("again"), 3),
    ],
)
def test_what_the_model_has_yet_to_answer(story: History, index: int | None) -> None:
    assert open_at(story) == index


def test_after_a_rewind_the_step_gone_back_to_is_open_again() -> None:
    story = asked().checkpoint(7).assistant("Done.")
    assert open_at(story) is None
    assert open_at(story.revert(7)) == 1


def test_an_answer_that_was_compacted_away_was_given() -> None:
    summary = Written(message=SystemMessage(origin="summary", parts=text_parts("so far")), covers=((1, 2),))
    folded = Compaction(summary="so far", first_kept_index=3, head=(summary,))
    assert open_at(asked().assistant("Done.").add(folded)) is None


def test_only_an_answer_breaks_off() -> None:
    assert broke_off(broken_answer("error")) and broke_off(broken_answer("cancelled"))
    assert not broke_off(broken_answer("length")) and not broke_off(asked().entries[-1])  # type: ignore[arg-type]


def test_a_task_is_about_the_first_line_of_its_prompt() -> None:
    assert subject_of(call("task", prompt="\nLook around\nin all of it.")) == ("Look around", "words")


_PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-old\n+new\n*** End Patch"


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        ('const r = await tools.exec_command({cmd:"git status && git diff"}); text(r.output);', "words",
         "git status && git diff"),
        ("""tools.exec_command({"workdir":"/a \\"b\\"", ms: 10, 'cmd': 'sed -n \\'1p\\' a\\nls'})""",
         "words", "sed -n '1p' a\nls"),
        ("await Promise.all([tools.exec_command({cmd:`ls`}),tools.exec_command({cmd:`pwd`})])", "words",
         "ls\npwd"),
        (f"const patch = {json.dumps(_PATCH)}; await tools.apply_patch(patch);", "path", "src/a.py"),
        (_PATCH, "path", "src/a.py"),
        (f"{_PATCH}\n{_PATCH.replace('a.py', 'b.py')}", "words", "src/a.py, src/b.py"),
        ("const r = await tools.write_stdin({session_id:1})", "words", "write_stdin({session_id:1})"),
        ("const hits = ALL_TOOLS", "words", "const hits = ALL_TOOLS"),
    ],
)  # fmt: skip
def test_a_script_is_about_what_it_runs_or_changes(source: str, kind: str, text: str) -> None:
    assert subject_of(call("exec", input=source)) == (text, kind)


def test_the_command_of_a_script_stands_in_the_digest_and_counts_as_one_that_was_run() -> None:
    given = {"input": 'const r = await tools.exec_command({cmd:"make deploy", workdir:"/srv"}); text(r)'}
    built = history().user("deploy it").assistant(calls=[call("exec", **given)]).result("done")
    assert list(command_arguments(given)) == ["make deploy"]
    said = [each for each in statements_of(messages(built.entries)) if each.kind == "calls"]
    assert [each.about for each in said[0].calls] == ["make deploy"]


def test_the_patch_of_a_script_is_read_as_one() -> None:
    given = {"input": f"const patch = {json.dumps(_PATCH)};\nawait tools.apply_patch(patch)"}
    assert list(patches(given)) == [_PATCH]
