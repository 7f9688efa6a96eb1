"""Command lines: which commands there are, how one is parsed, and the arguments that several of them take.

Each command is declared beside its handler, by a function `NAME_command(parser)` of its module. What
the handler needs is imported when it runs: a help text waits for none of it.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar

STRATEGIES: Final = (
    "adaptive, summary, simple, hide, hide-then-summary, ladder, importance, semantic, hierarchical, digest"
)
"""The names of `compaction.BUILT_IN`, which would take too long to import for a help text."""

if TYPE_CHECKING:
    from foldline.agent.settings_schema import Amount

T = TypeVar("T")
Handler = Callable[..., int]
"""Takes a command's arguments by name; returns the exit code."""


class UsageError(Exception):
    """A command line that cannot be understood: exit code 2."""


class Parser(argparse.ArgumentParser):
    """Raises `UsageError` where `argparse` would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; `{self.prog} --help` shows what is possible.")

    def option_strings(self) -> list[str]:
        return list(self._option_string_actions)


class Command(NamedTuple):
    """A subcommand as `foldline --help` lists it, and the module that declares it."""

    name: str
    arguments: str
    summary: str
    module: str


COMMANDS: Final = (
    Command("run", "PROMPT", "one prompt without a screen, its answer on stdout", "run"),
    Command("open", "FILE|ID", "look at any session in the inspector, read-only", "screens"),
    Command("view", "FILE|ID", "what the model sees: the messages of a request", "view"),
    Command("history", "FILE|ID", "every entry of a session, and its state", "view"),
    Command("verify", "FILE|ID", "prove every request from the history", "checks"),
    Command("compact", "FILE|ID", "compact a session into a summary", "compact"),
    Command("audit", "FILE|ID", "the facts each compaction took out of the view", "checks"),
    Command("stats", "FILE|ID", "requests, tokens, tools and compactions of a session", "checks"),
    Command("eval", "FILE…", "compare strategies on recorded sessions", "eval"),
    Command("import", "FILE", "copy another agent's session, to continue it", "transfer"),
    Command("export", "FILE|ID", "write a session for others to read", "transfer"),
    Command("sessions", "", "the sessions of this folder", "sessions"),
    Command("search", "QUERY", "in which session something was said", "search"),
    Command("rename", "ID TITLE", "give a session another title", "sessions"),
    Command("fork", "ID", "continue from any entry in a new session", "sessions"),
    Command("archive", "ID…", "leave sessions out of the lists, or back", "sessions"),
    Command("delete", "ID…", "delete sessions for good, after a question", "sessions"),
    Command("doctor", "[FILE|ID…]", "check sessions or this installation", "doctor"),
    Command("demo", "", "look around in a recorded session with two compactions", "screens"),
    Command("serve", "", "the same screens in a browser on this machine", "serve"),
    Command("acp", "", "an agent for editors, by the Agent Client Protocol", "acp"),
    Command("config", "", "the settings in force, and where each was set", "config"),
)


class Invocation(NamedTuple):
    """A parsed command line."""

    handler: Handler
    options: dict[str, object]
    debug: bool
    log: str | None
    """The file that gets a record of each compaction."""

    def run(self) -> int:
        with _compactions_logged(self.log):
            return self.handler(**self.options)


@contextmanager
def _compactions_logged(path: str | None) -> Iterator[None]:
    """Appends each record of the log of compactions to this file, as a line of JSON."""
    if path is None:
        yield
        return
    import json
    import logging

    from foldline.history import typed_path

    class JsonLine(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            plain = vars(logging.makeLogRecord({}))
            fields = {name: value for name, value in vars(record).items() if name not in plain}
            at = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
            return json.dumps({"at": at, "message": record.getMessage(), **fields}, ensure_ascii=False)

    log = logging.getLogger("foldline.compaction")
    handler = logging.FileHandler(typed_path(path), encoding="utf-8")
    handler.setFormatter(JsonLine())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)
        handler.close()


def parse(arguments: Sequence[str]) -> Invocation:
    """Parse a command line. Its first word is a command, or the prompt of a chat.

    Raises:
        UsageError: it cannot be understood.
    """
    debug = arguments[:1] == ["--debug"]
    words = list(arguments[1:] if debug else arguments)
    command = next((command for command in COMMANDS if words and command.name == words[0]), None)
    if command is None:
        parser = Parser(
            prog="foldline",
            usage="foldline [PROMPT] [options]\n       foldline COMMAND [options]",
            description="A terminal coding agent for long sessions: see, steer and undo "
            "what the model still remembers.",
            epilog=_overview(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    else:
        words = words[1:]
        summary = f"{command.summary[0].upper()}{command.summary[1:]}."
        parser = Parser(prog=f"foldline {command.name}", description=summary, allow_abbrev=False)
    name, module = ("chat", "chat") if command is None else (command.name, command.module)
    handler: Handler = getattr(import_module(f".{module}", __package__), f"{name}_command")(parser)
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("--log", metavar="FILE", help="append a JSON line for each compaction to this file")
    known, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_not_understood(parser, words, unknown))
    options = vars(known)
    return Invocation(handler, options, bool(options.pop("debug")) or debug, options.pop("log"))


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


def _not_understood(parser: Parser, words: Sequence[str], unknown: Sequence[str]) -> str:
    """Names the stray word. A misspelt command looks like a prompt of several words: both are said."""
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


# --- types of arguments ------------------------------------------------------------------------------


def converted(convert: Callable[[str], T]) -> Callable[[str], T]:
    """The converter for `argparse`. It may raise a `ValueError` that says what is allowed."""

    def argument(text: str) -> T:
        try:
            return convert(text)
        except ValueError as allowed:
            raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}") from None

    return argument


def tokens_of(text: str) -> int:
    from foldline.agent.settings_schema import parse_tokens  # for whoever names a window

    return converted(parse_tokens)(text)


def amount_of(text: str) -> "Amount":
    from foldline.agent.settings_schema import parse_amount

    return converted(parse_amount)(text)


def window_of(text: str) -> int:
    from foldline.context.budget import SMALLEST_WINDOW

    window = tokens_of(text)
    if window < SMALLEST_WINDOW:
        raise argparse.ArgumentTypeError(f"{text} is too small: {SMALLEST_WINDOW:,} tokens at least")
    return window


def number_of(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def count_of(text: str) -> int:
    number = number_of(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def text_of(text: str) -> str:
    """The words as UTF-8, whatever the locale takes them for; other bytes are replaced."""
    return os.fsencode(text).decode("utf-8", "replace")


# --- arguments that several commands take -------------------------------------------------------------


def add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="FILE|ID",
        help="a session file or folder, the id of one of Foldline's sessions, or AGENT:ID of one that "
        "`foldline sessions --from AGENT` lists",
    )
    add_format(parser)


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        dest="format_name",
        metavar="NAME",
        help="read FILE as this format: foldline, qwen-code, claude-code, codex, pi, kimi-cli, klaude-code, "
        "gemini-cli, opencode, anthropic, openai",
    )


def add_json(parser: argparse.ArgumentParser, what: str = "the result as JSON") -> None:
    parser.add_argument("--json", dest="as_json", action="store_true", help=what)


def add_yes(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help=what)


def add_continue(parser: "argparse.ArgumentParser | argparse._MutuallyExclusiveGroup") -> None:
    what = "continue the last session here"
    parser.add_argument("-c", "--continue", dest="continues", action="store_true", help=what)


def add_model(parser: argparse.ArgumentParser) -> None:
    what = "MODEL, MODEL@PROVIDER, @PROVIDER or `offline`"
    parser.add_argument("-m", "--model", metavar="MODEL", help=what)


def add_window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--window", type=window_of, metavar="N", help="context window in tokens: 32k, 1M")


def add_strategy(parser: argparse.ArgumentParser) -> None:
    what = f"how to compact: {STRATEGIES}, or module:ClassName"
    parser.add_argument("--strategy", metavar="NAME", help=what)


def add_theme(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--theme", metavar="NAME", help="the colour theme")
