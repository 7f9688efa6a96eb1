"""Proof of past requests from the history, naming any difference."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.past.proof import (
    CHANGED_SINCE_SENT,
    MISSING_BEFORE,
    NOT_AS_SENT,
    SAME_DIFFERENCE,
    digest_of,
    prove,
    recorded_requests,
    unproved,
)
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    RequestRecord,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    Written,
    dump_entry,
    parse_entry,
    text_parts,
)
from foldline.view.calls import paired
from support.history import History, call, history
from support.limits import examples

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Talk(History):
    """History builder that records requests the way the agent does."""

    def __init__(self, *, says_when: bool = True) -> None:
        super().__init__()
        self.sent: list[list[BaseMessage]] = []
        self._says_when = says_when

    def ask(
        self,
        answer: str | None,
        *,
        calls: tuple[ToolCallPart, ...] = (),
        **fields: object,
    ) -> Self:
        """Send a request; append its answer, if any, together with the record."""
        leaving = self.send()
        return self.receive(leaving, answer, calls=calls, **fields)

    def send(self) -> RequestRecord:
        messages = paired(item.message for item in self.projection().view)
        self.sent.append(messages)
        return RequestRecord(
            digest=digest_of(messages),
            model="m",
            view_items=len(messages),
            after=self.last if self._says_when else None,
        )

    def receive(
        self,
        record: RequestRecord,
        answer: str | None,
        *,
        calls: tuple[ToolCallPart, ...] = (),
        **fields: object,
    ) -> Self:
        if answer is not None:
            self.assistant(answer, calls=calls)
        self.add(record.model_copy(update=fields))
        return self

    def compaction(
        self, first_kept: int, covers: tuple[int, int], *inputs: int
    ) -> Self:
        message = SystemMessage(
            origin="summary", parts=text_parts(f"summary of {covers}")
        )
        written = Written(message=message, covers=(covers,), inputs=inputs)
        return self.add(
            Compaction(summary="s", first_kept_index=first_kept, head=(written,))
        )


@pytest.fixture(params=[True, False], ids=["says when it left", "older record"])
def talk(request: pytest.FixtureRequest) -> Talk:
    return Talk(says_when=request.param)


def long_talk(talk: Talk) -> Talk:
    """Two compactions, tool calls, a failed and a cancelled request, an undo and a rewind."""
    talk.system("You are Foldline.").user("第一个问题")  # 0, 1
    talk.ask("I look.", calls=(call("read", path="a.py"),)).result(
        "def a(): ..."
    )  # 2, 3, 4
    talk.ask("It is a function.")  # 5, 6
    talk.user("and b?").ask(None, error="overflow")  # 7, 8
    talk.compaction(7, (1, 5)).ask("b, too")  # 9, 10, 11
    talk.user("more").ask("half an ans", stop_reason="cancelled")  # 12, 13, 14
    talk.checkpoint(0).user("a detour").ask("gone").revert(
        0, message="it led nowhere"
    )  # 15..19
    talk.user("again").ask("fine")  # 20, 21, 22
    talk.compaction(20, (7, 13), 9).user("after the second compaction").ask(
        "good"
    )  # 23, 24, 25, 26
    talk.undo(23).user("after the undo").ask("long again")  # 27, 28, 29, 30
    talk.edit("drop", 24).edit("hide", 4).user("last").ask("end")
    return talk


def tamper_with(
    entries: list[Entry], index: int, change: Callable[[str], str]
) -> list[Entry]:
    """Return the history with the line of one entry edited."""
    return [
        parse_entry(change(dump_entry(entry).decode()))
        if entry.index == index
        else entry
        for entry in entries
    ]


def test_every_request_is_proved_and_yields_the_messages_sent(talk: Talk) -> None:
    long_talk(talk)
    proofs = list(prove(talk.entries))
    assert [list(proof.messages) for proof in proofs] == talk.sent
    assert [str(proof) for proof in proofs] == ["proved"] * 10
    assert [proof.request.number for proof in proofs] == list(range(1, 11))
    assert unproved(talk.entries) == []


def test_every_request_is_proved_after_reloading_the_history(talk: Talk) -> None:
    entries = [parse_entry(dump_entry(entry)) for entry in long_talk(talk).entries]
    assert unproved(entries) == []


def test_entries_appended_during_a_request_were_not_part_of_it() -> None:
    talk = Talk()
    talk.system("s").user("one").ask("first answer").user("two")
    leaving = talk.send()
    talk.edit("drop", 1).notice("a file changed")
    talk.receive(leaving, "second answer")
    assert unproved(talk.entries) == []
    assert [message.text for message in list(prove(talk.entries))[1].messages] == [
        "s", "one", "first answer", "two",
    ]  # fmt: skip


def test_an_answer_without_its_record_is_not_matched_to_a_later_request() -> None:
    talk = Talk(says_when=False)
    talk.user("one").ask("answered")
    answer, record = talk.entries[-2:]
    assert isinstance(record, RequestRecord)
    lost = [*talk.entries[:-2], answer.model_copy(update={"at": NOON})]
    messages = paired([talk.entries[0], lost[-1]])  # type: ignore[list-item]
    failed = RequestRecord(
        index=record.index,
        at=NOON.replace(hour=13),
        digest=digest_of(messages),
        model="m",
        error="x",
    )
    [proof] = prove([*lost, failed])
    assert proof.holds
    assert len(proof.messages) == 2


def test_a_call_without_a_result_was_sent_with_an_explicit_one(talk: Talk) -> None:
    talk.user("go").ask("", calls=(call("bash", command="ls"),)).user("well?").ask(
        "yes"
    )
    second = list(prove(talk.entries))[1]
    assert second.holds
    assert [message.type for message in second.messages] == [
        "user",
        "assistant",
        "tool_result",
        "user",
    ]


def test_a_history_without_records_has_no_requests() -> None:
    assert recorded_requests(history().user("hello").assistant("hi").entries) == []
    assert unproved(history().turn("hello", "hi").entries) == []


def test_a_single_changed_character_is_found_and_its_entry_named(talk: Talk) -> None:
    long_talk(talk)
    entries = tamper_with(talk.entries, 12, lambda line: line.replace("more", "mere"))
    named, *repeated = unproved(entries)
    assert (
        str(named)
        == f"request 5 (entry 14): {CHANGED_SINCE_SENT.format('one of the entries 10 and 12')}"
    )
    # Request 8 was sent while the second compaction covered it; undoing that compaction brought it
    # back.
    assert [failure.number for failure in repeated] == [6, 7, 9, 10]
    assert {failure.why for failure in repeated} == {SAME_DIFFERENCE.format(5)}


def test_entries_proved_by_a_later_request_are_no_longer_suspected(talk: Talk) -> None:
    talk.system("s").user("one").ask("first").user("two").ask("second")
    talk.compaction(4, (1, 2)).user("three").ask("third")
    entries = tamper_with(talk.entries, 1, lambda line: line.replace("one", "One"))
    assert [str(failure) for failure in unproved(entries)] == [
        f"request 1 (entry 3): {CHANGED_SINCE_SENT.format('entry 1')}",
        f"request 2 (entry 6): {SAME_DIFFERENCE.format(1)}",
    ]


def test_a_changed_summary_is_named_by_its_compaction(talk: Talk) -> None:
    talk.system("s").user("one").ask("first").user("two").ask("second").user("three")
    talk.compaction(4, (1, 2)).ask("third").user("four").ask("fourth")
    compaction = next(
        entry.index for entry in talk.entries if isinstance(entry, Compaction)
    )
    failures = unproved(
        tamper_with(
            talk.entries,
            compaction,
            lambda line: line.replace("summary of", "summary off"),
        )
    )
    assert [failure.number for failure in failures] == [3, 4]
    entries = f"one of the entries 5, 7 and {compaction}"
    assert failures[0].why == CHANGED_SINCE_SENT.format(entries)


def test_a_lost_message_is_found_by_the_indices(talk: Talk) -> None:
    long_talk(talk)
    kept = [entry for entry in talk.entries if entry.index != 12]
    failure = unproved(kept)[0]
    assert str(failure) == (
        "request 5 (entry 14): the history gives 4 messages, but 5 were sent"
        + MISSING_BEFORE.format(12)
    )


def test_a_lost_marker_that_changed_the_view_is_reported_as_a_gap(talk: Talk) -> None:
    talk.user("one").ask("", calls=(call("read", path="a"),)).result("x" * 200).ask(
        "seen"
    ).user("two")
    talk.edit("hide", 3).ask("hidden")
    marker = talk.entries[-3].index
    [failure] = unproved([entry for entry in talk.entries if entry.index != marker])
    assert failure.why.endswith(MISSING_BEFORE.format(marker))


def test_a_changed_digest_fails_only_its_own_request(talk: Talk) -> None:
    long_talk(talk)
    entries = [
        entry.model_copy(update={"digest": "0" * 64}) if entry.index == 6 else entry
        for entry in talk.entries
    ]
    [failure] = unproved(entries)
    assert str(failure) == f"request 2 (entry 6): {NOT_AS_SENT}"


def test_a_record_with_a_different_message_count_is_reported() -> None:
    talk = Talk()
    talk.system("s").user("one").ask("first")
    entries = [
        entry.model_copy(update={"view_items": 3})
        if isinstance(entry, RequestRecord)
        else entry
        for entry in talk.entries
    ]
    assert (
        str(unproved(entries)[0])
        == "request 1 (entry 3): the history gives 2 messages, but 3 were sent"
    )


@pytest.mark.parametrize("after", [-1, 0, 5, 99])
def test_a_record_with_a_wrong_sending_index_causes_no_error(after: int) -> None:
    talk = long_talk(Talk())
    entries = [
        entry.model_copy(update={"after": after})
        if isinstance(entry, RequestRecord)
        else entry
        for entry in talk.entries
    ]
    lengths = [sent.length for sent in recorded_requests(entries)]
    assert lengths == sorted(lengths)
    assert unproved(entries)


@given(st.data())
@settings(max_examples=examples(60))
def test_no_message_sent_to_the_model_can_be_changed_undetected(
    data: st.DataObject,
) -> None:
    talk = long_talk(Talk())
    sent = {message.index for messages in talk.sent for message in messages}
    messages = [entry.index for entry in talk.entries if isinstance(entry, BaseMessage)]
    index = data.draw(st.sampled_from([each for each in messages if each in sent]))
    entries = [
        entry.model_copy(update={"parts": (*entry.parts, *text_parts("!"))})
        if entry.index == index and isinstance(entry, BaseMessage)
        else entry
        for entry in talk.entries
    ]
    failures = unproved(entries)
    first = next(
        number
        for number, messages in enumerate(talk.sent, start=1)
        if any(message.index == index for message in messages)
    )
    assert failures[0].number == first
    assert "entr" in failures[0].why


def test_the_digest_of_a_message_is_stable_across_versions() -> None:
    """Later versions must prove today's records; a field with a new default would break that."""
    messages: list[BaseMessage] = [
        SystemMessage(index=0, at=NOON, parts=text_parts("You are Foldline.")),
        UserMessage(index=1, at=NOON, parts=text_parts("你好")),
        AssistantMessage(
            index=2, at=NOON, parts=(ToolCallPart(call_id="c", name="read"),), model="m"
        ),
        ToolResultMessage(
            index=4, at=NOON, call_id="c", name="read", parts=text_parts("x")
        ),
    ]
    assert (
        digest_of(messages)
        == "eed2b3f135fd348f5b56ac44be7faea7dbffacbdd7df413c8f08eae6a5841f87"
    )


def test_a_long_history_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    for number in range(40):
        talk.user(f"question {number}").ask(f"answer {number}")
    dumped = 0

    def counting(entry: Entry) -> bytes:
        nonlocal dumped
        dumped += 1
        return dump_entry(entry)

    monkeypatch.setattr("foldline.past.proof.dump_entry", counting)
    assert unproved(talk.entries) == []
    assert dumped == 79  # forty questions and all answers but the last, each once
