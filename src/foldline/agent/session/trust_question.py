"""Asks the user whether to use files of a folder, and describes each file."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from foldline.agent.extensions.hooks import Hook, parsed_hooks
from foldline.agent.project.discovery import HOOK_FILES, SKILL_FILES, front_matter
from foldline.agent.project.trust import (
    INSTRUCTION_FILES,
    PROJECT_FILE,
    FolderFile,
    Word,
    decide,
    folder_files,
)
from foldline.agent.settings.layers import from_bytes
from foldline.protocol import FoldlineError, system_words
from foldline.protocol.events import Option
from foldline.text.harmless import with_signs
from foldline.text.numbers import many, some
from foldline.text.shorten import clip

from .permissions import Permissions

NOT_AGREED = "Ignored, because you have not agreed to them"
NOT_REMOVED = "Your decision could not be removed: {reason}."
REMOVED = (
    "{files} will be ignored until you agree again. Foldline asks at the next prompt."
)
HOW_TO_AGREE = "The chat asks you about them. `foldline run --trust` agrees to them."
AGREE_COMMAND = "`/approvals trust` agrees to them:"
HOOKS_RUN = "Hooks are commands that run automatically."
HOOK_HEAD = "Hook {number} of {count}: {moment}, from {path}"
ALLOW_HOOKS = "Allow the hooks of this folder?"
USE_FILES = "You have not approved {files} of this folder yet. Use {pronoun}?"
NOT_SAVED = "Your decision could not be saved: {reason}. The files are ignored."
BAD_SETTINGS = "settings that cannot be read"
HOOK_LIST = "hooks (commands that run automatically): {hooks}"
INSTRUCTIONS = "instructions to the model"
_NAMED = 5
"""Maximum number of files named in a sentence; the others are only counted.

The lines below the sentence describe all of them.
"""
_SHOWN = 60
"""Maximum length of a command or other text as shown, in characters. The rest is cut off."""


def names(files: Sequence[FolderFile], cwd: Path) -> str:
    """Return the files' relative paths.

    If there are many, only the first ones are named.
    """
    return some([os.path.relpath(file.path, cwd) for file in files], _NAMED)


async def ask_trust(permissions: Permissions) -> None:
    """Ask once about files of the folder that the user has not decided about.

    Without a user, a warning lists the ignored files. Settings that the user has agreed to in the meantime,
    even in another session, apply from now on.
    """
    await _ask(permissions)
    await permissions.use_project()


async def revoke_trust(permissions: Permissions, path: str) -> None:
    """Remove the user's decision on a file.

    The effect, or the failure, is reported as an event.
    """
    files = [
        file for file in await _folder_files(permissions) if str(file.path) == path
    ]
    try:
        await asyncio.to_thread(decide, files, "")
    except OSError as error:
        permissions.events.warn(NOT_REMOVED, reason=system_words(error))
        return
    if not files:
        return
    permissions.left_aside -= {file.digest for file in files}
    permissions.events.notify(
        REMOVED.format(files=with_signs(names(files, permissions.cwd)))
    )


async def _folder_files(permissions: Permissions) -> list[FolderFile]:
    return await asyncio.to_thread(folder_files, permissions.cwd)


async def _ask(permissions: Permissions) -> None:
    new = [
        file
        for file in await _folder_files(permissions)
        if not file.word and file.digest not in permissions.left_aside
    ]
    if not new:
        return
    permissions.left_aside |= {file.digest for file in new}
    hooks = [file for file in new if file.path.name in HOOK_FILES]
    others = [file for file in new if file.path.name not in HOOK_FILES]
    questions = []
    if hooks:
        questions.append((hooks, "Allow", *_about_hooks(hooks, permissions.cwd)))
    if others:
        questions.append((others, "Use", *_about_others(others, permissions.cwd)))
    if permissions.choices.interactive and permissions.choices.is_read:
        for question in questions:
            await _decide(permissions, *question)
        return
    how = HOW_TO_AGREE
    if permissions.choices.interactive:
        how = "\n\n".join((AGREE_COMMAND, *(text for *_, text in questions)))
    listed = with_signs(names(new, permissions.cwd))
    permissions.events.warn(f"{NOT_AGREED}: {listed}. {how}")


async def _decide(
    permissions: Permissions,
    files: Sequence[FolderFile],
    label: str,
    title: str,
    text: str,
) -> None:
    """Ask whether to use these files, and save the answer."""
    options = [
        Option(key="y", label=label, agrees=True),
        Option(key="n", label="Ignore"),
    ]
    answer = await permissions.choices.ask(title, options, text)
    if not answer.key:
        return
    try:
        await _save(files, "agreed" if answer.key == "y" else "declined")
    except FoldlineError as failure:
        permissions.events.warn(str(failure))


def _about_hooks(files: Sequence[FolderFile], cwd: Path) -> tuple[str, str]:
    """Return the title and text of the question about hooks."""
    hooks: list[Hook] = []
    faults: list[str] = []
    for file in files:
        file_hooks, file_faults = parsed_hooks(
            file.data,
            names([file], cwd),
            of_project=True,
        )
        hooks += file_hooks
        faults += file_faults
    paragraphs = [HOOKS_RUN]
    for number, hook in enumerate(hooks, 1):
        head = HOOK_HEAD.format(
            number=number, count=len(hooks), moment=hook.moment, path=hook.shown
        )
        paragraphs.append(f"{head}\n{hook.command}")
    text = "\n\n".join((*paragraphs, *faults))
    return ALLOW_HOOKS, with_signs(text)


def _about_others(files: Sequence[FolderFile], cwd: Path) -> tuple[str, str]:
    """Return the title and text of the question about other files."""
    lines = "\n".join(f"{names([file], cwd)}: {does(file)}" for file in files)
    pronoun = "it" if len(files) == 1 else "them"
    title = USE_FILES.format(files=names(files, cwd), pronoun=pronoun)
    return with_signs(title), with_signs(lines)


async def agree_to_left_aside(permissions: Permissions) -> str:
    """Agree to the files that were reported as ignored, if they are unchanged.

    Returns:
        The names of the files.

    Raises:
        FoldlineError: the decision could not be saved.
    """
    files = [
        file
        for file in await _folder_files(permissions)
        if not file.is_trusted and file.digest in permissions.left_aside
    ]
    await _save(files, "agreed")
    return with_signs(names(files, permissions.cwd)) if files else ""


async def _save(files: Sequence[FolderFile], word: Word) -> None:
    try:
        await asyncio.to_thread(decide, files, word)
    except OSError as error:
        raise FoldlineError(NOT_SAVED, reason=system_words(error)) from None


def does(file: FolderFile) -> str:
    """Describe a file's effect in one line."""
    if file.path.name == PROJECT_FILE:
        try:
            values = [
                f"{item.key} = {item.value!r}"
                for item in from_bytes(file.path, file.data)
            ]
        except FoldlineError:
            return BAD_SETTINGS
        return f"settings: {', '.join(values) or 'none'}"
    if file.path.name in HOOK_FILES:
        hooks, faults = parsed_hooks(file.data, file.path.name, of_project=True)
        runs = [f"`{_short(hook.command)}` ({hook.event})" for hook in hooks]
        return HOOK_LIST.format(hooks=", ".join(runs or faults) or "none")
    text = file.data.decode("utf-8", "replace").strip()
    summary = text
    with suppress(ValueError):
        fields, body = front_matter(text)
        summary = str((fields or {}).get("description") or body)
    return f"{many(len(text.splitlines()), 'line')} of {_kind(file.path)}: “{_short(summary)}”"


def _kind(path: Path) -> str:
    if path.name in INSTRUCTION_FILES:
        return INSTRUCTIONS
    if path.name in SKILL_FILES:
        return "a skill"
    return "an agent" if path.parent.name == "agents" else "a command"


def _short(text: str) -> str:
    return clip(" ".join(text.split()), _SHOWN)
