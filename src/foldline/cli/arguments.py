"""What can be typed behind `foldline`: the commands, their options, and what each of them runs."""

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

from . import options as takes


class UsageError(Exception):
    """A command line that says nothing we understand: exit code 2."""


class Command(NamedTuple):
    """One subcommand. Its module has a function `run` that takes the options by name."""

    name: str
    arguments: str
    summary: str
    module: str
    options: "Callable[[argparse.ArgumentParser], None]"


class Invocation(NamedTuple):
    """A parsed command line."""

    module: str
    options: dict[str, object]
    debug: bool

    def run(self) -> int:
        code: int = import_module(f".{self.module}", __package__).run(**self.options)
        return code

    def failures(self) -> tuple[type[Exception], ...]:
        """The errors that are for people. A method, because the import costs time."""
        from foldline.protocol import FoldlineError

        return (FoldlineError, UsageError)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; `{self.prog} --help` shows what is possible.")

    def option_strings(self) -> list[str]:
        return list(self._option_string_actions)


COMMANDS = (
    Command("run", "PROMPT", "one prompt without a screen, its answer on stdout", "run", takes.run),
    Command("open", "FILE|ID", "look at any session in the inspector, read-only", "open", takes.open_),
    Command("view", "FILE|ID", "what the model sees: the messages of a request", "view", takes.view),
    Command("history", "FILE|ID", "every entry of a session, and its fate", "history", takes.history),
    Command("verify", "FILE|ID", "prove every request from the history", "verify", takes.verify),
    Command("compact", "FILE|ID", "fold a session into a summary", "compact", takes.compact),
    Command("audit", "FILE|ID", "the facts each fold took out of the view", "audit", takes.audit),
    Command("stats", "FILE|ID", "requests, tokens, tools and folds of a session", "stats", takes.stats),
    Command("eval", "FILE…", "compare strategies on recorded sessions", "eval", takes.eval),
    Command("import", "FILE", "copy another agent's session, to go on with it", "importing", takes.import_),
    Command("export", "FILE|ID", "write a session for others to read", "export", takes.export),
    Command("sessions", "", "the sessions of this folder", "sessions", takes.sessions),
    Command("search", "QUERY", "in which session something was said", "search", takes.search),
    Command("rename", "ID TITLE", "give a session another title", "rename", takes.rename),
    Command("fork", "ID", "go on from any entry in a new session", "fork", takes.fork),
    Command("archive", "ID…", "leave sessions out of the lists, or back", "archive", takes.archive),
    Command("delete", "ID…", "delete sessions for good, after a question", "delete", takes.delete),
    Command("doctor", "[FILE|ID…]", "check sessions or this installation", "doctor", takes.doctor),
    Command("demo", "", "look around in a recorded session with two folds", "demo", takes.demo),
    Command("serve", "", "the same screens in a browser on this machine", "serve", takes.serve),
    Command("config", "", "the settings in force, and where each was set", "config", takes.config),
)


def parse(arguments: Sequence[str]) -> Invocation:
    """What a command line asks for. The first word is a command, or the prompt of a chat.

    Raises:
        UsageError: it cannot be understood.
    """
    debug = "--debug" in arguments[:1]
    words = list(arguments[1:] if debug else arguments)
    command = next((command for command in COMMANDS if words and command.name == words[0]), None)
    if command is None:
        parser = _Parser(
            prog="foldline",
            usage="foldline [PROMPT] [options]\n       foldline COMMAND [options]",
            description="A terminal coding agent for long sessions: see, steer and undo "
            "what the model still remembers.",
            epilog=_overview(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        takes.chat(parser)
        module = "chat"
    else:
        parser = _Parser(
            prog=f"foldline {command.name}",
            description=f"{command.summary[0].upper()}{command.summary[1:]}.",
            allow_abbrev=False,
        )
        command.options(parser)
        module, words = command.module, words[1:]
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    known, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_not_understood(parser, words, unknown))
    options = vars(known)
    return Invocation(module, options, bool(options.pop("debug")) or debug)


def _overview() -> str:
    lines = [f"  {f'{command.name} {command.arguments}':<18} {command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "commands (`foldline COMMAND --help` says more):",
            *lines,
            "",
            "`-m MODEL@PROVIDER` names who is asked: openai, anthropic, deepseek, ollama and others. Where",
            "nobody is named: OPENAI_BASE_URL, else OPENAI_API_KEY, else the built-in model `offline`.",
        ]
    )


def _not_understood(parser: _Parser, words: Sequence[str], unknown: Sequence[str]) -> str:
    """A misspelt command looks like a prompt of several words: say both."""
    from difflib import get_close_matches

    prog = parser.prog
    stray = next((word for word in unknown if word.startswith("-") and word != "-"), None)
    if prog != "foldline" or stray is not None or not words or words[0].startswith("-"):
        meant = get_close_matches((stray or "").partition("=")[0], parser.option_strings(), n=1)
        hint = f"did you mean {meant[0]}?" if meant else f"`{prog} --help` shows what is possible."
        if prog == "foldline run" and stray is None:
            hint = "a prompt of several words goes in quotes."
        return f"{stray or unknown[0]!r} is not understood; {hint}"
    close = get_close_matches(words[0], [command.name for command in COMMANDS], n=1)
    hint = f" Did you mean `foldline {close[0]}`?" if close else ""
    return f"There is no command {words[0]!r}; a prompt of several words goes in quotes.{hint}"
