"""Declares the arguments of each command."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Final

from foldline.version import __version__

from .arguments import (
    add_continue,
    add_flag,
    add_json,
    add_model_options,
    add_source,
    add_theme,
    add_yes,
    amount_of,
    count_of,
    limit_of,
    number_of,
    text_of,
)


def declare_chat(parser: ArgumentParser) -> None:
    parser.add_argument(
        "prompt",
        type=text_of,
        nargs="?",
        metavar="PROMPT",
        help="the first prompt, in quotes",
    )
    session = parser.add_mutually_exclusive_group()
    add_continue(session)
    session.add_argument(
        "-r",
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="resume a session; without ID, list them first",
    )
    add_model_options(parser)
    add_theme(parser)
    add_flag(parser, "--plain", "chat in lines of text, for screen readers and pipes")
    parser.add_argument(
        "--version", action="version", version=f"foldline {__version__}"
    )


def declare_run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "prompt",
        type=text_of,
        metavar="PROMPT",
        help="the prompt, in quotes, or - to read it from stdin",
    )
    parser.add_argument(
        "piped", nargs="?", metavar="-", help="append stdin to the prompt"
    )
    add_continue(parser)
    add_yes(parser, "allow all tool calls; by default, only reading is allowed")
    add_flag(
        parser,
        "--trust",
        "trust this folder's settings, instructions, skills and hooks",
    )
    add_flag(parser, "--plan", "only make and print a plan; change nothing")
    parser.add_argument(
        "--answers",
        metavar="FILE",
        help="answers to the model's questions, one per line: the number of a choice, or text",
    )
    parser.add_argument(
        "--max-steps",
        type=count_of,
        metavar="N",
        help="stop after N requests to the model, with exit code 3 (sets limits.turn_steps)",
    )
    parser.add_argument(
        "--limit",
        action="append",
        type=limit_of,
        metavar="NAME=N",
        default=[],
        help="set any limit of [limits], such as turn_cost=25 or turn_tokens=50M; 0 removes it",
    )
    add_model_options(parser)
    add_json(parser, "print one JSON object per event")


def declare_source(parser: ArgumentParser) -> None:
    add_source(parser)
    add_json(parser)


def declare_open(parser: ArgumentParser) -> None:
    add_source(parser)
    add_theme(parser)


def declare_view(parser: ArgumentParser) -> None:
    add_source(parser)
    moment = parser.add_mutually_exclusive_group()
    moment.add_argument(
        "--at", type=number_of, metavar="INDEX", help="show the view after this entry"
    )
    moment.add_argument(
        "--request",
        type=number_of,
        metavar="N",
        help="show the view that request N sent",
    )
    add_json(parser, "print OpenAI messages and their provenance as JSON")


def declare_history(parser: ArgumentParser) -> None:
    add_source(parser)
    add_json(parser, "print one JSON object per entry")


def declare_compact(parser: ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument(
        "--focus",
        type=text_of,
        metavar="TEXT",
        help="the topic that matters most in the summary",
    )
    parser.add_argument(
        "--keep",
        type=amount_of,
        metavar="N",
        help="how much of the newest work to keep verbatim: 8000, 8k or 20%% of the window",
    )
    add_flag(parser, "--dry-run", "only show the plan; write nothing")
    parser.add_argument(
        "--out", metavar="FILE", help="write the compacted session to this new file"
    )
    add_model_options(parser)
    add_json(parser)


def declare_stats(parser: ArgumentParser) -> None:
    add_source(parser)
    add_flag(parser, "--cache", "list requests that missed the provider's cache")
    add_json(parser)


EXPORTS: Final = ("openai", "markdown", "html", "foldline")
"""The names in `formats.export.WRITTEN`, in the order of the help text."""


def _export_name(text: str) -> str:
    if text in HANDOFFS:
        from foldline.formats.export import handed_over

        raise ArgumentTypeError(handed_over(text).rstrip("."))
    return text


def declare_export(parser: ArgumentParser) -> None:
    parser.description = (
        "Write a session for people or programs to read: the model's current view, and as much of the "
        "history as the format can hold."
    )
    add_source(parser)
    names = f"format to write: {', '.join(EXPORTS)}"
    parser.add_argument(
        "--to",
        required=True,
        type=_export_name,
        choices=EXPORTS,
        metavar="FORMAT",
        help=names,
    )
    parser.add_argument("--out", metavar="PATH", help="the new file; stdout by default")
    extent = parser.add_mutually_exclusive_group()
    add_flag(extent, "--view", "only the model's current view, no history")
    add_flag(extent, "--whole", "every message in full, without compactions")
    _add_redact(parser)
    add_json(parser, "write to a file, and print its path and the notes as JSON")


HANDOFFS: Final = ("claude-code", "codex", "pi", "kimi-cli", "copilot", "opencode")
"""The agents in `formats.handoff.RESUMED_BY`, in the order of the help text."""


def declare_handoff(parser: ArgumentParser) -> None:
    parser.description = (
        "Continue a session in another agent: the model's current view becomes a new session in that "
        "agent's folder. Prints the command that resumes it."
    )
    add_source(parser)
    parser.add_argument(
        "--to",
        required=True,
        choices=HANDOFFS,
        metavar="AGENT",
        help=f"agent to continue in: {', '.join(HANDOFFS)}",
    )
    _add_redact(parser)
    add_json(parser)


def _add_redact(parser: ArgumentParser) -> None:
    add_flag(parser, "--redact", "replace text that looks like a credential")


def declare_sessions(parser: ArgumentParser) -> None:
    add_flag(
        parser, "-a", "--all", "list the sessions of all folders", dest="everywhere"
    )
    add_flag(parser, "--archived", "list archived sessions")
    parser.add_argument(
        "--limit", type=count_of, metavar="N", help="list only the N newest sessions"
    )
    parser.add_argument(
        "--from",
        dest="agent",
        metavar="AGENT",
        help="sessions of another agent: claude-code, codex, pi, kimi-cli, klaude-code, "
        "qwen-code, gemini-cli, opencode, copilot, mistral-vibe, or all",
    )
    add_json(parser)


def declare_search(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        type=text_of,
        nargs="+",
        metavar="QUERY",
        help="words that must occur in one entry; quote a phrase: '\"several words\"'",
    )
    add_flag(parser, "--here", "search only the sessions of this folder")
    parser.add_argument(
        "--kind",
        choices=("user", "assistant", "tool_result"),
        help="search only your prompts, the model's answers and calls, or tool results",
    )
    parser.add_argument(
        "--limit",
        type=count_of,
        metavar="N",
        help="list at most N sessions; 10 by default",
    )
    add_json(parser)


_SESSION_ID = "session id, or the beginning or end of one"


def declare_rename(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help=_SESSION_ID)
    parser.add_argument(
        "title", type=text_of, nargs="+", metavar="TITLE", help="the new title"
    )
    add_json(parser)


def declare_fork(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="ID", help=_SESSION_ID)
    parser.add_argument(
        "--at",
        type=number_of,
        metavar="INDEX",
        help="the last entry to copy; the newest by default",
    )
    add_json(parser)


def declare_archive(parser: ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help=_SESSION_ID)
    add_flag(parser, "--back", "restore archived sessions")
    add_json(parser)


def declare_delete(parser: ArgumentParser) -> None:
    parser.add_argument("sources", nargs="+", metavar="ID", help=_SESSION_ID)
    add_yes(parser, "do not ask for confirmation")
    add_json(parser)


def declare_doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="FILE|ID",
        help="sessions to check; without any, checks the installation",
    )
    add_flag(
        parser,
        "--repair",
        "repair what is damaged; the original is kept as a backup",
        dest="repairs",
    )
    add_flag(parser, "--network", "also send the model a short test request")
    add_json(parser)


def declare_config(parser: ArgumentParser) -> None:
    add_json(parser)
    add_flag(
        parser,
        "--schema",
        "print the JSON schema of the settings, for editors that check TOML",
    )


def declare_mcp(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("login", "logout"), help="login opens a browser page"
    )
    parser.add_argument("name", metavar="NAME", help="the server's name in config.toml")


SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")


def declare_completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that runs the script")
