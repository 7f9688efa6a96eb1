"""Detects a turn that repeats the same steps."""

import hashlib
from collections.abc import Sequence
from itertools import islice

from foldline.agent.permissions.approvals import Choices
from foldline.agent.session.limits import Bounds
from foldline.agent.session.toolset import Toolset
from foldline.history import Session
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    ToolCallPart,
    ToolResultMessage,
    text_parts,
)
from foldline.protocol.events import Option
from foldline.text.harmless import with_signs

LOOP_ADVICE = "Try a different approach, or say what is blocking you."
REPEATS = "made {steps} {times} times in a row, each time with the same result"
SAME_CALL = "the same call ({names})"
SAME_STEPS = "the same {length} steps ({names} last)"
STOPPED = "Stopped: the model {repeats}."
STOPPED_BY_USER = "Stopped by you: the model {repeats}. /retry continues."
_OPTIONS = (
    Option(key="g", label="Continue"),
    Option(key="t", label="Tell the model, and continue"),
    Option(key="s", label="Stop"),
)
_LONGEST_CYCLE = 3
"""Maximum number of steps in a cycle; longer cycles are not detected.

A model may, for example, repeat `read`, `edit` and a test.
"""


class LoopWatch:
    """Detects cycles of up to three steps with the same calls and the same results."""

    def __init__(self, tools: Toolset, bounds: Bounds, choices: Choices) -> None:
        self._tools = tools
        self._bounds = bounds
        self._choices = choices
        self._steps: list[bytes] = []
        """Fingerprints of the steps since the user was last asked."""

    async def after_step(self, answer: AssistantMessage) -> None:
        """Ask the user how to continue if a step completes a loop.

        Without a user, stop the turn.

        Raises:
            LimitReached: the turn is stopped.
        """
        times = self._bounds.limits.equal_steps
        if times < 2:
            return
        self._steps.append(_fingerprint(answer, _results(self._tools.session, answer)))
        length = _cycle_length(self._steps, times)
        if not length:
            return
        names = ", ".join(dict.fromkeys(call.name for call in answer.calls))
        steps = SAME_CALL.format(names=names)
        if length > 1:
            steps = SAME_STEPS.format(length=length, names=names)
        repeats = REPEATS.format(steps=steps, times=times)
        if not self._choices.interactive:
            self._bounds.stop_loop(STOPPED.format(repeats=repeats))
        self._steps.clear()  # ask again only after the same number of steps
        choice = await self._choices.ask(
            f"The model {repeats}.",
            _OPTIONS,
            "\n".join(f"{call.name} {self._title(call)}" for call in answer.calls),
        )
        if choice.key == "t":
            text = f"You {repeats}. {LOOP_ADVICE}"
            await self._tools.session.append(DeveloperMessage(parts=text_parts(text)))
        elif choice.key != "g":
            self._bounds.stop_loop(STOPPED_BY_USER.format(repeats=repeats))

    def _title(self, call: ToolCallPart) -> str:
        """Return a call's title, as shown in the transcript."""
        tool = self._tools.named(call.name)
        return "" if tool is None else with_signs(tool.title(call.parsed()))


def _results(session: Session, answer: AssistantMessage) -> list[ToolResultMessage]:
    """Return the results of the newest answer's calls, newest first."""
    entries = reversed(session.entries)
    results = (entry for entry in entries if isinstance(entry, ToolResultMessage))
    return list(islice(results, len(answer.calls)))


def _fingerprint(
    answer: AssistantMessage, results: Sequence[ToolResultMessage]
) -> bytes:
    """Return a digest of a step's calls and results, without their ids."""
    calls = [(call.name, call.arguments) for call in answer.calls]
    outcomes = [
        (result.is_error, [part.model_dump_json() for part in result.parts])
        for result in results
    ]
    return hashlib.sha256(repr((calls, outcomes)).encode("utf-8", "replace")).digest()


def _cycle_length(steps: Sequence[bytes], times: int) -> int:
    """Return the length of the cycle at the end of the list.

    The cycle must occur `times` times in a row. Returns 0 if there is no such cycle.
    """
    for length in range(1, _LONGEST_CYCLE + 1):
        newest = steps[-length * times :]
        if list(newest) == list(newest[:length]) * times:
            return length
    return 0
