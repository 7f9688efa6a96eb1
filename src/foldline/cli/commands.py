"""Declares the arguments, help text and handler of every command.

Handlers are imported only when they run, so that help texts appear quickly.
"""

import argparse
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Final, NamedTuple, NoReturn

from .arguments import (
    QUOTE_PROMPT,
    UNKNOWN_ARGUMENT,
    UsageError,
    add_flag,
    add_model_options,
    add_theme,
)
from .declarations import (
    declare_archive,
    declare_chat,
    declare_compact,
    declare_completion,
    declare_config,
    declare_delete,
    declare_doctor,
    declare_export,
    declare_fork,
    declare_handoff,
    declare_history,
    declare_mcp,
    declare_open,
    declare_rename,
    declare_run,
    declare_search,
    declare_sessions,
    declare_source,
    declare_stats,
    declare_view,
)

DESCRIPTION = "A terminal coding agent for long sessions: see, steer and undo what the model still remembers."


SEE_HELP = "see `{prog} --help`."
LOG_NOT_WRITTEN = "--log: {path} cannot be written: {reason}."
UNKNOWN_COMMAND = "There is no command {name!r}. If this is a prompt of several words, put it in quotes."


class Parser(ArgumentParser):
    """A parser that raises `UsageError` instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        help_hint = SEE_HELP.format(prog=self.prog)
        raise UsageError(f"{message.removeprefix('argument ')}; {help_hint}")

    def option_strings(self) -> list[str]:
        return list(self._option_string_actions)


class Command(NamedTuple):
    """A subcommand, as listed by `foldline --help`."""

    name: str
    arguments: str
    summary: str
    handler: str
    """`MODULE:FUNCTION`. The module is in this package unless its name contains a dot.

    The function receives the arguments as keywords, and returns the exit code.
    """
    declare: Callable[[ArgumentParser], None]
    """Adds the command's arguments to a parser."""

    @property
    def sentence(self) -> str:
        return f"{self.summary[0].upper()}{self.summary[1:]}."


COMMANDS: Final = (
    Command(
        "run",
        "PROMPT",
        "run one prompt, and print the answer on stdout",
        "run:run",
        declare_run,
    ),
    Command(
        "open",
        "FILE|ID",
        "open any session in the inspector, read-only",
        "screens:open_session",
        declare_open,
    ),
    Command(
        "view",
        "FILE|ID",
        "show the messages of the model's next request",
        "view:view",
        declare_view,
    ),
    Command(
        "history",
        "FILE|ID",
        "list all entries of a session with their states",
        "view:history",
        declare_history,
    ),
    Command(
        "verify",
        "FILE|ID",
        "check every request against the history",
        "checks:verify",
        declare_source,
    ),
    Command(
        "compact",
        "FILE|ID",
        "compact a session into a summary",
        "compact:compact",
        declare_compact,
    ),
    Command(
        "audit",
        "FILE|ID",
        "list the facts that each compaction lost",
        "checks:show_audit",
        declare_source,
    ),
    Command(
        "stats",
        "FILE|ID",
        "count requests, tokens, tool calls and compactions",
        "stats:stats",
        declare_stats,
    ),
    Command(
        "import",
        "FILE",
        "copy another agent's session to continue it here",
        "transfer:import_session",
        declare_source,
    ),
    Command(
        "export",
        "FILE|ID",
        "write a session as Markdown, HTML or another format",
        "transfer:export",
        declare_export,
    ),
    Command(
        "handoff",
        "FILE|ID",
        "continue a session in another agent",
        "transfer:handoff",
        declare_handoff,
    ),
    Command(
        "sessions",
        "",
        "list the sessions of this folder",
        "sessions:sessions",
        declare_sessions,
    ),
    Command(
        "search",
        "QUERY",
        "search the text of all sessions",
        "search:search",
        declare_search,
    ),
    Command(
        "rename",
        "ID TITLE",
        "give a session another title",
        "sessions:rename",
        declare_rename,
    ),
    Command(
        "fork",
        "ID",
        "continue from any entry in a new session",
        "sessions:fork",
        declare_fork,
    ),
    Command(
        "archive",
        "ID…",
        "hide sessions from the lists, or restore them",
        "sessions:archive_sessions",
        declare_archive,
    ),
    Command(
        "delete",
        "ID…",
        "delete sessions permanently, after confirmation",
        "sessions:delete_sessions",
        declare_delete,
    ),
    Command(
        "doctor",
        "[FILE|ID…]",
        "check sessions or this installation",
        "doctor:doctor",
        declare_doctor,
    ),
    Command(
        "demo",
        "",
        "explore a recorded session with two compactions",
        "screens:demo",
        add_theme,
    ),
    Command(
        "acp",
        "",
        "run as an agent for editors (Agent Client Protocol)",
        "acp:acp",
        add_model_options,
    ),
    Command(
        "mcp",
        "ACTION NAME",
        "sign in to or out of a tool server",
        "tool_servers:sign",
        declare_mcp,
    ),
    Command(
        "config",
        "",
        "show the active settings, and where each was set",
        "config:config",
        declare_config,
    ),
    Command(
        "completion",
        "SHELL",
        "print a shell's completion script",
        "commands:completion",
        declare_completion,
    ),
)
SEPARATE: Final = ("eval",)
"""Commands defined in other packages.

Each is loaded from its entry point when it is run or listed.
"""
ENTRY_POINTS: Final = "foldline.commands"
NOT_INSTALLED: Final = (
    "The command {name} is not installed: its entry point is missing. "
    "Reinstall Foldline (in a checkout, with `pip install -e .`)."
)


def separate_command(name: str) -> Command:
    """Load a command from its entry point.

    Raises:
        UsageError: the command is not installed.
    """
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=ENTRY_POINTS, name=name):
        command: Command = entry_point.load()
        return command
    raise UsageError(NOT_INSTALLED.format(name=name))


def all_commands() -> list[Command]:
    """Return all installed commands, in the order of the help text."""
    commands = list(COMMANDS)
    for name in SEPARATE:
        with suppress(UsageError):
            commands.append(separate_command(name))
    return commands


# --- a command line -----------------------------------------------------------------------------------


class Invocation(NamedTuple):
    """A parsed command line."""

    handler: str
    """`MODULE:FUNCTION`, as in `Command.handler`."""
    options: dict[str, object]
    debug: bool
    log: str | None
    """Path of the log file for compactions; None without a log."""

    def run(self) -> int:
        module, _, function = self.handler.partition(":")
        path = module if "." in module else f".{module}"
        handler: Callable[..., int] = getattr(
            import_module(path, __package__), function
        )
        with _compactions_logged(self.log):
            return handler(**self.options)


@contextmanager
def _compactions_logged(path: str | None) -> Iterator[None]:
    """Append the log records of compactions to a file, one JSON object per line."""
    if path is None:
        yield
        return
    import json
    import logging

    from foldline.history import typed_path

    class JsonFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            standard_fields = vars(logging.makeLogRecord({}))
            fields = {
                name: value
                for name, value in vars(record).items()
                if name not in standard_fields
            }
            at = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
            return json.dumps(
                {"at": at, "message": record.getMessage(), **fields}, ensure_ascii=False
            )

    log = logging.getLogger("foldline.compaction")
    try:
        handler = logging.FileHandler(typed_path(path), encoding="utf-8")
    except OSError as error:
        from foldline.protocol import FoldlineError, system_words

        reason = system_words(error)
        raise FoldlineError(LOG_NOT_WRITTEN, path=path, reason=reason) from None
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)
        handler.close()


def parse(arguments: Sequence[str]) -> Invocation:
    """Parse a command line.

    If the first word is not a command, the command line is the prompt for a chat.

    Raises:
        UsageError: the command line is invalid.
    """
    words = list(arguments)
    debug = words[:1] == ["--debug"]
    if debug:
        del words[0]
    name = words[0] if words else ""
    command = next((command for command in COMMANDS if command.name == name), None)
    if name in SEPARATE:
        command = separate_command(name)
    if command is None:
        parser = Parser(
            prog="foldline",
            usage="foldline [PROMPT] [options]\n       foldline COMMAND [options]",
            description=DESCRIPTION,
            epilog=_overview() if {"-h", "--help"}.intersection(words) else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    else:
        words = words[1:]
        parser = Parser(
            prog=f"foldline {command.name}",
            description=command.sentence,
            allow_abbrev=False,
        )
    declare(parser, command)
    namespace, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_unknown_argument(parser, words, unknown))
    options = vars(namespace)
    debug |= options.pop("debug")
    log = options.pop("log")
    handler = "chat:chat" if command is None else command.handler
    return Invocation(handler, options, debug, log)


def declare(parser: ArgumentParser, command: Command | None) -> None:
    """Add a command's arguments to a parser.

    If `command` is None, the chat's arguments are added.
    """
    (declare_chat if command is None else command.declare)(parser)
    add_flag(parser, "--debug", "show a traceback for errors")
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="append a JSON line for each compaction to this file",
    )


def _overview() -> str:
    lines = [
        f"  {f'{command.name} {command.arguments}':<18} {command.summary}"
        for command in all_commands()
    ]
    return "\n".join(
        [
            "commands (`foldline COMMAND --help` for details):",
            *lines,
            "",
            "`-m MODEL@PROVIDER` selects the model and its provider: openai, anthropic, deepseek, ollama, …",
            "Default: OPENAI_BASE_URL, else OPENAI_API_KEY, else the built-in model `offline`.",
        ]
    )


def _unknown_argument(
    parser: Parser, words: Sequence[str], unknown: Sequence[str]
) -> str:
    """Return the error message for an unknown argument.

    A misspelt command looks like an unquoted prompt of several words, so the message mentions both
    possibilities.
    """
    from difflib import get_close_matches

    prog = parser.prog
    option = next((word for word in unknown if word.startswith("-")), unknown[0])
    if prog == "foldline" and not words[0].startswith("-"):
        names = [*(command.name for command in COMMANDS), *SEPARATE]
        matches = get_close_matches(words[0], names, n=1)
        hint = f" Did you mean `foldline {matches[0]}`?" if matches else ""
        return f"{UNKNOWN_COMMAND.format(name=words[0])}{hint}"
    matches = get_close_matches(option, parser.option_strings(), n=1)
    hint = f"did you mean {matches[0]}?" if matches else SEE_HELP.format(prog=prog)
    if prog == "foldline run" and not option.startswith("-"):
        hint = QUOTE_PROMPT
    return UNKNOWN_ARGUMENT.format(argument=option, hint=hint)


# --- completion ------------------------------------------------------------------------------------------


def completion(shell: str) -> int:
    """Print a shell's completion script."""
    import shtab

    sys.stdout.write(shtab.complete(whole_parser(), shell))
    return 0


def whole_parser() -> ArgumentParser:
    """Return a single parser for the chat and all commands.

    It is used for completion and for the manual page.
    """
    import shtab

    root = ArgumentParser("foldline", description=DESCRIPTION)
    declare(root, None)
    for prompt in root._get_positional_actions():
        # The prompt would match every first word, so that no command would be completed.
        root._remove_action(prompt)
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    parsers = [root]
    for command in all_commands():
        sentence = command.sentence
        parser = commands.add_parser(
            command.name, help=sentence.rstrip("."), description=sentence
        )
        declare(parser, command)
        parsers.append(parser)
    for parser in parsers:
        for action in parser._actions:
            if str(action.metavar).startswith(("FILE", "PATH")):
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # read by shtab
    return root
