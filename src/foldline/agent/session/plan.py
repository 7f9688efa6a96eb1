"""The model's plan, a session's goal, and the model's questions to the user.

The accepted plan and the goal are pinned in the view. If the plan file changes while the plan is shown, the
plan is shown again before the user can accept it.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from foldline.agent.permissions.approvals import Choices
from foldline.agent.tools import (
    Arguments,
    BaseTool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
)
from foldline.files import put_private, read_regular
from foldline.protocol import (
    Approval,
    DeveloperMessage,
    Edit,
    Entry,
    FoldlineError,
    text_parts,
)
from foldline.protocol.events import Option
from foldline.text.harmless import escaped_line
from foldline.text.shorten import clip
from foldline.view.projection import Projection

from .skill_loading import append_to_view
from .state import AgentState
from .toolset import Toolset

NO_USER = "There is no user to answer. Use the most likely choice, and say which one."
NO_PLAN = "There is no plan yet. Send a prompt, and the model writes one."
PLAN_ACCEPTED = "The plan has been accepted. Every request includes it from now on."
GOAL_PINNED = "The goal is pinned."
GOAL_REMOVED = "The goal has been removed."
NO_GOAL = "No goal is set. /goal LINE sets one."
NOT_PLAN_MODE = "Ignored: the mode is not plan. Continue with the work."
TOO_LATE = "Ignored: an earlier plan in this step has already been accepted."
EMPTY_PLAN = "The plan is empty."
SAVED = "The plan has been saved. The turn ends here, because there is no user to accept it."
NOT_ACCEPTED = "The user did not accept the plan{reason}"
UNDECIDED = "The user has not decided yet. End your turn."
ACCEPTED = "The user accepted the plan{change}. It follows. Carry it out."
CHANGED = " with changes"
EMPTY_CHOICE = "Not asked: one of the choices is empty."
NO_ANSWER = "The user did not answer the question. Do not ask it again."
CHOSE = "The user chose: {answer}"
OWN_WORDS = "The user answered in their own words: {answer}"
ACCEPT_QUESTION = "Accept this plan?"
MODEL_ASKS = "The model asks"
_MOST_BYTES = 1024 * 1024
"""Maximum number of bytes read from the plan file."""
_PLAN_HEAD = "The user accepted this plan. Follow it. If you deviate from it, say where and why.\n\n"
_GOAL_HEAD = "The goal of this session, in the user's words: "
_OPTIONS = (
    Option(key="y", label="Accept the plan", agrees=True),
    Option(key="e", label="Edit it", asks="edit"),
)
_REJECT = Option(key="n", label="No, and say why", asks="line")
_BRIEF = 40
"""Maximum length of an answer on its call's row, in characters.

The rest is not shown there.
"""


# --- plan and goal ----------------------------------------------------------------------------------------


class _PlanDecision(NamedTuple):
    """The user's decision about a plan."""

    key: str
    """Key of the chosen option; empty if the user did not decide."""
    reason: str
    text: str
    """The plan as last shown. The user may have edited it."""


def plan_file(tools: Toolset) -> Path:
    """Return the path of the newest plan, accepted or not."""
    return tools.spill_dir.parent / "plan.md"


def read_plan(tools: Toolset) -> str:
    """Read the newest plan.

    Raises:
        OSError: the plan file is missing or cannot be read.
    """
    return read_regular(plan_file(tools), _MOST_BYTES).decode("utf-8", "replace")


def _write_plan(tools: Toolset, text: str) -> None:
    data = tools.session.mask(text).encode("utf-8", "replace")
    put_private(plan_file(tools), data, durable=True)


async def _decide(
    state: AgentState,
    options: Sequence[Option],
    *,
    opened_by_user: bool,
) -> _PlanDecision:
    """Show the plan, and wait for the user's decision."""
    while True:
        text = await asyncio.to_thread(read_plan, state.tools)
        answer = await state.permissions.choices.ask(
            ACCEPT_QUESTION,
            options,
            text,
            is_markdown=True,
            opened_by_user=opened_by_user,
        )
        if answer.key == "e":
            opened_by_user = True  # the user comes back from the editor and is waiting
            if answer.text.strip():
                await asyncio.to_thread(_write_plan, state.tools, answer.text)
        elif answer.key != "y" or text == await asyncio.to_thread(
            read_plan, state.tools
        ):
            return _PlanDecision(answer.key, answer.text.strip(), text)


async def review_plan(state: AgentState) -> None:
    """Show the newest plan, so that the user can edit and accept it.

    Raises:
        FoldlineError: there is no plan, or the window has no room for the plan.
    """
    try:
        decision = await _decide(state, _OPTIONS, opened_by_user=True)
    except OSError:
        raise FoldlineError(NO_PLAN) from None
    if decision.key == "y":
        await append_to_view(state, *_accepting(state, decision.text))
        state.events.notify(PLAN_ACCEPTED)


def _accepting(state: AgentState, text: str) -> list[Entry]:
    """Return the entries to append when a plan is accepted.

    Raises:
        FoldlineError: the window has no room for the plan.
    """
    message = DeveloperMessage(origin="plan", parts=text_parts(_PLAN_HEAD + text))
    state.budget.demand_room(message, "plan")
    entries = _replacing(state.projection, message)
    policy = state.permissions.policy
    if policy.mode == "plan":
        return [Approval(mode=policy.usual), *entries]
    return entries


async def set_goal(state: AgentState, text: str) -> None:
    """Pin the session's goal.

    An empty string removes the goal.

    Raises:
        FoldlineError: the window has no room for the goal.
    """
    goal = DeveloperMessage(origin="goal", parts=text_parts(_GOAL_HEAD + text))
    if text:
        state.budget.demand_room(goal, "goal")
        await append_to_view(state, *_replacing(state.projection, goal))
        state.events.notify(GOAL_PINNED)
        return
    drops = _drops(state.projection, "goal")
    await append_to_view(state, *drops)
    state.events.notify(GOAL_REMOVED if drops else NO_GOAL)


def _replacing(projection: Projection, message: DeveloperMessage) -> list[Entry]:
    """Return the entries that replace messages of the same origin with this message.

    Returns an empty list if the view already contains the message.
    """
    texts = [
        item.message.text
        for item in projection.view
        if item.outline.origin == message.origin
    ]
    if texts == [message.text]:
        return []
    return [*_drops(projection, message.origin), message]


def _drops(projection: Projection, origin: str) -> list[Entry]:
    items = [item for item in projection.view if item.outline.origin == origin]
    return [Edit(target=item.index, action="drop") for item in items]


class PlanArguments(Arguments):
    text: str = Field(min_length=1, description="The whole plan, in Markdown.")


class PlanTool(BaseTool[PlanArguments]):
    name = "plan"
    description = (
        "Submit a plan in plan mode. The user accepts it, changes it or says what is wrong. Each call "
        "replaces the whole plan."
    )
    arguments = PlanArguments

    def __init__(self, state: AgentState) -> None:
        super().__init__()
        self._state = state

    def headline(self, arguments: PlanArguments) -> str:
        return escaped_line(arguments.text.strip().partition("\n")[0])

    async def act(self, arguments: PlanArguments, context: ToolContext) -> ToolOutcome:
        state = self._state
        if state.permissions.policy.mode != "plan":
            raise ToolFailure(NOT_PLAN_MODE, "not in plan mode ✗")
        if any(isinstance(entry, Approval) for entry in state.tools.after_results):
            raise ToolFailure(TOO_LATE, "too late ✗")
        if not arguments.text.strip():
            raise ToolFailure(EMPTY_PLAN)
        await asyncio.to_thread(_write_plan, state.tools, arguments.text)
        if not state.permissions.choices.interactive:
            state.tools.ends_with_plan = True
            return ToolOutcome(SAVED, brief="saved")
        decision = await _decide(state, (*_OPTIONS, _REJECT), opened_by_user=False)
        if decision.key == "y":
            return self._accept(decision, arguments.text)
        if decision.key == "n":
            why = ". Ask what is wrong."
            if decision.reason:
                why = f" and says: {decision.reason}"
            return ToolOutcome(NOT_ACCEPTED.format(reason=why), True, "not accepted ✗")
        return ToolOutcome(UNDECIDED, brief="undecided")

    def _accept(self, decision: _PlanDecision, plan: str) -> ToolOutcome:
        try:
            self._state.tools.after_results += _accepting(self._state, decision.text)
        except FoldlineError as refusal:
            raise ToolFailure(str(refusal), "too long ✗") from None
        change = "" if decision.text == plan else CHANGED
        return ToolOutcome(ACCEPTED.format(change=change), brief="accepted")


# --- the model's questions --------------------------------------------------------------------------------


class QuestionArguments(Arguments):
    question: str = Field(
        min_length=1,
        description="One question, with the information needed to answer it.",
    )
    choices: list[str] = Field(
        min_length=2,
        max_length=6,
        description="A few words each, the one you recommend first.",
    )


class AskUserTool(BaseTool[QuestionArguments]):
    name = "ask_user"
    description = (
        "Ask the user one question that only they can decide. They pick one of the choices, or answer in "
        "their own words."
    )
    arguments = QuestionArguments

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._choices = choices

    def headline(self, arguments: QuestionArguments) -> str:
        return escaped_line(arguments.question)

    async def act(
        self, arguments: QuestionArguments, context: ToolContext
    ) -> ToolOutcome:
        choices = [escaped_line(choice) for choice in arguments.choices]
        if not all(choices):
            raise ToolFailure(EMPTY_CHOICE, "not asked ✗")
        answer = await self._answer(arguments.question.strip(), choices)
        if not answer:
            raise ToolFailure(NO_ANSWER, "undecided")
        result = CHOSE if answer in choices else OWN_WORDS
        brief = clip(escaped_line(answer), _BRIEF)
        return ToolOutcome(result.format(answer=answer), brief=brief)

    async def _answer(self, question: str, choices: list[str]) -> str:
        """Ask the user, and return the chosen answer or the user's own words.

        Returns:
            An empty string if the user does not answer.

        Raises:
            ToolFailure: there is no user, and no answer was given on the command line.
        """
        if not self._choices.interactive:
            return self._scripted_answer(choices)
        title = question
        detail = ""
        if "\n" in question:
            title = MODEL_ASKS
            detail = question
        return await self._choices.ask_in_words(title, choices, detail)

    def _scripted_answer(self, choices: list[str]) -> str:
        """Return the next answer from the command line."""
        answers = self._choices.scripted_answers
        if not answers:
            raise ToolFailure(NO_USER, "no user ✗")
        answer = answers.popleft()
        numbered = {str(number): choice for number, choice in enumerate(choices, 1)}
        return numbered.get(answer, answer)
