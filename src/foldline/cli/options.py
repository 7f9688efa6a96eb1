"""The options of each command, as `argparse` takes them: one function a command, named after it."""

import argparse
import os

from foldline.version import __version__


def _tokens(text: str) -> int:
    from foldline.agent.settings_schema import parse_tokens

    try:
        return parse_tokens(text)
    except ValueError as allowed:
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}") from None


def _amount(text: str) -> object:
    from foldline.agent.settings_schema import parse_amount

    try:
        return parse_amount(text)
    except ValueError as allowed:
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}") from None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _count(text: str) -> int:
    number = _number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def _text(text: str) -> str:
    """What was typed, as UTF-8, whatever the locale takes it for; bytes that are none are replaced."""
    return os.fsencode(text).decode("utf-8", "replace")


def _json(parser: argparse.ArgumentParser, what: str = "the result as JSON") -> None:
    parser.add_argument("--json", dest="as_json", action="store_true", help=what)


def _source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="FILE|ID",
        help="a session file or folder, the id of one of Foldline's sessions, or AGENT:ID of one that "
        "`foldline sessions --from AGENT` lists",
    )
    _format(parser)


def _format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        dest="format_name",
        metavar="NAME",
        help="read FILE as this format: foldline, qwen-code, claude-code, codex, pi, kimi-cli, klaude-code, "
        "gemini-cli, opencode, anthropic, openai",
    )


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", "--model", metavar="MODEL", help="MODEL, MODEL@PROVIDER, @PROVIDER or `offline`"
    )


def _size(text: str) -> int:
    from foldline.context.budget import SMALLEST_WINDOW

    window = _tokens(text)
    if window < SMALLEST_WINDOW:
        raise argparse.ArgumentTypeError(f"{text} is too small: {SMALLEST_WINDOW:,} tokens at least")
    return window


def _window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--window", type=_size, metavar="N", help="context window in tokens: 32k, 1M")


def chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", type=_text, nargs="?", metavar="PROMPT", help="the first prompt, in quotes")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--continue", dest="continues", action="store_true", help="continue the last session here"
    )
    which.add_argument(
        "-r", "--resume", nargs="?", const="", metavar="ID", help="resume a session; without ID, choose one"
    )
    _model(parser)
    _window(parser)
    _strategy(parser)
    parser.add_argument("--theme", metavar="NAME", help="the colour theme")
    parser.add_argument(
        "--plain", action="store_true", help="linear text without a screen, for screen readers and pipes"
    )
    parser.add_argument("--version", action="version", version=f"foldline {__version__}")


def run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prompt", type=_text, metavar="PROMPT", help="the prompt, in quotes; - reads it from stdin"
    )
    parser.add_argument("piped", nargs="?", metavar="-", help="what is piped in, sent below the prompt")
    parser.add_argument(
        "-c", "--continue", dest="continues", action="store_true", help="continue the last session here"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="run every tool call; without it, only those that just look"
    )
    parser.add_argument(
        "--max-steps", type=_count, metavar="N", help="stop after N requests to the model, with exit code 1"
    )
    _model(parser)
    _window(parser)
    _strategy(parser)
    _json(parser, "every event as a line of JSON")


def open_(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    parser.add_argument("--theme", metavar="NAME", help="the colour theme")


def view(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    moment = parser.add_mutually_exclusive_group()
    moment.add_argument("--at", type=_number, metavar="INDEX", help="as of this entry")
    moment.add_argument("--request", type=_number, metavar="N", help="as the N-th request sent it")
    _json(parser, "OpenAI messages and their provenance as JSON")


def history(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    _json(parser, "one JSON object a line, one line an entry")


def verify(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    _json(parser)


def _strategy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strategy", metavar="NAME", help=f"how to fold: {STRATEGIES}, or module:ClassName")


STRATEGIES = (
    "adaptive, summary, simple, hide, hide-then-summary, ladder, importance, semantic, hierarchical, digest"
)
"""The names of `compaction.BUILT_IN`, which would take too long to import for a help text."""


def compact(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    _strategy(parser)
    parser.add_argument("--focus", type=_text, metavar="TEXT", help="what the summary should keep above all")
    _window(parser)
    parser.add_argument(
        "--keep", type=_amount, metavar="N", help="newest work to keep verbatim: 8000, 8k, 20%% of the window"
    )
    parser.add_argument("--dry-run", action="store_true", help="only the plan; nothing is written")
    parser.add_argument("--out", metavar="FILE", help="write the folded session to this new file")
    _model(parser)
    _json(parser)


def audit(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    _json(parser)


def stats(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    _json(parser)


def eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="FILE|ID", help="recorded sessions of any format")
    _format(parser)
    parser.add_argument(
        "--strategies", type=_names, metavar="A,B", help="what is compared; all that comes along by default"
    )
    parser.add_argument(
        "--window", dest="windows", type=_windows, metavar="N,M", help="context windows in tokens: 32k,128k"
    )
    _model(parser)
    parser.add_argument(
        "--tokenizer", choices=("weights", "o200k"), default="weights", help="how tokens are counted"
    )
    parser.add_argument("--prices", metavar="MODEL", help="also in dollars, at this model's prices")
    parser.add_argument("--price-table", metavar="FILE.toml", help="another table of prices than ours")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw it to this new file")
    parser.add_argument("--judge", action="store_true", help="ask the model questions about what was folded")
    parser.add_argument("-y", "--yes", action="store_true", help="send what costs money without asking")
    _json(parser)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _windows(text: str) -> list[int]:
    return [_tokens(name) for name in _names(text)]


def import_(parser: argparse.ArgumentParser) -> None:
    _source(parser)
    _json(parser)


EXPORTS = ("openai", "kimi-cli", "pi", "markdown", "html", "foldline")
"""The names of `formats.writing.WRITTEN`, which would take too long to import for a help text."""


def export(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a session for another agent or for people. What is written shows the next model what this "
        "session's model sees now, and as much of the history before it as the format can hold."
    )
    _source(parser)
    parser.add_argument("--to", required=True, choices=EXPORTS, metavar="FORMAT", help=", ".join(EXPORTS))
    parser.add_argument(
        "--out",
        metavar="PATH",
        help="the new file, or the new folder for kimi-cli; without it, a single file goes to stdout",
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--view", action="store_true", help="only what the model sees now, and no history")
    extent.add_argument(
        "--whole", action="store_true", help="every message as it was said, as if nothing was ever folded"
    )
    parser.add_argument("--redact", action="store_true", help="replace what looks like a credential")
    _json(parser, "write to a file, and say what was written as JSON")


def sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-a", "--all", dest="everywhere", action="store_true", help="of all folders, not only this one"
    )
    parser.add_argument("--archived", action="store_true", help="those that were archived instead")
    parser.add_argument("--limit", type=_count, metavar="N", help="only the N last written ones")
    parser.add_argument(
        "--from",
        dest="agent",
        metavar="AGENT",
        help="those of another agent, in its own folders: claude-code, codex, pi, kimi-cli, klaude-code, "
        "qwen-code, gemini-cli, opencode, or all",
    )
    _json(parser)


def search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        type=_text,
        nargs="+",
        metavar="QUERY",
        help="words that stand in one entry, in any script; '\"several words\"' as they stand together",
    )
    parser.add_argument("--here", action="store_true", help="only in the sessions of this folder")
    parser.add_argument(
        "--kind",
        choices=("user", "assistant", "tool_result"),
        help="only what you said, what the model said and called, or what tools returned",
    )
    parser.add_argument("--limit", type=_count, metavar="N", help="the most sessions to list; 10 by default")
    _json(parser)


def rename(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help="the session: its id, or an end of it")
    parser.add_argument("title", type=_text, nargs="+", metavar="TITLE", help="what it is called from now on")
    _json(parser)


def archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help="the sessions: their ids, or ends of them")
    parser.add_argument("--back", action="store_true", help="list them again")
    _json(parser)


def delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help="the sessions: their ids, or ends of them")
    parser.add_argument("-y", "--yes", action="store_true", help="delete them without asking")
    _json(parser)


def fork(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help="the session: its id, or an end of it")
    parser.add_argument(
        "--at", type=_number, metavar="INDEX", help="the last entry that comes along; all by default"
    )
    _json(parser)


def doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="*", metavar="FILE|ID", help="sessions; without any, this installation is looked at"
    )
    parser.add_argument(
        "--repair", dest="repairs", action="store_true", help="set it right; what was there is kept beside it"
    )
    parser.add_argument("--network", action="store_true", help="also send the model a short request")
    _json(parser)


def serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen; by default, on this machine"
    )
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="8000; 0 is any that is free")
    parser.add_argument(
        "--expose", action="store_true", help="let other machines in: whoever has the address acts as you"
    )
    parser.add_argument(
        "-c", "--continue", dest="continues", action="store_true", help="continue the last session here"
    )
    _model(parser)
    _window(parser)
    _strategy(parser)
    parser.add_argument("--theme", metavar="NAME", help="the colour theme")


def _port(text: str) -> int:
    port = _number(text)
    if not 0 <= port <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return port


def config(parser: argparse.ArgumentParser) -> None:
    _json(parser)


def demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--theme", metavar="NAME", help="the colour theme")
