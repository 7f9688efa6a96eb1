"""The arguments that several commands take, and the types of arguments."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

STRATEGIES: Final = (
    "adaptive, summary, simple, hide, hide-then-summary, ladder, importance, semantic, hierarchical, digest"
)
"""The names of `compaction.BUILT_IN`, which would take too long to import for a help text."""

if TYPE_CHECKING:
    from foldline.agent.settings_schema import Amount

T = TypeVar("T")
Arguments = argparse.ArgumentParser | argparse._MutuallyExclusiveGroup


class UsageError(Exception):
    """A command line that cannot be understood."""

    exit_code = 2


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


def limit_of(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError("NAME=N is wanted, as in turn_cost=25")
    return name.strip(), value.strip()


def names_of(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def windows_of(text: str) -> list[int]:
    return [tokens_of(name) for name in names_of(text)]


def text_of(text: str) -> str:
    """The words as UTF-8, whatever the locale takes them for; other bytes are replaced."""
    return os.fsencode(text).decode("utf-8", "replace")


# --- arguments that several commands take -------------------------------------------------------------


def add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="FILE|ID",
        help="a session file or folder, the id of one of Foldline's sessions, or AGENT:ID of one that "
        "`foldline sessions --from AGENT` lists; any of them with /CHILD behind it is one of its subagents",
    )
    add_format(parser)


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        dest="format_name",
        metavar="NAME",
        help="read FILE as this format: foldline, qwen-code, claude-code, codex, pi, kimi-cli, klaude-code, "
        "gemini-cli, opencode, copilot, mistral-vibe, anthropic, openai",
    )


def add_flag(parser: Arguments, *names_and_help: str, dest: str | None = None) -> None:
    """An option that is given or not: its names, then what it means."""
    *names, what = names_and_help
    parser.add_argument(*names, dest=dest, action="store_true", help=what)


def add_json(parser: Arguments, what: str = "the result as JSON") -> None:
    add_flag(parser, "--json", what, dest="as_json")


def add_yes(parser: Arguments, what: str) -> None:
    add_flag(parser, "-y", "--yes", what)


def add_continue(parser: Arguments) -> None:
    add_flag(parser, "-c", "--continue", "continue the last session here", dest="continues")


def add_asked(parser: argparse.ArgumentParser) -> None:
    """Who is asked, and how that is compacted."""
    add_model(parser)
    parser.add_argument("--window", type=window_of, metavar="N", help="context window in tokens: 32k, 1M")
    what = f"how to compact: {STRATEGIES}, or module:ClassName"
    parser.add_argument("--strategy", metavar="NAME", help=what)


def add_model(parser: argparse.ArgumentParser) -> None:
    what = "MODEL, MODEL@PROVIDER, @PROVIDER or `offline`"
    parser.add_argument("-m", "--model", metavar="MODEL", help=what)


def add_theme(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--theme", metavar="NAME", help="the colour theme")
