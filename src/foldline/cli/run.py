"""`foldline run`: one prompt without a screen. Progress is sentences, or events as lines of JSON."""

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .arguments import (
    Handler,
    UsageError,
    add_continue,
    add_json,
    add_model,
    add_strategy,
    add_window,
    add_yes,
    count_of,
    text_of,
)

STDIN: Final = "-"
"""Stands for what is piped in: as the prompt, or behind it as what it is about."""
MOST_PIPED = 32 * 1024 * 1024
"""Bytes: more than the largest windows hold (two million tokens, of some ten bytes each)."""


def run_command(parser: ArgumentParser) -> Handler:
    parser.add_argument(
        "prompt", type=text_of, metavar="PROMPT", help="the prompt, in quotes; - reads it from stdin"
    )
    parser.add_argument("piped", nargs="?", metavar="-", help="what is piped in, sent below the prompt")
    add_continue(parser)
    add_yes(parser, "run every tool call; without it, only those that just look")
    parser.add_argument(
        "--trust", action="store_true", help="agree to the settings and instruction files of this folder"
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
        type=_limit_of,
        metavar="NAME=N",
        default=[],
        help="another bound of [limits], as in turn_cost=25 or turn_tokens=50M; 0 takes it away",
    )
    add_model(parser)
    add_window(parser)
    add_strategy(parser)
    add_json(parser, "every event as a line of JSON")
    return run


def run(
    prompt: str,
    piped: str | None,
    continues: bool,
    yes: bool,
    trust: bool,
    max_steps: int | None,
    limit: Sequence[tuple[str, str]],
    model: str | None,
    window: int | None,
    strategy: str | None,
    as_json: bool,
) -> int:
    from foldline.termination import run_async

    from .agents import Refused, chosen_session, claimed, settings_here
    from .output import note
    from .resume import instead
    from .run_progress import JsonLines, Sentences, answer_prompt

    text = _prompt(prompt, piped)
    if trust:
        from foldline.agent.trust import brought, decide

        decide(brought(Path.cwd()), "agreed")
    limits: dict[str, Any] = {"limits__turn_steps": max_steps}
    limits |= {f"limits__{name}": value for name, value in limit}
    # Nobody watches the embedded model write, so it need not be slow.
    settings = settings_here(
        model=model,
        context__window=window,
        compaction__strategy=strategy,
        **limits,
        offline__pace=0,
    )
    try:
        session = chosen_session(continues, None)
    except Refused as refused:
        if as_json or STDIN in (prompt, piped):
            raise  # a program is not asked
        end = instead(refused)
        if isinstance(end, int):
            return end
        session = claimed(end, refused.folder)
    if session.moved_from:
        note(f"the session {session.id} was held in {session.moved_from}; it continues in {session.cwd}.")
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    reporter = JsonLines() if as_json else Sentences()
    return run_async(answer_prompt(session, settings, text, yes=yes, reporter=reporter))


def _limit_of(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise ArgumentTypeError("NAME=N is wanted, as in turn_cost=25")
    return name.strip(), value.strip()


def _prompt(prompt: str, piped: str | None) -> str:
    """The text to send. `PROMPT -` puts what is piped in below the prompt, marked as such."""
    from foldline.context.conversation import with_piped

    if piped not in (None, STDIN):
        raise UsageError(f"{piped!r} is not understood: a prompt of several words goes in quotes.")
    if prompt == STDIN and piped is not None:
        raise UsageError("What is piped in can be the prompt or stand behind one: `-` counts once.")
    given = _stdin() if STDIN in (prompt, piped) else ""
    text = given if prompt == STDIN else prompt
    if not text.strip():
        raise UsageError("The prompt is empty: nothing was sent.")
    return text if piped is None else with_piped(text, given)


def _stdin() -> str:
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise UsageError("More than 32 MB were piped in: no model holds that. Nothing was sent.")
    return data.decode("utf-8", "replace")
