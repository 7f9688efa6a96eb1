"""Carries things from one branch of a session to another: a copied answer, a note on the branch left."""

from foldline.context.digest import clip, one_line
from foldline.context.numbers import some
from foldline.context.rewind_points import is_within, reverted_spans
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    FoldlineError,
    Revert,
    is_typed,
    text_parts,
)

from .state import AgentState

_PROMPTS, _FILES = 3, 8
"""How many are named in a note."""
_QUOTED = 240
"""Characters of an answer that it quotes; of a prompt half as many."""


async def copy_answer(state: AgentState, index: int) -> None:
    """Append an answer to the view once more, as text of the program that names where it comes from.

    Raises:
        FoldlineError: there is no such answer, or it says nothing.
    """
    answer = state.projection.entry(index)
    if not isinstance(answer, AssistantMessage) or not answer.text.strip():
        raise FoldlineError(f"Entry {index} is no answer that says anything.")
    origin = f"Copied by the user from another branch of this session (answer {index}):"
    copied = DeveloperMessage(origin="notice", parts=text_parts(f"{origin}\n\n{answer.text}"))
    await state.session.append(copied, durable=True)


def note_on_left(state: AgentState, revert: Revert) -> str | None:
    """What to tell the model of the branch that this rewind leaves: quoted from the history, without a model.
    None where nothing is left."""
    projection = state.projection
    after = projection.foreseen(revert)
    stay, before, gone = {item.key for item in after.view}, reverted_spans(projection), reverted_spans(after)
    items = [item for item in projection.view if is_within(item.index, gone) and item.key not in stay]
    left = [item.message for item in items if not item.written]
    prompts = [each.text for each in left if is_typed(each)]
    answer = next((each.text for each in reversed(left) if _is_answer(each)), "")
    if not prompts and not answer:
        return None
    made_here = [each for each in projection.images if not is_within(each[0], before)]
    changed = tuple(dict.fromkeys(image.path for at, image in made_here if is_within(at, gone)))
    lines = ["The user left another branch of this conversation. Nothing of it holds here; in short:"]
    lines += [f"- asked: {_quoted(each, _QUOTED // 2)}" for each in prompts[:_PROMPTS]]
    lines += [f"- asked {len(prompts) - _PROMPTS} more times"] if len(prompts) > _PROMPTS else []
    lines += [f"- last answer: {_quoted(answer, _QUOTED)}"] if answer else []
    lines += [f"- files changed there: {some([*map(one_line, changed)], _FILES)}"] if changed else []
    return "\n".join(lines)


def _is_answer(message: BaseMessage) -> bool:
    return isinstance(message, AssistantMessage) and bool(message.text.strip())


def _quoted(text: str, length: int) -> str:
    return f"“{clip(one_line(text), length)}”"
