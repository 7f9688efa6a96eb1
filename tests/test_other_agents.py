"""The comparison of `make agents`: which items are equal, and what a difference is."""

import json

from other_agents.comparison import Difference, compare, held
from other_agents.known import explained
from other_agents.script import Script, purpose_of
from other_agents.wires import WIRES, Item, Reply, Tool, wire_of
from other_agents.wires.openai_chat import items

PROMPT, ANSWER = Item("user", "Job 1: look."), Item("assistant", "Done.")


def test_a_text_is_equal_whether_the_system_or_the_user_says_it():
    found = compare(
        [Item("user", "A note."), PROMPT], [Item("system", "A  note."), PROMPT]
    )
    assert (found.equal, found.differences) == (2, ())


def test_a_text_is_equal_to_neighbours_that_make_it_up():
    found = compare(
        [Item("user", "A note.\nJob 1: look."), ANSWER],
        [Item("system", "A note."), PROMPT, ANSWER],
    )
    assert (found.equal, found.differences) == (2, ())


def test_what_a_text_has_besides_the_items_of_the_view_is_named():
    found = compare([Item("user", "Today is Sunday.\n\nJob 1: look.")], [PROMPT])
    assert found.equal == 0
    assert found.differences[0].viewed == (PROMPT,)
    assert found.differences[0].more == "Today is Sunday."


def test_a_result_in_another_place_is_one_difference_of_order():
    first, second = Item("result", "one"), Item("result", "two")
    found = compare([first, second, ANSWER], [second, first, ANSWER])
    assert [difference.moved for difference in found.differences] == [True]


def test_only_differences_of_the_agent_itself_are_known():
    rules = Difference(
        Item("system", "You are.\n\n# Rules"), (Item("system", "You are."),), "# Rules"
    )
    moved = Difference(Item("result", "one"), (Item("result", "one"),), "")
    assert explained("cline", [rules, moved])[1] == [moved]
    assert explained("pi", [rules]) == ([], [rules])


def test_an_item_is_held_in_a_text_or_in_neighbours():
    assert (
        held(
            [PROMPT, ANSWER],
            [Item("user", "First: Job 1:"), Item("user", "look. And more.")],
        )
        == 1
    )


def test_every_api_reads_back_what_its_model_says(tmp_path):
    tools = [
        Tool("bash", {"properties": {"command": {"type": "string"}}}),
        Tool("other", {}),
    ]
    text, calls = Script(tmp_path).reply("work", [PROMPT], tools)
    assert "cat" in calls[0].arguments["command"]
    for wire in WIRES.values():
        reply = Reply(text, calls)
        assert text in json.dumps(wire.whole(reply))
        assert b"".join(wire.stream(reply)).count(b"data: ") >= 1


def test_a_request_for_a_summary_is_told_from_work_by_its_last_message():
    tools = [Tool("read", {}), Tool("bash", {})]
    asked = Item("user", "Write a summary of the conversation above. " * 8)
    assert purpose_of([PROMPT, ANSWER, asked], tools) == "summary"
    assert purpose_of([PROMPT], tools) == "work"
    assert purpose_of([Item("system", "You write a title."), PROMPT], []) == "title"


def test_paths_name_their_api():
    paths = (
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages?beta=true",
        "/v1beta/models/m:generateContent",
    )
    assert [wire_of(path) for path in paths] == list(WIRES)
    assert items({"messages": [{"role": "tool", "content": ""}]}) == [
        Item("result", "")
    ]
