"""Arguments shared by several commands, and converters for arguments."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

EMPTY_PROMPT = "The prompt is empty, so nothing was sent."
NEEDS_PIPES = (
    "`foldline acp` must be started by an editor, with pipes as stdin and stdout."
)
QUOTE_PROMPT = "put a prompt of several words in quotes."
UNKNOWN_ARGUMENT = "Unknown argument {argument!r}: {hint}"
NOT_ALLOWED = "{text!r} is not {allowed}"
SMALL_WINDOW = "{text} is too small: the minimum is {least:,} tokens"
LIMIT_FORM = "must have the form NAME=N, such as turn_cost=25"
STRATEGIES = (
    "adaptive, summary, simple, hide, hide-then-summary, ladder, "
    "importance, semantic, hierarchical, digest"
)
"""The names in `compaction.BUILT_IN`.

They are repeated here because importing that module would slow down `--help`.
"""

if TYPE_CHECKING:
    from foldline.agent.settings.amounts import Amount

T = TypeVar("T")
Arguments = argparse.ArgumentParser | argparse._MutuallyExclusiveGroup


class UsageError(Exception):
    """Raised if the command line is invalid."""

    exit_code = 2


# --- types of arguments ------------------------------------------------------------------------------


def converted(convert: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap a converter, so that `argparse` reports its errors.

    Args:
        convert: converts the argument, or raises `ValueError` with a description of the allowed values.
    """

    def argument(text: str) -> T:
        try:
            return convert(text)
        except ValueError as allowed:
            raise argparse.ArgumentTypeError(
                NOT_ALLOWED.format(text=text, allowed=allowed)
            ) from None

    return argument


def tokens_of(text: str) -> int:
    from foldline.agent.settings.amounts import parse_tokens  # slow to import

    return converted(parse_tokens)(text)


def amount_of(text: str) -> "Amount":
    from foldline.agent.settings.amounts import parse_amount

    return converted(parse_amount)(text)


def window_of(text: str) -> int:
    from foldline.view.budget import SMALLEST_WINDOW

    window = tokens_of(text)
    if window < SMALLEST_WINDOW:
        raise argparse.ArgumentTypeError(
            SMALL_WINDOW.format(text=text, least=SMALLEST_WINDOW)
        )
    return window


def number_of(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            NOT_ALLOWED.format(text=text, allowed="a whole number")
        ) from None


def count_of(text: str) -> int:
    number = number_of(text)
    if number < 1:
        raise argparse.ArgumentTypeError(
            NOT_ALLOWED.format(text=text, allowed="a positive number")
        )
    return number


def limit_of(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(LIMIT_FORM)
    return name.strip(), value.strip()


def names_of(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def windows_of(text: str) -> list[int]:
    return [tokens_of(name) for name in names_of(text)]


def text_of(text: str) -> str:
    """Decode an argument as UTF-8, regardless of the locale."""
    return os.fsencode(text).decode("utf-8", "replace")


# --- arguments that several commands take -------------------------------------------------------------


def add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="FILE|ID",
        help="a session file or folder, the id of a Foldline session, or AGENT:ID as listed by "
        "`foldline sessions --from AGENT`; add /CHILD for one of its subagents",
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
    """Add a flag.

    The last positional argument is the flag's help text; the others are its names.
    """
    *names, help_text = names_and_help
    parser.add_argument(*names, dest=dest, action="store_true", help=help_text)


def add_json(parser: Arguments, help_text: str = "print the result as JSON") -> None:
    add_flag(parser, "--json", help_text, dest="as_json")


def add_yes(parser: Arguments, help_text: str) -> None:
    add_flag(parser, "-y", "--yes", help_text)


def add_continue(parser: Arguments) -> None:
    add_flag(
        parser,
        "-c",
        "--continue",
        "continue the last session in this folder",
        dest="continues",
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for model, window and compaction strategy."""
    add_model(parser)
    parser.add_argument(
        "--window",
        type=window_of,
        metavar="N",
        help="context window in tokens, such as 32k or 1M",
    )
    help_text = f"compaction strategy: {STRATEGIES}, or module:ClassName"
    parser.add_argument("--strategy", metavar="NAME", help=help_text)


def add_model(parser: argparse.ArgumentParser) -> None:
    help_text = "model to use: MODEL, MODEL@PROVIDER, @PROVIDER or `offline`"
    parser.add_argument("-m", "--model", metavar="MODEL", help=help_text)


def add_theme(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--theme", metavar="NAME", help="colour theme to use")
