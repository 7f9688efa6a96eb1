"""Sessions written for pi: read again, by our reader and by pi's own rule, the view is the same."""

import json
from pathlib import Path
from typing import Any

from hypothesis import assume, given

from foldline.context.projection import project
from foldline.context.view import is_preamble
from foldline.formats.export import Exported
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    CompactionDetails,
    Kept,
    ModelChange,
    SystemMessage,
    TextPart,
    Title,
    ToolCallPart,
    Usage,
    UserMessage,
    Written,
    text_parts,
)
from support.exported import heard, reread, write
from support.foreign import faults
from support.happenings import Step, played, steps
from support.history import History, call, history

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
    folds = [place for place, record in enumerate(path) if record["type"] == "compaction"]
    if folds:
        fold = path[folds[-1]]
        kept = [record["id"] for record in path].index(fold["firstKeptEntryId"])
        path = [fold, *path[kept : folds[-1]], *path[folds[-1] + 1 :]]
    return [
        record
        for place, record in enumerate(path)
        if record["type"] in ("message", "custom_message") or (record["type"] == "compaction" and place == 0)
    ]


def text_of(record: Record) -> str:
    if record["type"] == "compaction":
        return str(record["summary"])
    message = record.get("message", record)
    if message.get("role") == "bashExecution":
        return f"$ {message['command']}\n{message['output']}".rstrip("\n")
    return "\n".join(piece["text"] for piece in message["content"] if piece["type"] == "text")


def texts_in_view(built: History) -> list[str]:
    return [item.message.text for item in project(built.entries).view if not is_preamble(item.message)]


def summary(text: str) -> Written:
    return Written(message=SystemMessage(origin="summary", parts=text_parts(text)))


def folded(built: History, first_kept: int, *head: Written | Kept, **fields: Any) -> History:
    return built.add(Compaction(summary="so far", first_kept_index=first_kept, head=head, **fields))


# --- the same view ------------------------------------------------------------------------------------


@given(steps)
def test_whatever_happened_the_view_is_the_same(tmp_path_factory: Any, happened: list[Step]) -> None:
    entries = played(happened)
    assume(heard(entries))
    exported = write(entries, "pi")
    again = reread(exported, tmp_path_factory.mktemp("pi"))
    assert not again.damage
    assert faults(again) == []
    assert heard(again.entries) == heard(entries)


@given(steps)
def test_pi_s_own_rule_gives_the_same_texts(happened: list[Step]) -> None:
    entries = played(happened)
    view = [item.message for item in project(entries).view if not is_preamble(item.message)]
    said = [text_of(record) for record in by_pi_s_rule(write(entries, "pi"))]
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
    _, _, answer, result = records(write(built.entries, "pi"))
    message = answer["message"]
    assert [piece["type"] for piece in message["content"]] == ["thinking", "text", "toolCall"]
    assert message["content"][2]["arguments"] == {"path": "a.py"}
    assert (message["model"], message["stopReason"]) == ("kimi-k2", "toolUse")
    usage = message["usage"]
    assert (usage["input"], usage["cacheRead"], usage["output"], usage["totalTokens"]) == (40, 60, 7, 107)
    assert (result["message"]["toolCallId"], result["message"]["isError"]) == ("c1", True)
    assert result["message"]["content"][1] == {"type": "image", "data": "aW1hZ2U=", "mimeType": "image/png"}


def test_a_fold_becomes_a_compaction_that_names_its_first_kept_record() -> None:
    built = history().turn("one", "1").turn("two", "2")
    details = CompactionDetails(read_files=("a.py",), modified_files=("b.py",))
    folded(built, 2, summary("so far"), tokens_before=50_000, details=details).user("three")
    lines = records(write(built.entries, "pi"))
    fold = next(record for record in lines if record["type"] == "compaction")
    kept = next(record for record in lines if record.get("id") == fold["firstKeptEntryId"])
    assert (fold["summary"], fold["tokensBefore"]) == ("so far", 50_000)
    assert fold["details"] == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    assert text_of(kept) == "two"
    assert sum(record["type"] == "message" for record in lines) == 5, "nothing is said twice"


def test_what_a_fold_kept_out_of_line_is_said_again_behind_it(tmp_path: Path) -> None:
    built = history().user("do it").step("read", "a", path="a").assistant("half").assistant("done")
    folded(built, 4, summary("so far"), Kept(ref=0))
    exported = write(built.entries, "pi")
    assert list(map(text_of, by_pi_s_rule(exported))) == ["so far", "do it", "done"]
    again = reread(exported, tmp_path)
    assert [entry.text for entry in again.entries if isinstance(entry, AssistantMessage)] == [
        "",
        "half",
        "done",
        "done",
    ], "what came before the fold is on the same branch"


def test_after_an_undo_the_branch_goes_on_from_before_the_fold() -> None:
    built = history().turn("one", "1").turn("two", "2")
    before = len(built.entries)
    folded(built, 2, summary("so far")).undo().user("three")
    exported = write(built.entries, "pi")
    fold, third = records(exported)[before + 1 :]
    assert fold["type"] == "compaction"
    assert third["parentId"] == fold["parentId"]
    assert list(map(text_of, by_pi_s_rule(exported))) == ["one", "1", "two", "2", "three"]


def test_a_hidden_result_is_said_anew_on_a_branch_and_noted() -> None:
    built = history().user("look").step("read", "secret", path="a.py").assistant("seen").edit("hide", 2)
    exported = write(built.entries, "pi")
    said = list(map(text_of, by_pi_s_rule(exported)))
    assert said == texts_in_view(built)
    assert not any("secret" in text for text in said)
    assert b"secret" in exported.data, "what was said stays in the file"
    assert any("changed once" in sentence for sentence in exported.notes)


def test_a_view_that_was_emptied_is_empty() -> None:
    exported = write(history().turn("one", "1").clear().entries, "pi")
    assert by_pi_s_rule(exported) == []
    assert b'"one"' in exported.data


def test_a_message_said_again_reports_no_usage() -> None:
    built = (
        history().user("one").step("read", "long", path="a").assistant("1", usage=Usage(input=9, output=1))
    )
    built.edit("hide", 2)
    last = records(write(built.entries, "pi"))[-1]
    assert text_of(last) == "1"
    assert last["message"]["usage"]["totalTokens"] == 0


def test_the_system_prompt_is_kept_apart_from_the_view() -> None:
    built = history().system("Be kind.").instructions("Be brief.").user("hi")
    exported = write(built.entries, "pi")
    kept = [record["data"]["text"] for record in records(exported)[1:] if record["type"] == "custom"]
    assert kept == ["Be kind.", "Be brief."]
    assert list(map(text_of, by_pi_s_rule(exported))) == ["hi"]
    assert any("2 messages of prompt and instructions" in sentence for sentence in exported.notes)


def test_title_and_model_come_along(tmp_path: Path) -> None:
    built = history().add(ModelChange(model="kimi-k2", provider="moonshot")).user("hi").add(Title(title="Hi"))
    built.assistant("hello", model="kimi-k2")
    exported = write(built.entries, "pi")
    assert records(exported)[-1]["message"]["provider"] == "moonshot"
    again = project(reread(exported, tmp_path).entries)
    assert (again.title, again.model) == ("Hi", "kimi-k2")


def test_a_shell_command_of_the_user_is_one_for_pi() -> None:
    built = history().add(UserMessage(origin="shell", parts=text_parts("$ ls\na.py\nb.py")))
    message = records(write(built.entries, "pi"))[-1]["message"]
    assert (message["role"], message["command"], message["output"]) == ("bashExecution", "ls", "a.py\nb.py")


def test_arguments_that_pi_cannot_hold_are_counted() -> None:
    deep = '{"a":' * 197 + "1" + "}" * 197
    odd = [deep, "no JSON", "[1]", '{"n": NaN}', '{"n": 1e999}', '{}, "b": {}']
    calls = [ToolCallPart(call_id=f"c{nth}", name="read", arguments=text) for nth, text in enumerate(odd)]
    exported = write(history().assistant(calls=calls).entries, "pi")
    assert [piece["arguments"] for piece in records(exported)[-1]["message"]["content"]] == [{}] * len(odd)
    assert any(sentence.startswith("6 calls have arguments") for sentence in exported.notes)


def test_an_answer_that_broke_off_without_words_stays_in_the_file_but_in_no_view() -> None:
    gone = AssistantMessage(stop_reason="error", error="429", parts=(TextPart(text=""),))
    exported = write(history().user("hi").add(gone).assistant("hello").entries, "pi")
    assert [record["message"].get("errorMessage") for record in records(exported)[1:]] == [None, "429", None]
    assert exported.notes == ()


def test_an_answer_that_broke_off_is_still_shown_to_the_model_where_ours_saw_it() -> None:
    cut = AssistantMessage(stop_reason="cancelled", parts=text_parts("Half of"))
    exported = write(history().user("hi").add(cut).user("go on").entries, "pi")
    assert records(exported)[2]["message"]["stopReason"] == "stop", "pi drops those that were aborted"
    assert any("broken off: 1 answer," in sentence for sentence in exported.notes)


def test_a_line_of_a_megabyte_is_one_line() -> None:
    exported = write(history().user("x" * 1_000_000 + "\u2028\n").entries, "pi")
    assert len(exported.data.split(b"\n")) == 3
