"""`foldline completion`: what a shell needs to complete the command line, by shtab."""

import sys
from argparse import ArgumentParser

import shtab

from .commands import COMMANDS, DESCRIPTION, declare


def completion(shell: str) -> int:
    sys.stdout.write(shtab.complete(whole_parser(), shell))
    return 0


def whole_parser() -> ArgumentParser:
    """The chat and all commands in one parser, for completion and the manual page."""
    whole = ArgumentParser("foldline", description=DESCRIPTION)
    declare(whole, None)
    for prompt in whole._get_positional_actions():
        whole._remove_action(prompt)  # any first word may be one: then no command would be completed
    commands = whole.add_subparsers(title="commands", metavar="COMMAND")
    parsers = [whole]
    for command in COMMANDS:
        said = command.sentence
        parsers.append(commands.add_parser(command.name, help=said.rstrip("."), description=said))
        declare(parsers[-1], command)
    for parser in parsers:
        for action in parser._actions:
            if str(action.metavar).startswith(("FILE", "PATH")):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks
    return whole
