"""Hooks: programs that run on certain events of a session, with JSON on stdin and stdout.

The format is Claude Code's (https://code.claude.com/docs/en/hooks), and Claude Code's files work unchanged. A
project's hooks run only after the user has agreed to the exact bytes of their file (decision 48). In
sandboxed modes, hooks run inside the sandbox. They can reject a call or require a confirmation, but cannot
approve a call (decision 56).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from foldline.agent.project.discovery import hook_files
from foldline.agent.project.trust import read_trusted
from foldline.protocol.messages import json_object
from foldline.text.harmless import escaped_line

from .catalogue import IGNORED, TOO_LARGE, shown_path

EVENTS: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Notification",
    "Stop",
    "SubagentStop",
    "SessionEnd",
)
_DEFAULT_TIMEOUT = 60.0
"""Timeout for a hook, in seconds, if its file does not set one."""
_LONGEST_TIMEOUT = 600.0
MOST_BYTES = 256_000
"""Maximum size, in bytes, of a hook file and of a hook's stdout and stderr.

Larger files are ignored, and excess output is discarded.
"""
NOT_JSON: Final = "it is not a JSON object"
NOT_EVENTS: Final = "`hooks` is not an object with event names as its keys"
BAD_EVENT: Final = "Foldline has no such event"
BAD_TYPE: Final = "only hooks of type `command` are supported"
NO_COMMAND: Final = "it has no command"
BAD_TIMEOUT: Final = (
    f"its timeout is not a number of seconds up to {_LONGEST_TIMEOUT:.0f}"
)
BAD_MATCHER: Final = "its matcher is not a valid regular expression"
HOOK_IGNORED: Final = "A hook for {event} in {path} was ignored: {reason}."


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook program."""

    event: str
    matcher: re.Pattern[str] | None
    """Pattern that must match a whole subject, such as `bash`, `auto` or `startup`.

    None matches everything.
    """
    command: str
    timeout: float
    """Timeout in seconds."""
    shown: str
    """Path of the hook's file, as shown to the user."""
    of_project: bool
    """Whether the hook comes from a project's file."""

    @property
    def moment(self) -> str:
        """Event and matcher as shown to the user, such as `PreToolUse (Bash)`."""
        if self.matcher is None:
            return self.event
        return f"{self.event} ({escaped_line(self.matcher.pattern)})"

    def matches(self, event: str, subjects: Sequence[str]) -> bool:
        if self.event != event:
            return False
        return self.matcher is None or any(map(self.matcher.fullmatch, subjects))


def hooks_of(cwd: Path) -> tuple[list[Hook], list[str]]:
    """Read all hooks that apply in a folder, the user's own first.

    Blocking: do not call it on the event loop.

    Returns:
        The hooks, and messages about ignored files.
    """
    hooks: list[Hook] = []
    faults: list[str] = []
    for path, top in hook_files(cwd):
        shown = shown_path(path, top, cwd)
        try:
            data = read_trusted(path, top, MOST_BYTES)
        except ValueError as reason:
            faults.append(IGNORED.format(path=shown, reason=reason))
            continue
        if data is not None:
            file_hooks, file_faults = parsed_hooks(
                data,
                shown,
                of_project=top is not None,
            )
            hooks += file_hooks
            faults += file_faults
    return hooks, faults


def parsed_hooks(
    data: bytes,
    shown: str,
    *,
    of_project: bool,
) -> tuple[list[Hook], list[str]]:
    """Parse a hook file.

    Returns:
        The hooks, and messages about ignored parts of the file.
    """
    try:
        events = _events(data)
    except ValueError as reason:
        return [], [IGNORED.format(path=shown, reason=reason)]
    hooks, faults = [], []
    for event, matcher, entry in _entries(events):
        try:
            hooks.append(_hook(event, matcher, entry, shown, of_project))
        except ValueError as reason:
            faults.append(HOOK_IGNORED.format(event=event, path=shown, reason=reason))
    return hooks, faults


def _events(data: bytes) -> Mapping[str, Any]:
    """Parse a hook file into its unchecked entries, by event.

    Raises:
        ValueError: the file cannot be read. The message is a clause that states the reason.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(TOO_LARGE.format(most=MOST_BYTES))
    content = json_object(data.decode("utf-8", "replace"))
    if content is None:
        raise ValueError(NOT_JSON)
    events = content.get("hooks", {})
    if not isinstance(events, dict):
        raise ValueError(NOT_EVENTS)
    return events


def _entries(events: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Yield the event, matcher and entry of each hook.

    If the entry has the wrong structure, None is yielded in its place.
    """
    for event, groups in events.items():
        for group in groups if isinstance(groups, list) else [groups]:
            if not isinstance(group, dict):
                yield event, "", None
                continue
            entries = group.get("hooks")
            for entry in entries if isinstance(entries, list) else [None]:
                yield event, group.get("matcher", ""), entry


def _hook(
    event: str,
    matcher: object,
    entry: object,
    shown: str,
    of_project: bool,
) -> Hook:
    """Check an entry and return it as a hook.

    Raises:
        ValueError: the hook cannot be run. The message is a clause that states the reason.
    """
    if event not in EVENTS:
        raise ValueError(BAD_EVENT)
    if not isinstance(entry, dict) or entry.get("type") != "command":
        raise ValueError(BAD_TYPE)
    command = entry.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise ValueError(NO_COMMAND)
    timeout = entry.get("timeout", _DEFAULT_TIMEOUT)
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ValueError(BAD_TIMEOUT)
    pattern = None
    if matcher not in ("", "*", None):
        try:
            pattern = re.compile(str(matcher))
        except re.error:
            raise ValueError(BAD_MATCHER) from None
    return Hook(event, pattern, command, float(timeout), shown, of_project)
