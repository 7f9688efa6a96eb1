"""Sessions handed over to pi: read again, by our reader and by pi's own rule, the view is the same."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given

from foldline.formats.export import Exported
from foldline.formats.writers.pi import BROKEN_OFF, write_pi
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    CompactionDetails,
    Kept,
    ModelChange,
    SystemMessage,
    Title,
    Usage,
    UserMessage,
    Written,
    text_parts,
)
from foldline.view.calls import paired
from foldline.view.items import is_preamble
from foldline.view.projection import project
from support.exports import handoff, read_back
from support.history import call, history
from support.random_histories import Step, build_history, steps

Record = dict[str, Any]


def records(exported: Exported) -> list[Record]:
    return [json.loads(line) for line in exported.data.splitlines()]


def by_pi_s_rule(exported: Exported) -> list[Record]:
    """What pi gives its model: from the last record to the root, then the newest compaction's say."""
    lines = records(exported)[1:]
    by_id = {record["id"]: record for record in lines}
    path: list[Record] = []
    tip = lines[-1] if lines else None
    while tip is not None:
        path.insert(0, tip)
        tip = by_id[tip["parentId"]] if tip["parentId"] else None
    compactions = [
        place for place, record in enumerate(path) if record["type"] == "compaction"
    ]
    if compactions:
        compaction = path[compactions[-1]]
        kept = [record["id"] for record in path].index(compaction["firstKeptEntryId"])
        path = [compaction, *path[kept : compactions[-1]], *path[compactions[-1] + 1 :]]
    return [
        record
        for place, record in enumerate(path)
        if record["type"] in ("message", "custom_message")
        or (record["type"] == "compaction" and place == 0)
    ]


def text_of(record: Record) -> str:
    if record["type"] == "compaction":
        return str(record["summary"])
    message = record.get("message", record)
    if message.get("role") == "bashExecution":
        return f"$ {message['command']}\n{message['output']}".rstrip("\n")
    return "\n".join(
        piece["text"] for piece in message["content"] if piece["type"] == "text"
    )


def summary(text: str) -> Written:
    return Written(message=SystemMessage(origin="summary", parts=text_parts(text)))


# --- the same view ------------------------------------------------------------------------------------


@given(steps)
def test_pi_s_own_rule_gives_the_same_texts(happened: list[Step]) -> None:
    entries = build_history(happened)
    view = paired(
        item.message for item in project(entries).view if not is_preamble(item.message)
    )
    said = [text_of(record) for record in by_pi_s_rule(handoff(entries, write_pi))]
    assert said == [message.text for message in view]


# --- how it is said -----------------------------------------------------------------------------------


def test_an_answer_keeps_what_pi_has_a_field_for() -> None:
    built = history().user("look")
    built.assistant(
        "I look.",
        thinking="hm",
        calls=[call("read", "c1", path="a.py")],
        usage=Usage(input=100, cached=60, output=7, reasoning=2),
        model="kimi-k2",
    )
    built.result("one\ntwo", error=True, images=1)
    *_, answer, result = records(handoff(built.entries, write_pi))
    message = answer["message"]
    assert [piece["type"] for piece in message["content"]] == ["text", "toolCall"]
    assert message["content"][1]["arguments"] == {"path": "a.py"}
    assert (message["model"], message["stopReason"]) == ("kimi-k2", "toolUse")
    usage = message["usage"]
    assert (
        usage["input"],
        usage["cacheRead"],
        usage["output"],
        usage["totalTokens"],
    ) == (40, 60, 7, 107)
    assert (result["message"]["toolCallId"], result["message"]["isError"]) == (
        "c1",
        True,
    )
    assert result["message"]["content"][1] == {
        "type": "image",
        "data": "aW1hZ2U=",
        "mimeType": "image/png",
    }


def test_a_summary_that_opens_the_view_is_a_compaction_that_keeps_nothing() -> None:
    built = history().turn("one", "1").turn("two", "2")
    details = CompactionDetails(read_files=("a.py",), modified_files=("b.py",))
    built.add(
        Compaction(
            summary="so far",
            first_kept_index=2,
            head=(summary("so far"),),
            details=details,
        )
    )
    exported = handoff(built.user("three").entries, write_pi)
    compaction = next(
        record for record in records(exported) if record["type"] == "compaction"
    )
    kept = next(
        record
        for record in records(exported)
        if record.get("id") == compaction["firstKeptEntryId"]
    )
    assert (compaction["summary"], kept["type"]) == ("so far", "custom")
    assert compaction["details"] == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    assert list(map(text_of, by_pi_s_rule(exported))) == ["so far", "two", "2", "three"]


def test_a_later_summary_is_a_message_beside() -> None:
    built = history().turn("one", "1").turn("two", "2")
    built.add(
        Compaction(
            summary="so far", first_kept_index=3, head=(Kept(ref=0), summary("so far"))
        )
    )
    *_, said, _ = records(handoff(built.entries, write_pi))
    assert (said["customType"], text_of(said)) == ("foldline.summary", "so far")


def test_title_and_model_come_along(tmp_path: Path) -> None:
    built = (
        history()
        .add(ModelChange(model="kimi-k2", provider="moonshot"))
        .user("hi")
        .add(Title(title="Hi"))
    )
    built.assistant("hello", model="kimi-k2")
    exported = handoff(built.entries, write_pi)
    assert records(exported)[-1]["message"]["model"] == "kimi-k2"
    again = project(read_back(exported, tmp_path).entries)
    assert (again.title, again.meter.model) == ("Hi", "kimi-k2")


def test_a_shell_command_of_the_user_is_one_for_pi() -> None:
    built = history().add(
        UserMessage(origin="shell", parts=text_parts("$ ls\na.py\nb.py"))
    )
    message = records(handoff(built.entries, write_pi))[-1]["message"]
    assert (message["role"], message["command"], message["output"]) == (
        "bashExecution",
        "ls",
        "a.py\nb.py",
    )


def test_an_answer_that_broke_off_is_still_shown_to_the_model_where_ours_saw_it() -> (
    None
):
    cut = AssistantMessage(stop_reason="cancelled", parts=text_parts("Half of"))
    exported = handoff(history().user("hi").add(cut).user("go on").entries, write_pi)
    assert records(exported)[2]["message"]["stopReason"] == "stop", (
        "pi drops those that were aborted"
    )
    assert BROKEN_OFF.format(answers="1 interrupted answer was") in exported.notes


def test_a_line_of_a_megabyte_is_one_line() -> None:
    exported = handoff(history().user("x" * 1_000_000 + "\u2028\n").entries, write_pi)
    assert len(exported.data.split(b"\n")) == 3
