"""`foldline completion`: what a shell needs to complete the command line, by shtab."""

import sys
from argparse import ArgumentParser
from typing import Final

from .arguments import COMMANDS, DESCRIPTION, Handler, declare, sentence_of

SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")


def completion_command(parser: ArgumentParser) -> Handler:
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")
    return completion


def completion(shell: str) -> int:
    import shtab

    sys.stdout.write(shtab.complete(whole_parser(), shell))
    return 0


def whole_parser() -> ArgumentParser:
    """The chat and all commands in one parser: for completion and the manual page. No command line is parsed
    by it: that one imports its own command alone."""
    import shtab

    whole = ArgumentParser("foldline", description=DESCRIPTION)
    declare(whole, None)
    for prompt in whole._get_positional_actions():
        whole._remove_action(prompt)  # any first word may be one: then no command would be completed
    commands = whole.add_subparsers(title="commands", metavar="COMMAND")
    parsers = [whole]
    for command in COMMANDS:
        said = sentence_of(command)
        parsers.append(commands.add_parser(command.name, help=said.rstrip("."), description=said))
        declare(parsers[-1], command)
    for parser in parsers:
        for action in parser._actions:
            if str(action.metavar).startswith(("FILE", "PATH")):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks
    return whole
