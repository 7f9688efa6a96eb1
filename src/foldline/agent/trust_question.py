"""The question whether what a folder brings may be used, and what each file of it would do, in words."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from foldline.context.digest import clip
from foldline.context.harmless import with_signs
from foldline.context.numbers import many, some
from foldline.protocol import FoldlineError, system_words
from foldline.protocol.events import Notice, Option

from .discovery import HOOK_FILES, SKILL_FILES, front_matter
from .hooks import parsed_hooks
from .layers import from_bytes
from .state import AgentState
from .trust import INSTRUCTION_FILES, PROJECT_FILE, Brought, Word, brought, decide

_NAMED = 5
"""Files that a sentence names; the lines below it say what each would do."""
_WHAT = dict.fromkeys(INSTRUCTION_FILES, "instructions to the model") | dict.fromkeys(SKILL_FILES, "a skill")
_SHOWN = 60
"""Characters of a value, or of the first line."""
_SHOWN_COMMAND = 1_000
"""Characters of what runs by itself: its end may be what matters."""


def names(files: Sequence[Brought], cwd: Path) -> str:
    """What these files are called in a folder; of many, the first."""
    return some([os.path.relpath(each.path, cwd) for each in files], _NAMED)


async def ask_trust(state: AgentState) -> None:
    """Lists what the folder brings that nobody has decided on, and asks once. Nobody there to be asked, it is
    said once that it was left aside. What counts then, also by a word said elsewhere, is used from now on."""
    await _ask(state)
    await state.use_project()


async def take_back(state: AgentState, path: str) -> None:
    """What the user said of this file counts no longer. Says what follows, or why it was not to be done."""
    found = await asyncio.to_thread(brought, state.cwd)
    files = [each for each in found if str(each.path) == path]
    try:
        await asyncio.to_thread(decide, files, "")
    except OSError as error:
        state.warn(f"That could not be taken back: {system_words(error)}.")
        return
    if not files:
        return
    state.left_aside -= {each.digest for each in files}
    name = with_signs(names(files, state.cwd))
    state.emit(Notice(text=f"{name} does nothing from the next prompt on, which asks again."))


async def _ask(state: AgentState) -> None:
    found = await asyncio.to_thread(brought, state.cwd)
    new = [each for each in found if not each.word and each.digest not in state.left_aside]
    if not new:
        return
    state.left_aside |= {each.digest for each in new}
    listed = with_signs(names(new, state.cwd))
    lines = "\n".join(with_signs(f"{names([each], state.cwd)}: {does(each)}") for each in new)
    if not (state.choices.interactive and state.choices.read):
        typed = f"`/approvals trust` agrees:\n{lines}"
        how = typed if state.choices.interactive else "The chat asks, and `foldline run --trust` agrees."
        state.warn(f"Left aside, as nobody has agreed to them: {listed}. {how}")
        return
    word = await state.choices.ask(
        f"This folder brings files that are new or have changed. Use {listed}?",
        [Option(key="y", label="use them"), Option(key="n", label="leave them aside")],
        lines,
    )
    if word.key in ("y", "n"):
        try:
            await _keep(new, "agreed" if word.key == "y" else "declined")
        except FoldlineError as failure:
            state.warn(str(failure))


async def agree_to_left_aside(state: AgentState) -> str:
    """Agrees to the files that were listed and left aside in this session, unless they have changed since;
    what they are called.

    Raises:
        FoldlineError: that could not be kept.
    """
    found = await asyncio.to_thread(brought, state.cwd)
    files = [each for each in found if not each.counts and each.digest in state.left_aside]
    await _keep(files, "agreed")
    return with_signs(names(files, state.cwd)) if files else ""


async def _keep(files: Sequence[Brought], word: Word) -> None:
    try:
        await asyncio.to_thread(decide, files, word)
    except OSError as error:
        sentence = f"That could not be kept: {system_words(error)}. The files are left aside."
        raise FoldlineError(sentence) from None


def does(file: Brought) -> str:
    """What it would do, in words."""
    if file.path.name == PROJECT_FILE:
        try:
            given = [f"{item.key} = {_short(repr(item.value))}" for item in from_bytes(file.path, file.data)]
        except FoldlineError:
            return "settings that cannot be read"
        return f"settings: {', '.join(given) or 'none'}"
    if file.path.name in HOOK_FILES:
        hooks, faults = parsed_hooks(file.data, file.path.name, of_project=True)
        runs = [f"`{_short(hook.command, _SHOWN_COMMAND)}` ({hook.event})" for hook in hooks]
        return f"hooks, programs that run by themselves: {', '.join(runs or faults) or 'none'}"
    text = said = file.data.decode("utf-8", "replace").strip()
    with suppress(ValueError):
        fields, body = front_matter(text)
        said = str((fields or {}).get("description") or body)
    is_agent = file.path.parent.name == "agents"
    what = _WHAT.get(file.path.name, "an agent" if is_agent else "a command")
    return f"{many(len(text.splitlines()), 'line')} of {what}: “{_short(said)}”"


def _short(text: str, most: int = _SHOWN) -> str:
    return clip(" ".join(text.split()), most)
