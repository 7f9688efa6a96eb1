"""`foldline completion`: what a shell completes with it."""

import shutil
import subprocess

import pytest

from foldline.cli.commands import all_commands
from foldline.cli.declarations import SHELLS
from support.command_line import CommandLine

_TYPED = (
    "foldline ver",
    "foldline sessions --fr",
    "foldline --mod",
    "foldline completion f",
    "foldline view no",
)
_BASH = """source /dev/stdin
for line in "$@"
do
  COMP_WORDS=($line) COMPREPLY=() COMP_CWORD=$(($(wc -w <<< "$line") - 1))
  _shtab_foldline
  echo "${COMPREPLY[@]}"
done
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_learns_every_command(cli: CommandLine, shell: str) -> None:
    said = cli("completion", shell)
    assert said.code == 0
    assert not [
        command.name for command in all_commands() if command.name not in said.out
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_choices_and_files(cli: CommandLine) -> None:
    (cli.cwd / "notes.jsonl").touch()
    done = subprocess.run(
        ["bash", "--norc", "-c", _BASH, "bash", *_TYPED],
        input=cli("completion", "bash").out,
        cwd=cli.cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split("\n")[:5] == [
        "verify",
        "--from",
        "--model",
        "fish",
        "notes.jsonl",
    ]


def test_another_shell_is_refused_with_those_there_are(cli: CommandLine) -> None:
    said = cli("completion", "cmd")
    assert said.code == 2 and "bash" in said.err
