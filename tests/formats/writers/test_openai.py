"""Sessions written as OpenAI chat: the messages are those of the next request, and stay so when read."""

import json
from typing import Any

from hypothesis import given

from foldline.formats.export import Exported
from foldline.formats.writers.openai import NO_THINKING, OUT_OF_VIEW
from foldline.llm.dialect import OPENAI, to_openai
from foldline.protocol import Compaction, SystemMessage, Written, text_parts
from foldline.view.calls import paired
from foldline.view.projection import project
from support.exports import read_back, write
from support.foreign import faults
from support.history import history
from support.random_histories import Step, build_history, steps


def document(exported: Exported) -> Any:
    return json.loads(exported.data)


@given(steps)
def test_messages_are_those_of_the_next_request_also_when_read_again(
    tmp_path_factory: Any, happened: list[Step]
) -> None:
    entries = build_history(happened)
    exported = write(entries, "openai")
    sent = document(exported)["messages"]
    assert sent == to_openai(
        paired(item.message for item in project(entries).view), OPENAI
    )
    if not sent:
        return
    again = read_back(exported, tmp_path_factory.mktemp("openai"))
    assert faults(again) == []
    assert document(write(again.entries, "openai"))["messages"] == sent


def test_a_summary_is_still_one_when_it_is_read_again(tmp_path_factory: Any) -> None:
    summary = Written(
        message=SystemMessage(origin="summary", parts=text_parts("so far"))
    )
    built = history().system("Be kind.").turn("one", "1").turn("two", "2")
    built.add(Compaction(summary="so far", first_kept_index=3, head=(summary,)))
    exported = write(built.entries, "openai")
    assert [message["content"] for message in document(exported)["messages"][:2]] == [
        "Be kind.",
        "so far",
    ]
    again = project(read_back(exported, tmp_path_factory.mktemp("openai")).entries)
    assert [item.kind for item in again.view] == [
        "system",
        "summary",
        "user",
        "assistant",
    ]


def test_what_is_not_in_the_messages_is_counted() -> None:
    built = history().turn("one", "1").clear().user("two").assistant("2", thinking="hm")
    gone, thoughts = write(built.entries, "openai").notes
    assert gone == OUT_OF_VIEW.format(messages="2 messages are")
    assert thoughts == NO_THINKING.format(answers="1 answer")
