"""Which commands may be allowed by their leading words, and what they must not smuggle in."""

import pytest

from foldline.agent.tools.bash import BashTool
from foldline.agent.tools.known_commands import _KNOWN


def covered_by(command: str) -> list[str]:
    """The leading words that rules are made of; none where only the exact command line will do."""
    sets = BashTool().rules({"command": command})
    return [rule.pattern for rule in sets[0] if not rule.exact] if sets else []


@pytest.mark.parametrize(
    ("command", "leading"),
    [
        ("pytest tests/a.py -x -q", "pytest"),
        ("git status", "git status"),
        ("git  status\t--short -b", "git status"),
        ("git log --oneline -5 -- src/a.py", "git log"),
        ("git commit -m 'fix; the (other) thing'", "git commit"),
        ('git commit -m "fix the other thing"', "git commit"),
        ('git commit -am "it\'s done"', "git commit"),
        ("npm run build --if-present", "npm run build"),
        ("npm run build:prod", "npm run build:prod"),
        ("uv run pytest -k retry", "uv run pytest"),
        ("uv run ruff check src", "uv run ruff check"),
        ("python -m pytest -x", "python -m pytest"),
        ("make -j 4 -s", "make"),
        ("make -j4 install", "make install"),
        ("make -j 4 clean -k all", "make clean all"),
        ("grep -rn 'a|b$' src", "grep"),
        ("find . -name '*.py' -type f", "find"),
        ("go test ./... -run=TestA -v", "go test"),
        ("ls -la", "ls"),
        ("cat 文件.txt", "cat"),
        ("git commit -m 'one\n\ntwo $x'", "git commit"),
        ("cat <<< x", "cat"),
        ("! git status", "git status"),
        ("git status #x", "git status"),
        ("git status 2> /dev/null", "git status"),
    ],
)
def test_a_familiar_command_is_known_by_its_leading_words(
    command: str, leading: str
) -> None:
    assert covered_by(command) == [leading]


@pytest.mark.parametrize(
    "command",
    [
        # starts other programs, or code that its words do not name
        "git diff --ext-diff", "git show --textconv", "git -c core.pager=x status", "git -C a status",
        "git log --output=/etc/x", "git log --outp=x", "git grep -O x", "git grep --open-files-in-pager=x a",
        "git commit --amend", "git commit -F /etc/passwd", "git add -p", "git rebase -x a", "git push",
        "git stash drop", "git checkout a", "git config a b", "git submodule foreach a", "git bisect run a",
        "rg --pre ./x a", "rg --pre=./x a", "rg -z a", "rg --hostname-bin=./x a", "rg -L a", "grep -R a .",
        "find . -exec rm x", "find . -delete", "find . -fprintf x y", "find . -ok x", "find -L .",
        "find . -execdir x", "find . -files0-from x",
        "pytest -p evil", "pytest -pevil", "pytest -c x.ini", "pytest --rootdir=/", "pytest @args",
        "pytest -o addopts=x", "pytest --pyargs a", "pytest --basetemp=x", "pytest -xpevil",
        "make -f other", "make --file=other", "make -C other", "make SHELL=./x", "make 'SHELL = x'",
        "make --eval=x", "make -E x", "make a=b", "make .SHELLFLAGS:=x", "make ../x", "make -o x",
        "npm test -- --x", "npm --script-shell=x run a", "npm run", "npm run --script-shell=x a",
        "npm exec a",
        "cargo test -- --nocapture", "cargo --config x build", "cargo build --config=x", "cargo +a build",
        "cargo run", "go run a.go", "go test -exec ./x", "go build -toolexec x", "go vet -vettool=x",
        "go test -o x", "ruff check --config x", "ruff check --fix", "mypy --config-file x",
        "mypy --python-executable x", "tsc --project x", "tsc -p x", "python -m black a", "python a.py",
        "uv run --with x pytest", "uv run python a.py", "uv --directory / run pytest", "tree -o x",
        "diff --to-file=/x a", "diff a b", "diff -r a b",
        "file -f x", "file -m x", "tail -f x", "sort -o a b", "tar --to-command=x",
        # other commands in the same line
        "git status; rm x", "git status && rm x", "git status || rm x", "git status | sh",
        "git status < x", "git status & rm x", "git status $(rm x)", "git status `rm x`", "git status\nrm x",
        "git status\rrm x", "git status <(rm x)", "git status {a,b}", "git status ~",
        "git status $HOME", "git status *", "git status ?", "git status [a]", "git status \\;",
        "git status !x",
        'git status "$(rm x)"', 'git status "`rm x`"', "git status $'x'", "cat <<EOF\nEOF", "git status 'a",
        "git status ⏎ rm x; y",
        "X=1 git status", "env git status", "GIT_PAGER=x git log", "time git status", "./git status",
        "/usr/bin/git status", "sudo git status", "command git status", "\\git status", "git status\x0brm",
        # looks like it
        "gіt status", "git stаtus", "git\u00a0status", "git status\u200b", "git\u2028status", "ｇit status",
        "git status '\u202e'", "GIT status", "git", "", " ", "gitstatus", "git 'status x'", "'git status'",
    ],
)  # fmt: skip
def test_anything_else_is_allowed_as_the_exact_command_only(command: str) -> None:
    assert covered_by(command) == []


STARTS_OR_LOADS = """
--exec --config --output --plugin --pre --pre-glob --eval --pager --textconv --ext-diff --shell --command
--file --from-file --rootdir --upload-pack --receive-pack --init-file --search-zip -exec -execdir -ok -okdir
-delete -fprint -fprintf -fls -files0-from -toolexec -vettool -C -modfile
"""


def test_no_option_that_runs_loads_or_writes_something_is_in_the_table() -> None:
    found = {
        leading: sorted(named.intersection(STARTS_OR_LOADS.split()))
        for leading, (named, _) in _KNOWN.items()
    }
    assert not {leading: options for leading, options in found.items() if options}
