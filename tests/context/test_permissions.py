"""Permissions in words, and what counts as bare consent; their projection is in agent/test_permitting."""

import pytest

from foldline.context.permissions import approval_words, is_consent, needs_context, rule_words, rules_grant
from foldline.protocol import Approval, Rule, dump_entry, parse_entry

RULES = [
    (Rule(tool="edit"), "edit", "any edit inside this folder"),
    (Rule(tool="bash", pattern="git status", part=True), "bash: git status …", "git status …"),
    (Rule(tool="bash", pattern="git status"), "bash: git status …, alone", "git status …"),
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
    assert (rule_words(rule), rules_grant([rule])) == (words, promised)


def test_no_two_rules_are_said_alike_and_each_comes_back_from_its_file() -> None:
    assert len({words for _, words, _ in RULES}) == len(RULES)
    for rule, _, _ in RULES:
        entry = Approval(index=3, rule=rule, scope="project", granted=False)
        assert parse_entry(dump_entry(entry)) == entry


def test_what_was_said_is_one_sentence() -> None:
    rule = Rule(tool="edit")
    assert approval_words(Approval(rule=rule)) == "always allowed in this session: edit"
    taken = Approval(rule=rule, scope="project", granted=False)
    assert approval_words(taken) == "no longer allowed without asking in this project: edit"
    assert approval_words(Approval(mode="all")) == "mode all: everything runs without asking"


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "OK, do as you said.",
        "yes, go ahead!",
        "Sounds good, please continue",
        "yeah, do it all",
        "ok, this looks amazing, start implementing",
        "👍 thanks",
        "lgtm",
        "好的",
        "继续",
        "好的，按你说的做",
        "可以，就这样改吧。",
        "没问题，请继续",
        "按照你的方案来做吧",
        "OK，继续",
        "はい、お願いします",
        "続けてください",
        "네, 계속해 주세요",
        "genau, weiter",
    ],
)
def test_what_only_agrees_is_a_consent(text: str) -> None:
    assert is_consent(text)
    assert needs_context(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok, but never touch schema.sql",
        "yes, and add a test for the empty cart",
        "no",
        "don't do that",
        "wait",
        "fix cart.py",
        "不行",
        "不要继续",
        "好的，但是不要改数据库",
        "执行测试",
        "继续，用第二个方案",
        "いいえ",
        "ok " * 100,
    ],
)
def test_what_says_something_is_none(text: str) -> None:
    assert not is_consent(text)


@pytest.mark.parametrize(
    "text", ["use option 2, but without the cache", "继续，用第二个方案", "the second one"]
)
def test_a_choice_leans_on_what_was_offered(text: str) -> None:
    assert needs_context(text)


@pytest.mark.parametrize("text", ["Add an export to CSV", "把配置文件改成 UTF-8 编码", "read src/cart.py"])
def test_a_request_of_its_own_leans_on_nothing(text: str) -> None:
    assert not needs_context(text)
