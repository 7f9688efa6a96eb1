"""The commands of the command line: what each takes, and the function that carries it out.

A function is imported when it runs: a help text waits for none of what it needs.
"""

import argparse
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Final, NamedTuple, NoReturn

from foldline.version import __version__

from .arguments import (
    UsageError,
    add_asked,
    add_continue,
    add_flag,
    add_format,
    add_json,
    add_model,
    add_source,
    add_theme,
    add_yes,
    amount_of,
    count_of,
    limit_of,
    names_of,
    number_of,
    text_of,
    windows_of,
)

DESCRIPTION: Final = (
    "A terminal coding agent for long sessions: see, steer and undo what the model still remembers."
)


class Parser(ArgumentParser):
    """Raises `UsageError` where `argparse` would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')}; `{self.prog} --help` shows what is possible.")

    def option_strings(self) -> list[str]:
        return list(self._option_string_actions)


# --- what each command takes --------------------------------------------------------------------------


def _chat(parser: ArgumentParser) -> None:
    parser.add_argument(
        "prompt", type=text_of, nargs="?", metavar="PROMPT", help="the first prompt, in quotes"
    )
    which = parser.add_mutually_exclusive_group()
    add_continue(which)
    which.add_argument(
        "-r", "--resume", nargs="?", const="", metavar="ID", help="resume a session; without ID, choose one"
    )
    add_asked(parser)
    add_theme(parser)
    add_flag(parser, "--plain", "linear text without a screen, for screen readers and pipes")
    parser.add_argument("--version", action="version", version=f"foldline {__version__}")


def _run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "prompt", type=text_of, metavar="PROMPT", help="the prompt, in quotes; - reads it from stdin"
    )
    parser.add_argument("piped", nargs="?", metavar="-", help="what is piped in, sent below the prompt")
    add_continue(parser)
    add_yes(parser, "run every tool call; without it, only those that just look")
    add_flag(parser, "--trust", "agree to what this folder brings: settings, instructions, skills, hooks")
    add_flag(parser, "--plan", "let it make a plan, which is printed, and change nothing")
    parser.add_argument(
        "--answers",
        metavar="FILE",
        help="answers to the model's questions, a line each: a choice's number, or other words",
    )
    parser.add_argument(
        "--max-steps",
        type=count_of,
        metavar="N",
        help="limits.turn_steps: stop after N requests to the model, with exit code 3",
    )
    parser.add_argument(
        "--limit",
        action="append",
        type=limit_of,
        metavar="NAME=N",
        default=[],
        help="another bound of [limits], as in turn_cost=25 or turn_tokens=50M; 0 takes it away",
    )
    add_asked(parser)
    add_json(parser, "every event as a line of JSON")


def _source(parser: ArgumentParser) -> None:
    add_source(parser)
    add_json(parser)


def _open(parser: ArgumentParser) -> None:
    add_source(parser)
    add_theme(parser)


def _view(parser: ArgumentParser) -> None:
    add_source(parser)
    moment = parser.add_mutually_exclusive_group()
    moment.add_argument("--at", type=number_of, metavar="INDEX", help="as of this entry")
    moment.add_argument("--request", type=number_of, metavar="N", help="as the N-th request sent it")
    add_json(parser, "OpenAI messages and their provenance as JSON")


def _history(parser: ArgumentParser) -> None:
    add_source(parser)
    add_json(parser, "one JSON object a line, one line an entry")


def _compact(parser: ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument(
        "--focus", type=text_of, metavar="TEXT", help="what the summary should keep above all"
    )
    parser.add_argument(
        "--keep",
        type=amount_of,
        metavar="N",
        help="newest work to keep verbatim: 8000, 8k, 20%% of the window",
    )
    add_flag(parser, "--dry-run", "only the plan; nothing is written")
    parser.add_argument("--out", metavar="FILE", help="write the compacted session to this new file")
    add_asked(parser)
    add_json(parser)


def _stats(parser: ArgumentParser) -> None:
    add_source(parser)
    add_flag(parser, "--cache", "requests of which the provider's cache had less than it should")
    add_json(parser)


def _eval(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="FILE|ID|FOLDER", help="recorded sessions of any format"
    )
    add_format(parser)
    parser.add_argument(
        "--strategies", type=names_of, metavar="A,B", help="what is compared; all that comes along by default"
    )
    parser.add_argument(
        "--window", dest="windows", type=windows_of, metavar="N,M", help="context windows in tokens: 32k,128k"
    )
    add_model(parser)
    parser.add_argument(
        "--tokenizer", choices=("weights", "o200k"), default="weights", help="how tokens are counted"
    )
    parser.add_argument("--prices", metavar="MODEL", help="also in dollars, at this model's prices")
    add_flag(parser, "--judge", "ask the model questions about what was compacted")
    parser.add_argument("--jobs", type=int, metavar="N", help="measure many sessions in so many processes")
    parser.add_argument(
        "--results", metavar="FILE.jsonl", help="a line a session; what is in it is not measured again"
    )
    add_yes(parser, "send what costs money without asking")
    add_json(parser)


EXPORTS: Final = ("openai", "markdown", "html", "foldline")
"""The names of `formats.export.WRITTEN`, in the order of the help."""


def _export_name(text: str) -> str:
    if text in HANDOFFS:
        from foldline.formats.export import handed_over

        raise ArgumentTypeError(handed_over(text).rstrip("."))
    return text


def _export(parser: ArgumentParser) -> None:
    parser.description = (
        "Write a session for people or programs to read. What is written shows what this session's "
        "model sees now, and as much of the history before it as the format can hold."
    )
    add_source(parser)
    names = ", ".join(EXPORTS)
    parser.add_argument(
        "--to", required=True, type=_export_name, choices=EXPORTS, metavar="FORMAT", help=names
    )
    what = "the new file; without it, the session goes to stdout"
    parser.add_argument("--out", metavar="PATH", help=what)
    extent = parser.add_mutually_exclusive_group()
    add_flag(extent, "--view", "only what the model sees now, and no history")
    add_flag(extent, "--whole", "every message as it was said, as if nothing was ever compacted")
    add_flag(parser, "--redact", "replace what looks like a credential")
    add_json(parser, "write to a file, and say what was written as JSON")


HANDOFFS: Final = ("claude-code", "codex", "pi", "kimi-cli", "copilot", "opencode")
"""The agents of `formats.handoff.RESUMED_BY`, in the order of the help."""


def _handoff(parser: ArgumentParser) -> None:
    parser.description = (
        "Go on with a session in another agent: what its model sees now is written as a new session of that "
        "agent, where it looks for them. Prints the command that resumes it."
    )
    add_source(parser)
    parser.add_argument("--to", required=True, choices=HANDOFFS, metavar="AGENT", help=", ".join(HANDOFFS))
    add_flag(parser, "--redact", "replace what looks like a credential")
    add_json(parser)


def _sessions(parser: ArgumentParser) -> None:
    add_flag(parser, "-a", "--all", "of all folders, not only this one", dest="everywhere")
    add_flag(parser, "--archived", "those that were archived instead")
    parser.add_argument("--limit", type=count_of, metavar="N", help="only the N last written ones")
    parser.add_argument(
        "--from",
        dest="agent",
        metavar="AGENT",
        help="those of another agent, in its own folders: claude-code, codex, pi, kimi-cli, klaude-code, "
        "qwen-code, gemini-cli, opencode, copilot, mistral-vibe, or all",
    )
    add_json(parser)


def _search(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        type=text_of,
        nargs="+",
        metavar="QUERY",
        help="words that stand in one entry, in any script; '\"several words\"' as they stand together",
    )
    add_flag(parser, "--here", "only in the sessions of this folder")
    parser.add_argument(
        "--kind",
        choices=("user", "assistant", "tool_result"),
        help="only what you said, what the model said and called, or what tools returned",
    )
    parser.add_argument(
        "--limit", type=count_of, metavar="N", help="the most sessions to list; 10 by default"
    )
    add_json(parser)


def _rename(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help="the session: its id, or an end of it")
    parser.add_argument(
        "title", type=text_of, nargs="+", metavar="TITLE", help="what it is called from now on"
    )
    add_json(parser)


def _fork(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help="the session: its id, or an end of it")
    parser.add_argument(
        "--at", type=number_of, metavar="INDEX", help="the last entry that comes along; all by default"
    )
    add_json(parser)


def _archive(parser: ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help="the sessions: their ids, or ends of them")
    add_flag(parser, "--back", "list them again")
    add_json(parser)


def _delete(parser: ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help="the sessions: their ids, or ends of them")
    add_yes(parser, "delete them without asking")
    add_json(parser)


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="*", metavar="FILE|ID", help="sessions; without any, this installation is looked at"
    )
    add_flag(parser, "--repair", "set it right; what was there is kept beside it", dest="repairs")
    add_flag(parser, "--network", "also send the model a short request")
    add_json(parser)


def _config(parser: ArgumentParser) -> None:
    add_json(parser)
    add_flag(parser, "--schema", "the JSON schema of the settings, by which editors complete and check TOML")


def _mcp(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("login", "logout"), help="login opens a page in the browser")
    parser.add_argument("name", metavar="NAME", help="the server, as it is called in config.toml")


SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")


class Command(NamedTuple):
    """A subcommand as `foldline --help` lists it."""

    name: str
    arguments: str
    summary: str
    handler: str
    """`MODULE:FUNCTION` below this package. It takes the arguments by name, and gives the exit code."""
    declare: Callable[[ArgumentParser], None]
    """Adds the arguments to a parser."""

    @property
    def sentence(self) -> str:
        return f"{self.summary[0].upper()}{self.summary[1:]}."


COMMANDS: Final = (
    Command("run", "PROMPT", "one prompt without a screen, its answer on stdout", "run:run", _run),
    Command(
        "open", "FILE|ID", "look at any session in the inspector, read-only", "screens:open_session", _open
    ),
    Command("view", "FILE|ID", "what the model sees: the messages of a request", "view:view", _view),
    Command("history", "FILE|ID", "every entry of a session, and its state", "view:history", _history),
    Command("verify", "FILE|ID", "prove every request from the history", "checks:verify", _source),
    Command("compact", "FILE|ID", "compact a session into a summary", "compact:compact", _compact),
    Command(
        "audit", "FILE|ID", "the facts each compaction took out of the view", "checks:show_audit", _source
    ),
    Command(
        "stats", "FILE|ID", "requests, tokens, tools and compactions of a session", "stats:stats", _stats
    ),
    Command("eval", "FILE…", "compare strategies on recorded sessions", "eval:evaluate", _eval),
    Command(
        "import", "FILE", "copy another agent's session, to continue it", "transfer:import_session", _source
    ),
    Command("export", "FILE|ID", "write a session for others to read", "transfer:export", _export),
    Command("handoff", "FILE|ID", "go on with a session in another agent", "transfer:handoff", _handoff),
    Command("sessions", "", "the sessions of this folder", "sessions:sessions", _sessions),
    Command("search", "QUERY", "in which session something was said", "search:search", _search),
    Command("rename", "ID TITLE", "give a session another title", "sessions:rename", _rename),
    Command("fork", "ID", "continue from any entry in a new session", "sessions:fork", _fork),
    Command(
        "archive", "ID…", "leave sessions out of the lists, or back", "sessions:archive_sessions", _archive
    ),
    Command(
        "delete", "ID…", "delete sessions for good, after a question", "sessions:delete_sessions", _delete
    ),
    Command("doctor", "[FILE|ID…]", "check sessions or this installation", "doctor:doctor", _doctor),
    Command("demo", "", "look around in a recorded session with two compactions", "screens:demo", add_theme),
    Command("acp", "", "an agent for editors, by the Agent Client Protocol", "acp:acp", add_asked),
    Command("mcp", "ACTION NAME", "sign in to a tool server, or out", "tool_servers:sign", _mcp),
    Command("config", "", "the settings in force, and where each was set", "config:config", _config),
    Command(
        "completion",
        "SHELL",
        "what a shell needs to complete these commands",
        "commands:completion",
        _completion,
    ),
)

# --- a command line -----------------------------------------------------------------------------------


class Invocation(NamedTuple):
    """A parsed command line."""

    handler: str
    """As of a `Command`."""
    options: dict[str, object]
    debug: bool
    log: str | None
    """The file that gets a record of each compaction."""

    def run(self) -> int:
        module, _, function = self.handler.partition(":")
        handler: Callable[..., int] = getattr(import_module(f".{module}", __package__), function)
        with _compactions_logged(self.log):
            return handler(**self.options)


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
    try:
        handler = logging.FileHandler(typed_path(path), encoding="utf-8")
    except OSError as error:
        from foldline.protocol import FoldlineError, system_words

        raise FoldlineError(f"--log: {path} cannot be written: {system_words(error)}.") from None
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
            description=DESCRIPTION,
            epilog=_overview(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    else:
        words = words[1:]
        parser = Parser(prog=f"foldline {command.name}", description=command.sentence, allow_abbrev=False)
    declare(parser, command)
    known, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(_not_understood(parser, words, unknown))
    options = vars(known)
    handler = "chat:chat" if command is None else command.handler
    return Invocation(handler, options, bool(options.pop("debug")) or debug, options.pop("log"))


def declare(parser: ArgumentParser, command: Command | None) -> None:
    """Adds all that may stand behind a command, or, where it is None, behind `foldline` alone."""
    (_chat if command is None else command.declare)(parser)
    add_flag(parser, "--debug", "show tracebacks of errors")
    parser.add_argument("--log", metavar="FILE", help="append a JSON line for each compaction to this file")


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


# --- all of it -------------------------------------------------------------------------------------------


def completion(shell: str) -> int:
    """Writes what a shell needs to complete the command line."""
    import shtab

    sys.stdout.write(shtab.complete(whole_parser(), shell))
    return 0


def whole_parser() -> ArgumentParser:
    """The chat and all commands in one parser, for completion and the manual page."""
    import shtab

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
