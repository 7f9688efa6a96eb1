import pytest

from foldline.agent.approvals import Level, Mode, Policy, allow_always, decide


def bash(policy: Policy, command: str, inside: bool = True) -> str:
    return decide(policy, "run", "bash", command, inside)


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
def test_mode_level_and_place_decide(mode: Mode, level: Level, inside: bool, expected: str) -> None:
    assert decide(Policy(mode), level, "tool", "title", inside) == expected


def test_always_for_an_edit_covers_that_tool_inside_the_working_directory_only() -> None:
    policy = allow_always(Policy(), "edit", "src/a.py")
    assert decide(policy, "edit", "edit", "src/b.py", True) == "allow"
    assert decide(policy, "edit", "write", "src/b.py", True) == "ask"
    assert decide(policy, "edit", "edit", "/etc/hosts", False) == "ask"


def test_always_for_a_call_outside_grants_nothing() -> None:
    assert allow_always(Policy(), "edit", "/etc/hosts", inside_cwd=False) == Policy()


@pytest.mark.parametrize(
    ("allowed", "covered"),
    [
        ("pytest tests/a.py", "pytest -x"),
        ("git status", "git status --short"),
        ("npm run build", "npm run build --if-present"),
        ("uv run pytest -q", "uv run pytest tests"),
        ("python -m pytest", "python -m pytest -k retry"),
    ],
)
def test_a_simple_command_is_remembered_by_its_first_words(allowed: str, covered: str) -> None:
    assert bash(allow_always(Policy(), "bash", allowed), covered) == "allow"


@pytest.mark.parametrize(
    ("allowed", "other"),
    [
        ("git status", "git push"),
        ("npm run build", "npm run deploy"),
        ("pytest", "pytester"),
        ("python -m pytest", "python -m http.server"),
        ("python a.py", "python b.py"),
        ("rm a", "rm -rf b"),
        ("sudo ls", "sudo rm a"),
        ("bash a.sh", "bash b.sh"),
        ("uv run python a.py", "uv run python b.py"),
        ("git -C a status", "git -C a push"),
        ("FOO=1 make", "FOO=1 make install"),
        ("./run.sh a", "./run.sh b"),
    ],
)
def test_what_runs_or_destroys_other_things_is_remembered_exactly(allowed: str, other: str) -> None:
    policy = allow_always(Policy(), "bash", allowed)
    assert bash(policy, allowed) == "allow"
    assert bash(policy, other) == "ask"


@pytest.mark.parametrize(
    "tail",
    [
        "; rm -rf x",
        " && rm x",
        " || rm x",
        " | sh",
        " > x",
        " < x",
        " & rm x",
        " $(rm x)",
        " `rm x`",
        " ⏎ rm x",
        "\nrm x",
    ],
)
def test_a_compound_command_is_never_covered_by_a_simple_one(tail: str) -> None:
    policy = allow_always(Policy(), "bash", "git status")
    assert bash(policy, "git status" + tail) == "ask"


def test_a_compound_command_is_remembered_exactly() -> None:
    policy = allow_always(Policy(), "bash", "git add . && git commit -m x")
    assert bash(policy, "git add . && git commit -m x") == "allow"
    assert bash(policy, "git add . && git commit -m y") == "ask"
    assert bash(policy, "git add .") == "ask"


def test_an_allowed_command_still_asks_when_it_reaches_outside() -> None:
    policy = allow_always(Policy(), "bash", "cat a")
    assert bash(policy, "cat a") == "allow"
    assert bash(policy, "cat /etc/passwd", inside=False) == "ask"
