"""Whether a command stays in the folder, as far as its words tell."""

import shlex
from pathlib import Path

import pytest

from foldline.agent.tools.paths import command_inside


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").touch()
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder / "src")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "ls", "cat src/a.py", "cat src/../src/a.py", "cat in/a.py", "git status", "make -j4 > log 2>&1",
        "echo hi > /dev/null", "sed s/a/b/ src/a.py", "ls src/*.py", "grep '^/x' src/a.py", "cat .gitignore",
        "git commit -m 'a (b) c'", "cd src && ls", "cat nowhere", "/usr/bin/env ls", "ls -la --color=auto",
    ],
)  # fmt: skip
def test_a_command_that_names_nothing_outside_stays_inside(project: Path, command: str) -> None:
    assert command_inside(command, project)


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd", "cat ../x", "cat src/../../x", "cat out/x", "cat out", "ls ~", "ls ~root",
        "ls $HOME",
        "ls ${HOME}", "ls `pwd`", "cat </etc/passwd", "echo a>/etc/x", "echo a >>../x", "cat a;cat /etc/x",
        "cat x|tee /etc/x", "git log --output=/etc/x", "git log --output=../x", "dd of=/dev/sda",
        "cc -I/usr/x",
        "cc -I../x", "curl -d @/etc/passwd x", "curl file:///etc/passwd", "cat {/etc,src}/x", "cat .{.,}/x",
        "cat /et*/passwd", "cat .*/x", "cat .?/x", "cat .[.]/x", "cat \\/etc/x", "cat '/etc/x'", 'cat ".."/x',
        "python -c \"open('/etc/passwd')\"", "cd ..", "cd", "cd -", "cd && ls", "cd; ls", "cd\nls", "popd",
        "pushd; ls", "(cd; ls)", "cd /tmp", "cat $'\\x2fetc'", "cat 'a", "PATH=/x ls", "a=~/x ls", "../x.sh",
        "cat <<EOF\n/etc/passwd\nEOF", "scp a host:/x", "cat a\x00/etc", "true " * 3_000,
    ],
)  # fmt: skip
def test_what_names_a_way_out_or_cannot_be_told_counts_as_outside(project: Path, command: str) -> None:
    assert not command_inside(command, project)


@pytest.mark.parametrize("name", ["a,b", "a=b", "a:b", "a@b", "a b", "@z", "--x=a,b", "-ox@y", "ü ö", 'a"b'])
@pytest.mark.parametrize("word", ["{}/x", "{}", "--file={}/x", "k:{}/x", "-f{}/x", "./{}/x"])
def test_a_link_is_followed_whatever_its_name_holds(project: Path, name: str, word: str) -> None:
    (project / name).symlink_to(project.parent)
    assert not command_inside(f"cat {shlex.quote(word.format(name))}", project)
    assert command_inside(f"cat {shlex.quote(word.format('x' + name))}", project)


def test_a_long_message_stays_inside_and_a_program_in_one_word_does_not(project: Path) -> None:
    assert command_inside(f"git commit -m '{'many words, and more; ' * 50}'", project)
    assert not command_inside(f"python -c '{'print(1); ' * 400}'", project)
