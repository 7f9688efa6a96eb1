"""The levels of a hierarchy as the offline model writes them: each under its number, lines quoted."""

import re

from foldline.context.tokens import estimate_tokens
from foldline.llm.offline.notes import asks_for_notes, is_notes, notes_on, overview_of

TURN = """<turn number="1" tokens="80">
[User]: Fix the parser, the test in tests/test_parser.py must pass.

[Assistant tool calls]: edit(path='src/parser.py', old='a', new='b')

[Tool result]: edit: ok

[Assistant]: The parser is fixed: the index was off by one because the loop began at 1.
</turn>"""
TINY = """<turn number="2" tokens="24">
[User]: /
</turn>"""
NOTES = """### Entries 1–8
- Asked: port the cart to cents
- Done: edit · src/cart.py
- Keep: read · src/a.py, src/b.py
- Open: the till

### Entries 9–20
- Asked: now the till
- Done: edit · src/till.py
- Decided: rounding happens once, at the end
- Failed: bash · pytest → AssertionError: 1 != 2"""
TOPIC = f'<topic number="1" tokens="60">\n{NOTES}\n</topic>'


def test_every_turn_gets_its_note_within_its_tokens() -> None:
    assert asks_for_notes(TURN)
    answer = notes_on(f"{TURN}\n{TINY}", None)
    first, second = re.split(r"^### Turn \d\n", answer, flags=re.MULTILINE)[1:]
    assert "edit · src/parser.py" in first
    assert "Fix the parser" in first
    assert all(re.match(r"- (Asked|Done|Decided|Failed|Open|Keep): ", line) for line in first.splitlines())
    assert estimate_tokens(first) <= 80
    assert second == "- Asked: /"


def test_a_milestone_quotes_the_notes_it_is_made_from() -> None:
    answer = notes_on(TOPIC, None)
    heading, *lines = answer.splitlines()
    assert heading == "### Topic 1"
    assert lines
    assert all(line in NOTES for line in lines)
    assert "- Done: edit · src/till.py" in lines


def test_an_overview_has_the_sections_with_the_newest_request_first() -> None:
    assert is_notes(NOTES)
    earlier = "## Goal\n- open the shop\n## Turns\n### Entry 3\n- Done: something old"
    text = overview_of(NOTES, "", earlier, "At most about 200 tokens.", None, 2_000)
    goal = text.split("## Constraints")[0]
    assert goal.splitlines()[1:3] == ["- now the till", "- open the shop"]
    assert "rounding happens once, at the end" in text.partition("## Key Decisions")[2]
    assert "something old" not in text
    assert "src/a.py" not in text
    assert estimate_tokens(text) <= 200


def test_a_summary_made_from_notes_takes_the_levels_of_the_earlier_one_along() -> None:
    earlier = "## Goal\n- open the shop\n## Turns\n### Entry 3\n- Done: something old"
    assert "something old" in overview_of(NOTES, "", earlier, "Write the notes.", None, 2_000)


def test_passages_about_the_focus_are_read_too() -> None:
    passages = "[Assistant]: The staging port is 7431 because 80 was taken."
    text = overview_of(NOTES, passages, None, "At most about 300 tokens.", "staging port", 2_000)
    assert "The staging port is 7431" in text


def test_an_ordinary_conversation_is_neither() -> None:
    assert not asks_for_notes("[User]: <turn number=1>")
    assert not is_notes("[User]: x\n### Entries 1–8")
