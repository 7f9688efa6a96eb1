"""Permissions in words, and replies that count as bare consent."""

import pytest

from foldline.past.approval_words import (
    EVERY_TOOL,
    EXACTLY_THIS,
    IN_FOLDER,
    approval_words,
    mode_words,
    rule_words,
    rules_grant,
)
from foldline.protocol import Approval, Rule, dump_entry, parse_entry

RULES = [
    (Rule(tool="edit"), "edit", IN_FOLDER.format("edit")),
    (
        Rule(tool="bash", pattern="git status", part=True),
        "bash: git status …",
        "git status …",
    ),
    (
        Rule(tool="bash", pattern="git status"),
        "bash: git status …, alone",
        "git status …",
    ),
    (
        Rule(tool="bash", pattern="git status …", exact=True),
        "bash: exactly git status …",
        EXACTLY_THIS,
    ),
    (Rule(tool="fetch", pattern="python.org"), "fetch: python.org", "fetch python.org"),
    (Rule(tool="mcp__docs__find"), "mcp__docs__find", "any mcp__docs__find"),
    (
        Rule(tool="mcp__docs__*"),
        EVERY_TOOL.format("mcp__docs"),
        EVERY_TOOL.format("mcp__docs"),
    ),
]


@pytest.mark.parametrize(("rule", "words", "promised"), RULES)
def test_a_rules_text_names_what_it_covers(
    rule: Rule, words: str, promised: str
) -> None:
    assert (rule_words(rule), rules_grant([rule])) == (words, promised)


def test_rules_have_distinct_texts_and_survive_a_round_trip_through_their_file() -> (
    None
):
    assert len({words for _, words, _ in RULES}) == len(RULES)
    for rule, _, _ in RULES:
        entry = Approval(index=3, rule=rule, scope="project", granted=False)
        assert parse_entry(dump_entry(entry)) == entry


def test_a_decision_is_described_in_one_sentence() -> None:
    rule = Rule(tool="edit")
    assert approval_words(Approval(rule=rule)) == "always allowed in this session: edit"
    taken = Approval(rule=rule, scope="project", granted=False)
    assert (
        approval_words(taken)
        == "no longer allowed without asking in this project: edit"
    )
    assert approval_words(Approval(mode="all")) == f"mode all: {mode_words('all')}"
