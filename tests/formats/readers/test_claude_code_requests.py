"""The requests in files of Claude Code from 2.1.332 on: what each sent, shown and proved."""

from foldline.formats import ForeignSession
from foldline.formats.readers.claude_code.reader import NOTES_WITHOUT_TEXT
from foldline.formats.writers.openai import as_sent
from foldline.past.proof import recorded_requests, unproved
from foldline.protocol import (
    Compaction,
    DeveloperMessage,
    UserMessage,
)
from foldline.view.calls import paired
from foldline.view.projection import project
from support.claude_code_rows import (
    Record,
    attachment,
    blob,
    boundary,
    call,
    note,
    piece,
    read,
    rendered,
    request,
    request_message,
    summary,
    text,
    user,
)
from support.messages import tool_results


def sent_by(session: ForeignSession, number: int) -> list[tuple[str, str]]:
    """Role and text of each message that this request sent, as the history gives it."""
    sent = recorded_requests(session.entries)[number - 1]
    messages = paired(
        item.message for item in project(session.entries[: sent.length]).view
    )
    return [(message["role"], message["content"]) for message in as_sent(messages)]


def faults(session: ForeignSession) -> list[str]:
    return [str(each) for each in unproved(session.entries)]


DATE, TOOLS = note("It is Sunday."), note("There are tools.")
ASKED = request_message("user", DATE, "Look at a.")
LOOKED = request_message("assistant", "I look.", call("c1", "Read", file_path="/x/a"))
SEEN = request_message(
    "user", {"type": "tool_result", "tool_use_id": "c1", "content": "1\tone"}
)


def looked(asked: str = "r1") -> list[Record]:
    """The records of an answer with a call, and of the call's result."""
    return [
        piece("m1", text("I look."), requestRef=asked),
        piece("m1", call("c1", "Read", file_path="/x/a"), requestRef=asked),
        user(
            SEEN["content"],
            toolUseResult={"type": "text", "file": {"filePath": "/x/a"}},
        ),
    ]


def begun() -> list[Record]:
    """The records of a first request, its answer and a result."""
    return [
        user("Look at a."),
        rendered("date", DATE),
        blob(ASKED),
        *request("r1", ASKED),
        *looked(),
    ]


def test_the_view_is_what_a_request_sent_in_its_order() -> None:
    session = read(
        user("Look at a."), rendered("date", DATE), blob(ASKED), *request("r1", ASKED)
    )
    assert sent_by(session, 1) == [
        ("system", "Be useful."),
        ("user", DATE),
        ("user", "Look at a."),
    ]
    assert faults(session) == []
    assert session.notes == ()


def test_messages_that_records_hold_need_no_blob() -> None:
    again = request("r2", ASKED, LOOKED, SEEN, base="r1", keep=1, marked=2)
    session = read(*begun(), *again, piece("m2", text("Done."), requestRef="r2"))
    assert sent_by(session, 2)[3:] == [("assistant", "I look."), ("tool", "1\tone")]
    assert faults(session) == []


def test_results_of_parallel_calls_are_one_message() -> None:
    calls = [call(name, "Read", file_path=f"/x/{name}") for name in ("c1", "c2")]
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": name}
        for name in ("c1", "c2")
    ]
    both = request_message("user", *results)
    session = read(
        user("Look."),
        *request("r1", request_message("user", "Look.")),
        *(piece("m1", one) for one in calls),
        *(user([one]) for one in results),
        *request(
            "r2",
            request_message("user", "Look."),
            request_message("assistant", *calls),
            both,
        ),
    )
    assert sent_by(session, 2)[3:] == [("tool", "c1"), ("tool", "c2")]
    assert faults(session) == []


def test_a_request_may_be_written_after_its_answer_began() -> None:
    records = [user("Look at a."), rendered("date", DATE)]
    first, *rest = looked()
    session = read(*records, first, blob(ASKED), *request("r1", ASKED), *rest)
    assert sent_by(session, 1)[1:] == [("user", DATE), ("user", "Look at a.")]
    assert faults(session) == []


def test_a_note_may_be_written_after_the_request_that_sends_it() -> None:
    date = rendered("date", DATE, path="/x/date")
    session = read(
        user("Look at a."), blob(ASKED), *request("r1", ASKED), date, *looked()
    )
    assert [
        entry.source for entry in session.entries if isinstance(entry, DeveloperMessage)
    ] == ["/x/date"]
    assert sent_by(session, 1)[1:] == [("user", DATE), ("user", "Look at a.")]
    assert faults(session) == []


def test_a_system_message_stands_in_the_middle() -> None:
    told = request_message("system", "It is Sunday.\n\nThere are tools.")
    asked = request_message("user", "Look at a.")
    session = read(
        user("Look at a."),
        rendered("date", DATE, role="system"),
        rendered("tools", TOOLS, role="system"),
        blob(told),
        *request("r1", asked, told),
    )
    assert sent_by(session, 1)[1:] == [
        ("user", "Look at a."),
        ("system", told["content"][0]["text"]),
    ]
    assert faults(session) == []


def test_a_note_alone_is_known_without_its_tags() -> None:
    told = request_message("system", "It is Sunday.")
    date = rendered("date", DATE, role="system", path="/x/date")
    session = read(
        user("Hi"),
        date,
        blob(told),
        *request("r1", request_message("user", "Hi"), told),
    )
    assert [
        entry.source for entry in session.entries if isinstance(entry, DeveloperMessage)
    ] == ["/x/date"]
    assert faults(session) == []


def test_a_note_that_is_not_sent_is_not_in_the_view() -> None:
    session = read(
        user("Hi"),
        rendered("tokens", note("9 left")),
        *request("r1", request_message("user", "Hi")),
    )
    assert sent_by(session, 1)[1:] == [("user", "Hi")]


def test_notes_behind_the_newest_request_are_in_the_view() -> None:
    session = read(*begun(), rendered("tokens", note("9 left"), role="system"))
    last = project(session.entries).view[-1].message
    assert (last.text, isinstance(last, DeveloperMessage)) == (note("9 left"), True)


def test_what_the_user_says_meanwhile_is_the_users() -> None:
    words = "The user sent a message:\nBe kind."
    queued = rendered(
        "queued_command",
        note(words),
        role="system",
        prompt="Be kind.",
        commandMode="prompt",
    )
    seen = request_message("user", *SEEN["content"], words)
    session = read(*begun(), queued, blob(seen), *request("r2", ASKED, LOOKED, seen))
    spoken = [entry.text for entry in session.entries if isinstance(entry, UserMessage)]
    assert spoken == ["Look at a.", words]
    assert faults(session) == []


def test_a_result_is_shown_as_it_was_sent() -> None:
    seen = request_message(
        "user",
        {"type": "tool_result", "tool_use_id": "c1", "content": "1\tone\n9 left"},
    )
    session = read(*begun(), blob(seen), *request("r2", ASKED, LOOKED, seen))
    [shown] = tool_results(session.entries)
    assert (shown.name, shown.text, len(shown.details.files)) == (
        "Read",
        "1\tone\n9 left",
        1,
    )
    assert faults(session) == []


def test_a_context_that_a_request_lists_anew() -> None:
    """Another model takes other roles: all is sent again in another form, system prompt included."""
    asked = request_message("user", "Look at a.")
    seen = request_message(
        "user", {"type": "tool_result", "tool_use_id": "c1", "content": "gone"}
    )
    told = request_message("system", "It is Sunday.")
    again = request("r2", asked, told, LOOKED, seen, system="Be brief.")
    session = read(*begun(), blob(asked), blob(told), blob(seen), *again)
    assert sent_by(session, 2) == [
        ("system", "Be brief."),
        ("user", "Look at a."),
        ("system", "It is Sunday."),
        ("assistant", "I look."),
        ("tool", "gone"),
    ]
    assert sent_by(session, 1)[0] == ("system", "Be useful.")
    assert faults(session) == []


def test_after_a_compaction_the_summary_is_sent_by_the_user() -> None:
    files = note("Called Read."), note("Result: one")
    words = request_message("user", "so far", *files, "Go on.")
    session = read(
        *begun(),
        boundary(),
        summary("so far"),
        rendered("file", *files, filename="/x/a"),
        user("Go on."),
        blob(words),
        *request("r2", words),
    )
    assert sent_by(session, 2)[1:] == [
        ("user", block["text"]) for block in words["content"]
    ]
    assert sum(isinstance(entry, Compaction) for entry in session.entries) == 1
    assert faults(session) == []


def test_a_rewind_sends_what_stood_there() -> None:
    other = request_message("user", DATE, "Look at b.")
    records = [user("Look at a.", parentUuid="u0"), blob(ASKED), *request("r1", ASKED)]
    branch = [user("Look at b.", parentUuid="u0"), blob(other), *request("r2", other)]
    session = read(
        rendered("date", DATE), *records, piece("m1", text("Seen.")), *branch
    )
    assert sent_by(session, 2)[1:] == [("user", DATE), ("user", "Look at b.")]
    assert faults(session) == []


def test_a_message_that_was_changed_in_the_file_is_not_proved() -> None:
    records = begun()
    records[-1]["message"]["content"] = [{**SEEN["content"][0], "content": "1\ttwo"}]
    session = read(*records, *request("r2", ASKED, LOOKED, SEEN))
    [fault] = faults(session)
    assert fault.startswith("request 2 ")


def test_a_blob_that_was_changed_is_not_believed() -> None:
    changed = {**blob(ASKED), "message": request_message("user", DATE, "Look at z.")}
    session = read(
        user("Look at a."), rendered("date", DATE), changed, *request("r1", ASKED)
    )
    assert sent_by(session, 1) == [("user", "Look at a."), ("user", DATE)]
    assert len(faults(session)) == 1


def test_a_request_whose_tools_were_changed_is_not_proved() -> None:
    *records, last = request("r1", request_message("user", "Hi"))
    session = read(
        user("Hi"), *records, {**last, "params": {"model": "claude-y", "max_tokens": 9}}
    )
    assert len(faults(session)) == 1


def test_older_attachments_lack_their_text() -> None:
    session = read(
        user("Hi"),
        attachment("plan_mode_exit"),
        *request("r1", request_message("user", "Hi")),
    )
    assert session.notes == (NOTES_WITHOUT_TEXT.format(notes="1 note"),)
