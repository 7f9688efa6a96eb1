"""Calls and results are paired before anything is sent (invariant 6)."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.context.calls import paired, pairing_faults
from foldline.context.view import INTERRUPTED
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage, UserMessage, text_parts
from support.history import call, history


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
