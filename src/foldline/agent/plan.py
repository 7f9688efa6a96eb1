"""The plan that the model writes and the user accepts, the goal, and questions of the model.

The accepted plan and the goal are pinned in the view. If the file of a plan is edited while it is shown, the
plan is shown again before it is accepted.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import Field

from foldline.context.digest import clip
from foldline.files import put_private, read_regular
from foldline.protocol import Approval, DeveloperMessage, Edit, Entry, FoldlineError, text_parts
from foldline.protocol.events import Notice, Option

from .skill_loading import StateTool, append_to_view, demand_room
from .state import AgentState
from .tools import Arguments, ToolContext, ToolFailure, ToolOutcome
from .tools.text import one_line

_MOST_BYTES: Final = 1024 * 1024
_HEAD: Final = "The plan that the user accepted. Follow it, and say where you leave it and why.\n\n"
_GOAL: Final = "What this session is for, in the user's words: "
_OPTIONS: Final = (
    Option(key="y", label="Accept the plan", agrees=True),
    Option(key="e", label="Edit it", asks="edit"),
)
_NO: Final = Option(key="n", label="No, and say why", asks="line")
_BRIEF: Final = 40
"""Characters of an answer that stand in the row of its call."""


def plan_file(state: AgentState) -> Path:
    """Where the newest plan is, accepted or not."""
    return state.spill_dir.parent / "plan.md"


def read_plan(state: AgentState) -> str:
    """Raises OSError where there is none."""
    return read_regular(plan_file(state), _MOST_BYTES).decode("utf-8", "replace")


def _write(state: AgentState, text: str) -> None:
    put_private(plan_file(state), state.session.mask(text).encode("utf-8", "replace"), durable=True)


def _replacing(state: AgentState, message: DeveloperMessage) -> list[Entry]:
    """What pins a message in place of those of its origin; nothing where it stands there already."""
    old = [item for item in state.projection.view if item.outline.origin == message.origin]
    if [item.message.text for item in old] == [message.text]:
        return []
    return [*(Edit(target=item.index, action="drop") for item in old), message]


async def _asked(
    state: AgentState, options: Sequence[Option], *, opened_by_user: bool
) -> tuple[str, str, str]:
    """Ask about the plan; return the option's key, the reason, and the plan as it was shown last: it may have
    been edited."""
    while True:
        text = await asyncio.to_thread(read_plan, state)
        word = await state.choices.ask(
            "Accept this plan?", options, text, is_markdown=True, opened_by_user=opened_by_user
        )
        if word.key == "e":
            opened_by_user = True  # the user comes from the editor, and waits for it
            if word.text.strip():
                await asyncio.to_thread(_write, state, word.text)
        elif word.key != "y" or text == await asyncio.to_thread(read_plan, state):
            return word.key, word.text.strip(), text


def _accepting(state: AgentState, text: str) -> list[Entry]:
    """What pins it, and ends the mode. Raises FoldlineError where the window has no room for it."""
    message = DeveloperMessage(origin="plan", parts=text_parts(_HEAD + text))
    demand_room(state, message, "plan")
    ends = [Approval(mode=state.policy.usual)] if state.policy.mode == "plan" else []
    return [*ends, *_replacing(state, message)]


async def review_plan(state: AgentState) -> None:
    """Show the newest plan, to be edited and accepted. Raises FoldlineError: there is none, or no room."""
    try:
        key, _, text = await _asked(state, _OPTIONS, opened_by_user=True)
    except OSError:
        raise FoldlineError("There is no plan yet: send a prompt, and the model writes one.") from None
    if key == "y":
        await append_to_view(state, *_accepting(state, text))
        state.emit(Notice(text="The plan is accepted, and goes with every request from now on."))


async def set_goal(state: AgentState, text: str) -> None:
    """Pin what the session is for; an empty text only drops what was pinned. Raises FoldlineError where
    there is no room for it."""
    goal = DeveloperMessage(origin="goal", parts=text_parts(_GOAL + text))
    entries = _replacing(state, goal)
    if text:
        demand_room(state, goal, "goal")
    await append_to_view(state, *(entries if text else entries[:-1]))
    dropped = "gone" if len(entries) > 1 else "not set yet: /goal LINE pins one"
    state.emit(Notice(text=f"The goal is {'pinned' if text else dropped}."))


class PlanArguments(Arguments):
    text: str = Field(min_length=1, description="The whole plan, in Markdown.")


class PlanTool(StateTool[PlanArguments]):
    name = "plan"
    description = (
        "Hand in a plan in the mode plan: the user accepts it, changes it or says what is wrong. Each call "
        "replaces all of it."
    )
    arguments = PlanArguments

    def headline(self, arguments: PlanArguments) -> str:
        return one_line(arguments.text.strip().partition("\n")[0])

    async def act(self, arguments: PlanArguments, context: ToolContext) -> ToolOutcome:
        state = self._state
        if state.policy.mode != "plan":
            raise ToolFailure("Ignored: the mode is not plan. Go on with the work.", "not in plan mode ✗")
        if any(isinstance(entry, Approval) for entry in state.behind_results):
            raise ToolFailure("Ignored: the plan before it, in this step, was accepted.", "too late ✗")
        if not arguments.text.strip():
            raise ToolFailure("The plan is empty.")
        await asyncio.to_thread(_write, state, arguments.text)
        if not state.choices.interactive:
            state.plan_waits = True
            return ToolOutcome("Kept. The turn ends here: nobody is there to accept it.", brief="kept")
        key, why, text = await _asked(state, (*_OPTIONS, _NO), opened_by_user=False)
        if key == "y":
            try:
                state.behind_results += _accepting(state, text)
            except FoldlineError as refusal:
                raise ToolFailure(str(refusal), "too long ✗") from None
            changed = "" if text == arguments.text else ", and changed it"
            return ToolOutcome(
                f"The user accepted the plan{changed}: it follows. Carry it out.", brief="accepted"
            )
        if key == "n":
            said = f" and says: {why}" if why else ". Ask what is wrong."
            return ToolOutcome(f"The user does not accept the plan{said}", True, "not accepted ✗")
        return ToolOutcome("The user has not decided yet. End your turn.", brief="undecided")


class QuestionArguments(Arguments):
    question: str = Field(min_length=1, description="One question, with what is needed to decide it.")
    choices: list[str] = Field(min_length=2, max_length=6, description="A few words each, your advice first.")


class AskUserTool(StateTool[QuestionArguments]):
    name = "ask_user"
    description = (
        "Ask the user one question that only they can decide. They take one of the choices, or answer in "
        "their own words."
    )
    arguments = QuestionArguments

    def headline(self, arguments: QuestionArguments) -> str:
        return one_line(arguments.question)

    async def act(self, arguments: QuestionArguments, context: ToolContext) -> ToolOutcome:
        choices = [one_line(choice) for choice in arguments.choices]
        if not all(choices):
            raise ToolFailure("Not asked: one of the choices says nothing.", "not asked ✗")
        answer = await self._answer(arguments.question.strip(), choices)
        if not answer:
            raise ToolFailure("The user left the question undecided. Do not ask it again.", "undecided")
        chose = "chose" if answer in choices else "answers in their own words"
        return ToolOutcome(f"The user {chose}: {answer}", brief=clip(one_line(answer), _BRIEF))

    async def _answer(self, question: str, choices: list[str]) -> str:
        """One of these, or other words; empty where they leave it. Raises ToolFailure: nobody is there."""
        asking = self._state.choices
        if asking.interactive:
            options = [Option(key="abcdef"[at], label=choice) for at, choice in enumerate(choices)]
            own = Option(key="o", label="Answer, in your own words", asks="line")
            title, detail = (question, "") if "\n" not in question else ("The model asks", question)
            word = await asking.ask(title, (*options, own), detail)
            return {option.key: option.label for option in options}.get(word.key, word.text.strip())
        if not asking.given:
            raise ToolFailure(
                "Nobody is here to answer. Take the likeliest choice, and say which one.", "nobody here ✗"
            )
        given = asking.given.popleft()
        return choices[int(given) - 1] if given in map(str, range(1, len(choices) + 1)) else given
