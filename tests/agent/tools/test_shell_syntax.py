"""A command line is read as bash reads it, and a rule covers it iff it covers each command in it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.agent.permissions.approvals import Policy, decide
from foldline.agent.tools.bash import BashTool
from foldline.agent.tools.shell_syntax import LONGEST, read
from foldline.protocol import Rule
from support.limits import examples

ALLOWED = ("git status", "ls", "cat", "grep", "tail", "echo")
EVERYTHING = frozenset(Rule(tool="bash", pattern=words, part=True) for words in ALLOWED)


def runs(command: str, *more: Rule, always: frozenset[Rule] = EVERYTHING) -> bool:
    """Whether it runs unasked in `/src/shop`, where all of `ALLOWED` was always allowed."""
    tool, arguments = BashTool(), {"command": command}
    rules = tool.rules(arguments, Path("/src/shop"))
    return decide(Policy(always=always | {*more}), "run", rules, inside=True) == "allow"


GOOD = st.sampled_from(
    ["git status", "ls -la src", "cat 'a b'", 'grep -n "x|y" a', "tail -5", "echo hi"]
)
BAD = st.sampled_from(
    [
        "rm x",
        "./run",
        "git push",
        "make",
        "ls --color=auto --hyperlink=x",
        "tail -f x",
        "python a.py",
    ]
)
JOINTS = ("; ", " && ", " || ", " & ", "\n", " \\\n&& ", ";", " # a\n")
FILTERS = ("cat", "grep x", "tail -5", "echo")


@st.composite
def lines(draw: st.DrawFn, depth: int = 3) -> tuple[str, bool]:
    """A command line, and whether each of its simple commands is allowed."""
    if not depth or draw(st.integers(0, 3)) == 0:
        is_good = draw(st.booleans())
        return draw(GOOD if is_good else BAD), is_good
    first, first_good = draw(lines(depth - 1))
    second, second_good = draw(lines(depth - 1))
    match draw(st.integers(0, 9)):
        case 0:
            return f"( {first} )", first_good
        case 1:
            return f"{{ {first}\n}}", first_good
        case 2:
            return f"if {first}\nthen {second}\nfi", first_good and second_good
        case 3:
            return f"while {first}\ndo {second}\ndone", first_good and second_good
        case 4:
            return f"! ( {first}\n)", first_good
        case 5:
            return f"{{ {first}\n}} 2>&1 | {draw(st.sampled_from(FILTERS))}", first_good
        case 6:
            return f"cat <( {first}\n) b", first_good
        case 7:
            return f'echo "a $( {first}\n) b"', first_good
        case _:
            return (
                f"{first}{draw(st.sampled_from(JOINTS))}{second}",
                first_good and second_good,
            )


@given(lines())
@settings(max_examples=examples(300))
def test_a_line_runs_unasked_iff_each_simple_command_is_allowed(
    line: tuple[str, bool],
) -> None:
    command, allowed = line
    assert runs(command) == allowed


@pytest.mark.parametrize("joint", [" && ", "; ", "\n"])
@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("cd /src/shop", True), ("cd '/src/shop'", True), ("cd /src/shop && cd /src/shop", True),
        ("cd /src/shop/sub", False), ("cd sub", False), ("cd .", False), ("cd", False), ("cd -", False),
        ("cd -P /src/shop", False), ("cd /src/shop x", False), ("cd $X", False), ("cd /src/shop*", False),
        ("cd /src/shop/../shop", False), ("CDPATH=/x cd /src/shop", False), ("cd() { rm x; }", False),
        ("cd /src/shop && rm x", False), ("builtin cd /src/shop", False), ("cd /src/shop/../..", False),
    ],
)  # fmt: skip
def test_to_go_where_one_is_needs_no_rule_and_to_go_anywhere_else_asks(
    first: str, expected: bool, joint: str
) -> None:
    assert runs(f"{first}{joint}git status") == expected
    assert not runs(first), "by itself it is nothing that a rule could be made of"


@given(lines(), st.sampled_from([">", ">>", "&>", ">|", "2>", ">&"]))
def test_what_a_redirection_writes_is_allowed_as_a_write_is(
    line: tuple[str, bool], sign: str
) -> None:
    command, allowed = f"{{ {line[0]}\n}} {sign} log", line[1]
    assert not runs(command)
    assert runs(command, Rule(tool="write")) == allowed


@pytest.mark.parametrize(
    "command",
    [
        # what runs another program, or changes what the next ones are
        "eval ls", "eval 'ls'", "env X=1 ls", "X=1 ls", "X=1; ls", "export X=1; ls", "sudo ls", "xargs ls",
        "ls | xargs cat", "find . -exec ls {} +", "git -c core.pager=x status", "command ls", "exec ls",
        "time ls",
        "coproc ls", "source ls", ". ls", "builtin echo", "trap ls EXIT", "nohup ls", "alias ls=rm\nls",
        "ls() { rm x; }\nls", "function ls { rm x; }", "shopt -s expand_aliases; ls", "set -a; ls",
        "cd src && ls",
        "PATH=. && ls", "for PATH in .; do ls; done", "hash -p ./x ls; ls", "enable -n echo; echo a",
        "read PATH; ls",
        # words the shell makes others of
        "ls $X", "ls ${X}", "ls $(cat a)", "ls `cat a`", "ls $((1))", "ls {a,b}", "ls *", "ls ~",
        "ls $'a'", "ls $\"a\"",
        "l\\s", "ls a\\ b", "ls \"$X\"", "ls \"$(cat a)\"", "echo `ls`", "echo \"`ls`\"", "echo $(ls)",
        "echo \"$X\"",
        "echo \"$(ls) $X\"", "echo \"$(rm x)\"", "cat <(rm x)", "cat < <(rm x)", "cat > >(rm x)",
        "$(echo ls)", "\"$(ls)\"",
        "ls [a]", "ls @(a|b)", "[ -f a ] && ls", "[[ -f a ]] && ls", "((1)) && ls",
        "case a in a) ls;; esac", "ls !(a)",
        # blanks that are none, lines that go on
        "ls\u00a0-la", "ls\u2003-la", "ls\u3000", "ls\u200b", "ls\r\nrm x", "ls\x0brm", "l\\\ns",
        "ls -\\\nla; r\\\nm x",
        "ls \n\\\n rm x", "ls \\\r\nrm x", "ls a\\\n#b",
        # commands in disguise
        "ls;rm x", "ls&rm x", "ls|&rm x", "ls\nrm x", "ls&&rm x", "ls # a\nrm x", "ls 'a'#'b\nrm x'\nrm x",
        "ls;#\nrm x",
        "cat <<EOF\na\nEOF", "cat <<EOF\n$(rm x)\nEOF", "cat <<'EOF' | sh\nrm x\nEOF",
        "cat <<-EOF\n\ta\n\tEOF\nrm x",
        "cat <<A <<B\nA\nB\nrm x", "ls < /dev/null | sh", "ls -x2>a", "ls --hyper2>a",
        "ls > a --hyperlink=x",
        "ls 2>/dev/null --hyperlink=x", "> a rm x", "2>a", "ls >& -x", "ls {fd}>a", "ls <>a", "!ls",
        "! !ls",
        "ls | git status", "git status < a", "git status <<< a", "git status | { ls; git status; }",
        "ls ) rm x (", "ls (",
        "ls 'a", 'ls "a', "ls `a", "ls $(a", "ls &&", "| ls", "", " ", "\n", "# ls", "ls |", "fi; ls",
        "ls <(", "(" * 2_000,
        "( " * 100 + "ls" + " )" * 100,
    ],
)  # fmt: skip
def test_what_hides_or_changes_a_command_asks(command: str) -> None:
    assert not runs(command)
    assert not runs(command, Rule(tool="write"))


def test_a_rule_of_an_older_version_covers_nothing() -> None:
    old = frozenset({Rule(tool="bash", pattern="git status")})
    assert not runs("git status", always=old)


def test_an_exact_rule_covers_the_whole_line_and_no_part_of_another() -> None:
    exact = Rule(tool="bash", pattern="./run a", exact=True)
    assert runs("./run a", exact)
    assert not runs("./run a; ls", exact)
    assert not runs("./run a ", exact)


def test_what_is_given_to_read_goes_to_filters_only() -> None:
    """`git commit` opens an editor, and an editor reads commands."""
    commit = Rule(tool="bash", pattern="git commit", part=True)
    assert runs("git commit", commit)
    assert not runs("echo x | git commit", commit)


# --- as bash reads it ---------------------------------------------------------------------------------------

PIECES = (
    "one", "two", "-x", "a", "'", '"', "$(", ")", "`", ";", "&&", "||", "|", "|&", "\n", "\\", "\\\n", " ",
    " ", "<",
    ">", ">>", "2>", ">&1", ">&", "<(", ">(", "{", "}", "(", "!", "if", "then", "fi", "<<<", "<<", "EOF",
    "$x", "x=1",
    "*", "[", "]", "((", "~", "é", "\u00a0", "\t", "function", "case", "in", "esac", "#", "$'", "@(",
    "{a,b}", "1",
    "&>", "<&-", "3<", "'b c'", '"b c"', "one; two", "one | two", "\r", "-x2>", "=",
)  # fmt: skip
STUBS = """
log() { local word line=; for word; do line+="$word"$'\\001'; done; printf '%s\\002' "$line" >> "$LOG"; }
one() { log one "$@"; }
two() { log two "$@"; }
command_not_found_handle() { log "$@"; }
"""


def ran(command: str, folder: Path) -> list[Sequence[str]]:
    """The commands bash starts, and their words, where no program is to be found."""
    log, stubs, work = folder / "log", folder / "stubs", folder / "work"
    work.mkdir(exist_ok=True)
    stubs.write_text(STUBS)
    log.write_bytes(b"")
    environ = {
        "BASH_ENV": str(stubs),
        "LOG": str(log),
        "PATH": "/nowhere",
        "LC_ALL": "C.UTF-8",
    }
    subprocess.run(
        ["/bin/bash", "--norc", "-c", command],
        env=environ,
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return [
        line.split("\x01")[:-1]
        for line in log.read_text("utf-8", "replace").split("\x02")
        if line
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bash")


@given(
    command=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9),
    blank=st.sampled_from(["", " "]),
)
@settings(max_examples=examples(400))
def test_bash_runs_no_other_command_and_no_other_words(
    folder: Path, command: list[str], blank: str
) -> None:
    line = f"one {blank.join(command)}"
    reading = read(line)
    if reading is None or not reading.is_plain:
        return
    said = [[word.text for word in each.words] for each in reading.commands]
    if any(word.kind != "literal" for each in reading.commands for word in each.words):
        return  # of these no rule is made
    for words in ran(line, folder):
        assert ["-" if word.startswith("/dev/fd/") else word for word in words] in said


@pytest.mark.parametrize(
    "sign",
    ["(", "$(", "`", "'", "{ ", "<(", "a|", "<<E\n", "if ", "a\\\n", '"$(', "[[ "],
)
def test_it_is_read_in_bounded_time_and_depth_or_not_at_all(sign: str) -> None:
    read((sign * LONGEST)[:LONGEST])


def test_what_is_longer_than_anybody_reads_is_not_read() -> None:
    assert read("ls " + "a" * LONGEST) is None
