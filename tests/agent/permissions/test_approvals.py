import pytest

from foldline.agent.permissions.approvals import Level, Policy, decide
from foldline.agent.tools.bash import BashTool
from foldline.agent.tools.files import EditTool
from foldline.protocol import Approval, ApprovalMode, Rule

EDIT, WRITE = Rule(tool="edit"), Rule(tool="write")


@pytest.mark.parametrize(
    ("mode", "level", "inside", "expected"),
    [
        ("ask", "read", True, "allow"),
        ("ask", "edit", True, "ask"),
        ("ask", "run", True, "ask"),
        ("edits", "read", True, "allow"),
        ("edits", "edit", True, "allow"),
        ("edits", "run", True, "ask"),
        ("all", "run", True, "allow"),
        ("ask", "read", False, "ask"),
        ("edits", "edit", False, "ask"),
        ("all", "edit", False, "allow"),
    ],
)
def test_mode_level_and_place_decide(
    mode: ApprovalMode, level: Level, inside: bool, expected: str
) -> None:
    assert decide(Policy(mode), level, [[Rule(tool="tool")]], inside=inside) == expected


def test_a_rule_covers_the_calls_it_is_a_rule_of_inside_the_working_directory_only() -> (
    None
):
    policy = Policy(always=frozenset({EDIT}))
    assert decide(policy, "edit", [[EDIT]], inside=True) == "allow"
    assert decide(policy, "edit", [[WRITE]], inside=True) == "ask"
    assert decide(policy, "edit", [[EDIT]], inside=False) == "ask"
    assert decide(policy, "read", [[EDIT]], inside=False) == "ask"
    assert decide(policy, "edit", [], inside=True) == "ask"


def test_rules_that_cover_a_call_together_are_all_needed() -> None:
    policy = Policy(always=frozenset({EDIT}))
    assert decide(policy, "run", [[EDIT, WRITE]], inside=True) == "ask"
    assert (
        decide(policy, "run", [[EDIT, WRITE]], inside=True, of_project={WRITE})
        == "allow"
    )
    assert decide(policy, "run", [[]], inside=True) == "ask"


def test_where_edits_run_unasked_so_does_what_a_redirection_writes() -> None:
    assert (
        decide(Policy("edits", frozenset({EDIT})), "run", [[EDIT, WRITE]], inside=True)
        == "allow"
    )
    assert decide(Policy("edits"), "run", [[EDIT, WRITE]], inside=True) == "ask"


def test_rules_of_the_project_count_as_those_of_the_session() -> None:
    assert (
        decide(Policy(), "run", [[WRITE], [EDIT]], inside=True, of_project={EDIT})
        == "allow"
    )
    assert decide(Policy(), "run", [[EDIT]], inside=False, of_project={EDIT}) == "ask"


def test_what_the_user_says_changes_the_policy_and_a_rule_of_the_project_is_kept_elsewhere() -> (
    None
):
    policy = Policy().after(Approval(rule=EDIT)).after(Approval(mode="edits"))
    assert policy == Policy("edits", frozenset({EDIT}))
    assert policy.after(Approval(rule=WRITE, scope="project")) == policy
    assert policy.after(Approval(rule=EDIT, granted=False)) == Policy("edits")


@pytest.mark.parametrize(
    "field", [{"exact": True}, {"pattern": "git status"}, {"tool": "BASH"}, {"x": 1}]
)
def test_a_rule_is_compared_whole_and_never_interpreted(
    field: dict[str, object],
) -> None:
    rule = Rule(tool="bash", pattern="make")
    other = Rule.model_validate({**rule.model_dump(), **field})
    assert (
        decide(Policy(always=frozenset({other})), "run", [[rule]], inside=True) == "ask"
    )


def test_each_tool_says_which_rules_cover_a_call_and_a_call_it_refuses_has_none() -> (
    None
):
    assert EditTool().rules({"path": "a.py", "old": "a", "new": "b"}) == ((EDIT,),)
    assert BashTool().rules({"command": "git status -s"}) == (
        (Rule(tool="bash", pattern="git status", part=True),),
        (Rule(tool="bash", pattern="git status -s", exact=True),),
    )
    assert BashTool().rules({"command": "make && ls > log"}) == (
        (
            Rule(tool="bash", pattern="make", part=True),
            Rule(tool="bash", pattern="ls", part=True),
            WRITE,
        ),
        (Rule(tool="bash", pattern="make && ls > log", exact=True),),
    )
    assert BashTool().rules({"command": "make && rm x"}) == (
        (Rule(tool="bash", pattern="make && rm x", exact=True),),
    )
    assert BashTool().rules({"cmd": "git status"}) == ()


@pytest.mark.parametrize(
    "command",
    [
        "ls " + "a" * 2_000,
        "git status \u202e",
        "git status\x1b[2J",
        "ls\u200b",
        "ls\r",
        "ls\x00",
    ],
)
def test_nothing_is_always_allowed_that_a_reader_does_not_see_whole(
    command: str,
) -> None:
    assert BashTool().rules({"command": command}) == ()
