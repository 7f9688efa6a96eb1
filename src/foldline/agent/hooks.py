"""Hooks: programs of the user's that run at moments of a session, get JSON on stdin and answer JSON.

The shape is Claude Code's (https://code.claude.com/docs/en/hooks), whose files are read as they are. Those of
a project run only once the user has agreed to these very bytes of their file (decision 48), inside the
sandbox in the modes that have one, and may refuse or ask, but never allow (decision 56).
"""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from foldline.context.digest import clip
from foldline.context.numbers import many
from foldline.programs import shell
from foldline.protocol import DeveloperMessage, system_words, text_parts
from foldline.protocol.events import Notice
from foldline.protocol.messages import json_object

from .approvals import SANDBOXED
from .catalogue import shown_path
from .discovery import hook_files, up_to_top
from .tools.process import ending, environment, new_mark, spawn
from .tools.text import one_line
from .trust import read_brought

if TYPE_CHECKING:
    from .state import AgentState

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
_TELL: Final = ("SessionStart", "UserPromptSubmit", "PreCompact")
"""Of which events plain text on stdout is for the model; for a compaction, it is the focus."""
_BLOCKED = 2
"""The exit code that refuses; what stands on stderr says why."""
_PATIENCE, _LONGEST = 60.0, 600.0
"""Seconds a hook may take: unless its file says otherwise, and at most."""
_AT_THE_END = 1.0
"""Seconds for those of `SessionEnd`: whoever quits waits for them."""
_MOST_BYTES = 256_000
"""Of a file, and of what a hook writes on stdout, and on stderr: the rest is read and dropped."""
_MOST_SAID = 10_000
"""Characters of what one hook says to the model."""
_SHOWN = 60
"""Characters of its command, and of what it wrote, in a notice."""
_NAMES: Final = {
    **{name: name.capitalize() for name in ("bash", "edit", "write", "read", "grep", "glob")},
    **{"ls": "LS", "fetch": "WebFetch", "todo": "TodoWrite"},
}
"""Our tools as matchers and scripts know them."""
_KEYS: Final = {"path": "file_path", "old": "old_string", "new": "new_string"}
"""And their arguments, which have these names beside their own."""
_SCRIPT = r"""set -o pipefail
out=$("$0" -c "$1" | { head -c 256000; cat >/dev/null; })
status=$?
printf %s%s "$2" "$out"
exit $status"""
"""Runs a hook (`$1`); behind a mark (`$2`) comes what it wrote on stdout, before it stderr."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One program."""

    event: str
    matcher: re.Pattern[str] | None
    """Of which subjects, whole: tools by name, `manual` or `auto`, `startup` or `resume`; None: of all."""
    command: str
    timeout: float
    """In seconds."""
    shown: str
    """Its file, for people."""
    of_project: bool

    @property
    def moment(self) -> str:
        """When it runs: `PreToolUse (Bash)`."""
        return f"{self.event} ({one_line(self.matcher.pattern)})" if self.matcher else self.event

    def hears(self, event: str, subjects: Sequence[str]) -> bool:
        matches = self.matcher is None or any(map(self.matcher.fullmatch, subjects))
        return self.event == event and matches


@dataclass(slots=True)
class Answer:
    """What all hooks of one moment said."""

    refused: str = ""
    """Why it may not be done; empty where it may."""
    decision: str = ""
    """Of a call: `allow` or `ask`; empty where the permissions decide."""
    said: list[str] = field(default_factory=list)
    """For the model; of a compaction, its focus."""
    pins: list[int] = field(default_factory=list)
    """Entries that a compaction must keep."""
    messages_to_user: list[str] = field(default_factory=list)

    @property
    def messages(self) -> list[DeveloperMessage]:
        said = (f"A hook of the user's says: {each}" for each in self.said)
        return [DeveloperMessage(parts=text_parts(text)) for text in said]


# --- reading ----------------------------------------------------------------------------------------------


def hooks_of(cwd: Path, environ: Mapping[str, str] = os.environ) -> tuple[list[Hook], list[str]]:
    """All hooks there are for a folder, the user's own first; and files that are no use, as sentences. Reads
    files: call it off the event loop."""
    hooks: list[Hook] = []
    faults: list[str] = []
    for path, top in hook_files(cwd, environ):
        shown = shown_path(path, top, cwd)
        try:
            data = read_brought(path, top, _MOST_BYTES)
        except ValueError as why:
            faults.append(f"{shown} was left aside: {why}.")
            continue
        if data is not None:
            found, wrong = parsed_hooks(data, shown, of_project=top is not None)
            hooks += found
            faults += wrong
    return hooks, faults


def parsed_hooks(data: bytes, shown: str, *, of_project: bool) -> tuple[list[Hook], list[str]]:
    """The hooks of one file, and what of it is left aside, as sentences."""
    try:
        events = _events(data)
    except ValueError as why:
        return [], [f"{shown} was left aside: {why}."]
    hooks, faults = [], []
    for event, matcher, entry in _entries(events):
        try:
            hooks.append(_hook(event, matcher, entry, shown, of_project))
        except ValueError as why:
            faults.append(f"A hook of {event} in {shown} was left aside: {why}.")
    return hooks, faults


def _events(data: bytes) -> Mapping[str, Any]:
    """What a file says of each event. Raises ValueError where it cannot be read; why, as the end of a
    sentence."""
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
    whole = json_object(data.decode("utf-8", "replace"))
    if whole is None:
        raise ValueError("it is no JSON object")
    events = whole.get("hooks", {})
    if not isinstance(events, dict):
        raise ValueError("`hooks` is no object with the events as its keys")
    return events


def _entries(events: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    for event, groups in events.items():
        for group in groups if isinstance(groups, list) else [groups]:
            entries = group.get("hooks") if isinstance(group, dict) else None
            for entry in entries if isinstance(entries, list) else [None]:
                yield event, group.get("matcher", "") if isinstance(group, dict) else "", entry


def _hook(event: str, matcher: object, entry: object, shown: str, of_project: bool) -> Hook:
    """Raises ValueError where it cannot be run; why, as the end of a sentence."""
    if event not in EVENTS:
        raise ValueError("Foldline has no such event")
    if not isinstance(entry, dict) or entry.get("type") != "command":
        raise ValueError("only those of the type command are run")
    command, timeout = entry.get("command"), entry.get("timeout", _PATIENCE)
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise ValueError("it names no command")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
        raise ValueError(f"its timeout is no number of seconds up to {_LONGEST:.0f}")
    try:
        pattern = re.compile(str(matcher)) if matcher not in ("", "*", None) else None
    except re.error:
        raise ValueError("its matcher is no regular expression") from None
    return Hook(event, pattern, command, float(timeout), shown, of_project)


# --- running ----------------------------------------------------------------------------------------------


async def refresh_hooks(state: "AgentState") -> None:
    """Read the files anew, where hooks are run at all. What is newly left aside is said once."""
    if not state.runs_hooks:
        return
    state.hooks, faults = await asyncio.to_thread(hooks_of, state.cwd)
    state.warn_once(faults)


async def fire(
    state: "AgentState", event: str, payload: Mapping[str, object], subjects: Sequence[str] = ()
) -> Answer:
    """Run the hooks of a moment, all at once; what they said. One that fails is a notice, no more."""
    if state.hooks is None and state.runs_hooks:
        await refresh_hooks(state)
    hooks = [hook for hook in state.hooks or () if hook.hears(event, subjects)]
    answer = Answer()
    if not hooks:
        return answer
    text, top = _input(state, event, payload), str((await asyncio.to_thread(up_to_top, state.cwd))[-1])
    env = environment() | {"CLAUDE_PROJECT_DIR": top, "FOLDLINE_PROJECT_DIR": top}
    ended = await asyncio.gather(*(_run(state, hook, text, env) for hook in hooks))
    for hook, (status, stdout, stderr) in zip(hooks, ended, strict=True):
        try:
            _take(answer, hook, status, stdout, stderr)
        except ValueError as failure:
            command = clip(one_line(hook.command), _SHOWN)
            state.warn(f"The hook `{command}` ({event}, {hook.shown}) {failure}.")
    for message in answer.messages_to_user:
        state.emit(Notice(text=message))
    return answer


def tool_payload(cwd: Path, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """A call as hooks get it: names and keys as scripts for Claude Code know them, ours beside them."""
    known = {_KEYS[key]: value for key, value in arguments.items() if key in _KEYS}
    if isinstance(path := known.get("file_path"), str):
        known["file_path"] = str(cwd / path)
    return {"tool_name": _NAMES.get(name, name), "tool_input": {**arguments, **known}}


def tool_subjects(name: str) -> list[str]:
    return [name, *filter(None, [_NAMES.get(name)])]


def _input(state: "AgentState", event: str, payload: Mapping[str, object]) -> str:
    path = state.session.path
    whole = {
        "hook_event_name": event,
        "session_id": state.session.id,
        "transcript_path": "" if path is None else str(path),
        "cwd": str(state.cwd),
        "permission_mode": state.policy.mode,
        **payload,
    }
    return state.session.mask(json.dumps(whole, ensure_ascii=False))


async def _run(
    state: "AgentState", hook: Hook, text: str, env: Mapping[str, str]
) -> tuple[int | None, str, str]:
    """How a hook ended, and what it wrote on stdout and stderr; None where it did not end by itself, or was
    not started: why stands in place of stderr."""
    box = None
    if hook.of_project and state.policy.mode in SANDBOXED:
        box = state.sandbox if (await state.sandbox_engine()).name else None
        if box is None:
            return None, "", f"was not run: the mode {state.policy.mode} needs a sandbox for it"
    bash, mark, output = shell(), new_mark(), bytearray()

    async def take(chunk: bytes) -> bool:
        output.extend(chunk)
        del output[_MOST_BYTES : -_MOST_BYTES - len(mark)]  # the start of stderr, and all of stdout
        return True

    patience = min(hook.timeout, _AT_THE_END) if hook.event == "SessionEnd" else hook.timeout
    try:
        # A file without a name: whole, however much it is, and in no list of processes.
        with tempfile.TemporaryFile() as given:
            given.write(text.encode("utf-8", "replace"))
            given.seek(0)
            async with asyncio.timeout(patience):
                argv = [bash, "-c", _SCRIPT, bash, hook.command, mark]
                async with spawn(argv, state.cwd, env, box=box, stdin=given.fileno()) as child:
                    status = await child.follow(take)
    except TimeoutError:
        return None, "", f"was ended after {many(round(patience), 'second')}"
    except OSError as error:
        return None, "", f"could not be started: {system_words(error)}"
    stderr, _, stdout = output.decode("utf-8", "replace").partition(mark)
    return status, stdout, stderr if status is not None else "left a process behind"


def _take(answer: Answer, hook: Hook, status: int | None, stdout: str, stderr: str) -> None:
    """Raises ValueError where the hook failed; how, as the end of a sentence."""
    if status is None:
        raise ValueError(stderr)
    if status == _BLOCKED:
        answer.refused = answer.refused or clip(one_line(stderr), _MOST_SAID) or "no reason given"
        return
    if status:
        written = clip(one_line(stderr), _SHOWN)
        raise ValueError(f"failed: {ending(status)}{f', {written}' if written else ''}")
    said = json_object(stdout) if stdout.lstrip().startswith("{") else {}
    if said is None:
        raise ValueError("answered with what is no JSON")
    if not said and stdout.strip() and hook.event in _TELL:
        answer.said.append(clip(stdout.strip(), _MOST_SAID))
    special = said.get("hookSpecificOutput")
    of_event: Mapping[str, Any] = special if isinstance(special, dict) else {}
    decision = of_event.get("permissionDecision") or said.get("decision")
    if decision in ("block", "deny") or said.get("continue") is False:
        reasons = (of_event.get("permissionDecisionReason"), said.get("reason"), said.get("stopReason"))
        reason = one_line(str(next(filter(None, reasons), "no reason given")))
        answer.refused = answer.refused or clip(reason, _MOST_SAID)
    elif decision == "ask" or (decision == "allow" and not hook.of_project and answer.decision != "ask"):
        answer.decision = str(decision)
    context = of_event.get("additionalContext") or said.get("additionalContext") or of_event.get("focus")
    if isinstance(context, str) and context.strip():
        answer.said.append(clip(context.strip(), _MOST_SAID))
    pins = of_event.get("pin")
    answer.pins += [each for each in pins if type(each) is int] if isinstance(pins, list) else []
    message = said.get("systemMessage")
    answer.messages_to_user += [one_line(message)] if isinstance(message, str) and message.strip() else []
