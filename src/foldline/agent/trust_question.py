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
from .hooks import Hook, parsed_hooks
from .layers import from_bytes
from .state import AgentState
from .trust import INSTRUCTION_FILES, PROJECT_FILE, Brought, Word, brought, decide

_NAMED = 5
"""Files that a sentence names; the lines below it say what each would do."""
_WHAT = dict.fromkeys(INSTRUCTION_FILES, "instructions to the model") | dict.fromkeys(SKILL_FILES, "a skill")
_SHOWN = 60
"""Characters of a value, or of the first line."""


def names(files: Sequence[Brought], cwd: Path) -> str:
    """What these files are called in a folder; of many, the first."""
    return some([os.path.relpath(each.path, cwd) for each in files], _NAMED)


async def ask_trust(state: AgentState) -> None:
    """Ask once about what the folder brings and the user has not decided on: its hooks first, by themselves.

    Without a user to ask, a notice lists what is not used. What was agreed to, also elsewhere, is used from
    now on.
    """
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
    new = [file for file in found if not file.word and file.digest not in state.left_aside]
    state.left_aside |= {file.digest for file in new}
    hooks = [file for file in new if file.path.name in HOOK_FILES]
    others = [file for file in new if file not in hooks]
    groups = ((hooks, "Allow", _about_hooks), (others, "Use", _about_others))
    questions = [(files, label, *about(files, state.cwd)) for files, label, about in groups if files]
    if state.choices.interactive and state.choices.read:
        for question in questions:
            await _decide(state, *question)
    elif new:
        listed = with_signs(names(new, state.cwd))
        how = "The chat asks, and `foldline run --trust` agrees."
        if state.choices.interactive:
            how = "\n\n".join(("`/approvals trust` agrees:", *(text for *_, text in questions)))
        state.warn(f"Left aside, as nobody has agreed to them: {listed}. {how}")


async def _decide(state: AgentState, files: Sequence[Brought], label: str, title: str, text: str) -> None:
    """Ask whether these files are used, and keep the answer."""
    options = [Option(key="y", label=label, agrees=True), Option(key="n", label="Leave out")]
    word = await state.choices.ask(title, options, text)
    if not word.key:
        return
    try:
        await _keep(files, "agreed" if word.key == "y" else "declined")
    except FoldlineError as failure:
        state.warn(str(failure))


def _about_hooks(files: Sequence[Brought], cwd: Path) -> tuple[str, str]:
    """The question about hooks, and each of them: when it runs, its file, and its command as it is."""
    hooks: list[Hook] = []
    faults: list[str] = []
    for file in files:
        of_file, wrong = parsed_hooks(file.data, names([file], cwd), of_project=True)
        hooks += of_file
        faults += wrong
    texts = [
        f"Hook {number} of {len(hooks)}: {hook.moment}, from {hook.shown}\n{hook.command}"
        for number, hook in enumerate(hooks, 1)
    ]
    text = "\n\n".join(("Hooks are commands that run by themselves.", *texts, *faults))
    return "Allow the hooks of this folder?", with_signs(text)


def _about_others(files: Sequence[Brought], cwd: Path) -> tuple[str, str]:
    """The question about files that are no hooks, and what each of them would do."""
    lines = "\n".join(f"{names([file], cwd)}: {does(file)}" for file in files)
    listed = names(files, cwd)
    title = f"You have not approved {listed} of this folder yet. Use {'it' if len(files) == 1 else 'them'}?"
    return with_signs(title), with_signs(lines)


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
    """What it would do, in one line; of a hook, the start of its command."""
    if file.path.name == PROJECT_FILE:
        try:
            values = [f"{item.key} = {item.value!r}" for item in from_bytes(file.path, file.data)]
        except FoldlineError:
            return "settings that cannot be read"
        return f"settings: {', '.join(values) or 'none'}"
    if file.path.name in HOOK_FILES:
        hooks, faults = parsed_hooks(file.data, file.path.name, of_project=True)
        runs = [f"`{_short(hook.command)}` ({hook.event})" for hook in hooks]
        return f"hooks, programs that run by themselves: {', '.join(runs or faults) or 'none'}"
    text = said = file.data.decode("utf-8", "replace").strip()
    with suppress(ValueError):
        fields, body = front_matter(text)
        said = str((fields or {}).get("description") or body)
    is_agent = file.path.parent.name == "agents"
    what = _WHAT.get(file.path.name, "an agent" if is_agent else "a command")
    return f"{many(len(text.splitlines()), 'line')} of {what}: “{_short(said)}”"


def _short(text: str) -> str:
    return clip(" ".join(text.split()), _SHOWN)
