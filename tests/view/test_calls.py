"""Pairing of calls and results before sending, and whether a conversation waits for the model."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.memory.conversation import statements_of
from foldline.memory.facts import command_arguments, patches
from foldline.memory.subjects import subject_of
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
from foldline.view.calls import (
    ANSWERS_NO_CALL,
    EMPTY_ANSWER,
    NO_RESULT_BEFORE,
    broke_off,
    paired,
    pairing_faults,
    unanswered,
)
from foldline.view.items import INTERRUPTED
from support.history import History, call, history


def messages(builder_entries: list) -> list[BaseMessage]:
    return [entry for entry in builder_entries if isinstance(entry, BaseMessage)]


def test_an_unpaired_call_after_a_crash_gets_an_explicit_interrupted_result() -> None:
    crashed = messages(
        history()
        .user("go")
        .assistant(calls=[call("bash"), call("read")])
        .result("a")
        .entries
    )
    sent = paired([*crashed, UserMessage(parts=text_parts("what happened?"))])
    assert [message.type for message in sent] == [
        "user",
        "assistant",
        "tool_result",
        "tool_result",
        "user",
    ]
    assert sent[3].text == INTERRUPTED
    assert pairing_faults(sent) == []


def test_paired_calls_are_sent_unchanged() -> None:
    whole = messages(history().user("go").step("read", "x").assistant("done").entries)
    assert paired(whole) == whole


def test_each_pairing_fault_is_named() -> None:
    orphan = ToolResultMessage(index=1, call_id="a")
    waiting = AssistantMessage(index=2, parts=(call("read", call_id="b"),))
    silent = AssistantMessage(index=3)
    assert pairing_faults([orphan, waiting, silent]) == [
        ANSWERS_NO_CALL.format(1),
        NO_RESULT_BEFORE.format("b", 3),
        EMPTY_ANSWER.format(3),
    ]


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), max_size=6),
    st.data(),
)
def test_any_subset_of_results_in_any_order_is_paired(
    groups: list[list[str]], data: st.DataObject
) -> None:
    """Includes repeated ids: some servers give every call the same id."""
    sent: list[BaseMessage] = []
    for ids in groups:
        sent.append(
            AssistantMessage(parts=tuple(call("read", call_id=each) for each in ids))
        )
        answered = data.draw(st.permutations(ids))[
            : data.draw(st.integers(0, len(ids)))
        ]
        sent += [ToolResultMessage(call_id=each) for each in answered]
    once = paired(sent)
    assert pairing_faults(once) == []
    assert paired(once) == once


def broken_answer(reason: str = "error") -> AssistantMessage:
    return AssistantMessage.model_validate(
        {"parts": text_parts("half of"), "stop_reason": reason}
    )


def open_at(story: History) -> int | None:
    found = unanswered(story.projection())
    return None if found is None else found.index


def with_prompt() -> History:
    return history().system("Be kind.").user("read a.py")


def read() -> History:
    return with_prompt().assistant(calls=[call("read", path="a.py")])


@pytest.mark.parametrize(
    ("story", "index"),
    [
        (history(), None),
        (history().system("Be kind."), None),
        (with_prompt(), 1),
        (with_prompt().notice("The key was refused."), 1),
        (read(), 2),
        (read().result("line"), 3),
        (read().result("line").assistant("Done."), None),
        (with_prompt().add(broken_answer()), 2),
        (with_prompt().add(broken_answer("cancelled")), 2),
        (with_prompt().add(broken_answer()).edit("drop", 2), 1),
        (with_prompt().add(broken_answer("length")), None),
        (with_prompt().assistant("Done.").notice("The folder was moved."), None),
        (
            with_prompt()
            .assistant("Done.")
            .add(UserMessage(parts=text_parts("$ ls"), origin="shell")),
            None,
        ),
        (with_prompt().clear(), None),
        (with_prompt().clear().user("again"), 3),
    ],
)
def test_a_conversation_waits_for_the_model(story: History, index: int | None) -> None:
    assert open_at(story) == index


def test_the_step_before_a_rewound_part_is_open_again() -> None:
    story = with_prompt().checkpoint(7).assistant("Done.")
    assert open_at(story) is None
    assert open_at(story.revert(7)) == 1


def test_a_compacted_answer_still_counts_as_an_answer() -> None:
    summary = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far")),
        covers=((1, 2),),
    )
    compacted = Compaction(summary="so far", first_kept_index=3, head=(summary,))
    assert open_at(with_prompt().assistant("Done.").add(compacted)) is None


def test_only_an_answer_can_be_broken_off() -> None:
    assert broke_off(broken_answer("error")) and broke_off(broken_answer("cancelled"))
    assert not broke_off(broken_answer("length")) and not broke_off(
        with_prompt().entries[-1]
    )  # type: ignore[arg-type]


def test_the_title_of_a_task_is_the_first_line_of_its_prompt() -> None:
    assert subject_of(call("task", prompt="\nLook around\nin all of it.")) == (
        "Look around",
        "words",
    )


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
def test_the_title_of_a_script_names_the_command_or_file(
    source: str, kind: str, text: str
) -> None:
    assert subject_of(call("exec", input=source)) == (text, kind)


def test_the_command_of_a_script_is_in_the_digest_and_counts_as_run() -> None:
    given = {
        "input": 'const r = await tools.exec_command({cmd:"make deploy", workdir:"/srv"}); text(r)'
    }
    built = (
        history()
        .user("deploy it")
        .assistant(calls=[call("exec", **given)])
        .result("done")
    )
    assert list(command_arguments(given)) == ["make deploy"]
    said = [
        each for each in statements_of(messages(built.entries)) if each.kind == "calls"
    ]
    assert [each.about for each in said[0].calls] == ["make deploy"]


def test_a_patch_inside_a_script_is_read_as_a_patch() -> None:
    given = {
        "input": f"const patch = {json.dumps(_PATCH)};\nawait tools.apply_patch(patch)"
    }
    assert list(patches(given)) == [_PATCH]
