"""How rules and what was said about them are put into words; the fold itself is in agent/test_permitting."""

import pytest

from foldline.context.permissions import approval_words, rule_grants, rule_words
from foldline.protocol import Approval, Rule, dump_entry, parse_entry

RULES = [
    (Rule(tool="edit"), "edit", "any edit inside this folder"),
    (Rule(tool="bash", pattern="git status"), "bash: git status …", "git status …"),
    (
        Rule(tool="bash", pattern="git status …", exact=True),
        "bash: exactly git status …",
        "exactly this command",
    ),
    (Rule(tool="fetch", pattern="python.org"), "fetch: python.org", "fetch python.org"),
    (Rule(tool="mcp__docs__find"), "mcp__docs__find", "any mcp__docs__find"),
    (Rule(tool="mcp__docs__*"), "every tool of mcp__docs", "every tool of mcp__docs"),
]


@pytest.mark.parametrize(("rule", "words", "promised"), RULES)
def test_a_rule_says_what_it_covers(rule: Rule, words: str, promised: str) -> None:
    assert (rule_words(rule), rule_grants(rule)) == (words, promised)


def test_no_two_rules_are_said_alike_and_each_comes_back_from_its_file() -> None:
    assert len({words for _, words, _ in RULES}) == len(RULES)
    for rule, _, _ in RULES:
        entry = Approval(index=3, rule=rule, scope="project", granted=False)
        assert parse_entry(dump_entry(entry)) == entry


def test_what_was_said_is_one_sentence() -> None:
    rule = Rule(tool="edit")
    assert approval_words(Approval(rule=rule)) == "always allowed in this session: edit"
    taken = Approval(rule=rule, scope="project", granted=False)
    assert approval_words(taken) == "no longer allowed unasked in this project: edit"
    assert approval_words(Approval(mode="all")) == "from here on everything runs unasked"
