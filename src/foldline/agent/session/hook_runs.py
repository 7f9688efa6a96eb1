"""Runs hooks: writes the event to their stdin, and applies the decisions in their output."""

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldline.agent.extensions.hooks import MOST_BYTES, Hook, hooks_of
from foldline.agent.permissions.approvals import SANDBOXED
from foldline.agent.project.discovery import up_to_top
from foldline.agent.tools.process import ending, environment, new_mark, spawn
from foldline.programs import shell
from foldline.protocol import DeveloperMessage, system_words, text_parts
from foldline.protocol.messages import json_object
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many
from foldline.text.shorten import clip

from .state import AgentState

HOOK_SAYS = "A user hook says: {text}"
HOOK_FAILED = "The hook `{command}` ({event}, {path}) {problem}."
NEEDS_SANDBOX = "was not run: hooks need a sandbox in {mode} mode"
TIMED_OUT = "timed out after {time}"
NOT_STARTED = "could not be started: {reason}"
LEFT_PROCESS = "left a process behind"
BAD_JSON = "printed invalid JSON"
NO_REASON = "no reason given"

_PLAIN_TEXT_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PreCompact")
"""Events whose hooks may print plain text for the model.

For `PreCompact`, the text becomes the focus of the compaction.
"""
_REFUSED_STATUS = 2
"""Exit code of a hook that rejects the event.

The hook prints the reason on stderr.
"""
_END_TIMEOUT = 1.0
"""Timeout for `SessionEnd` hooks, in seconds. The user waits for them when quitting."""
_MOST_CONTEXT = 10_000
"""Maximum length of the text that one hook may send to the model, in characters. The rest is cut off."""
_SHOWN = 60
"""Maximum length of a hook's command, and of its output, in a notice, in characters."""
_CLAUDE_TOOLS: Final = {
    "bash": "Bash",
    "edit": "Edit",
    "write": "Write",
    "read": "Read",
    "grep": "Grep",
    "glob": "Glob",
    "ls": "LS",
    "fetch": "WebFetch",
    "todo": "TodoWrite",
}
"""Claude Code's names for our tools.

Matchers and scripts written for Claude Code use these names."""
_CLAUDE_ARGUMENTS: Final = {
    "path": "file_path",
    "old": "old_string",
    "new": "new_string",
}
"""Claude Code's names for our tools' arguments, passed in addition to ours."""
_SCRIPT = r"""set -o pipefail
out=$("$0" -c "$1" | { head -c 256000; cat >/dev/null; })
status=$?
printf %s%s "$2" "$out"
exit $status"""
"""Shell script that runs a hook (`$1`).

It prints stderr, a marker (`$2`) and stdout, in this order.
"""


@dataclass(slots=True)
class HookOutcome:
    """The combined results of all hooks of an event."""

    refused: str = ""
    """Reason for the rejection; empty if no hook rejected the event."""
    decision: str = ""
    """Decision about a call: `allow` or `ask`. If empty, the permissions decide."""
    context: list[str] = field(default_factory=list)
    """Messages for the model. For a compaction, they become its focus."""
    pins: list[int] = field(default_factory=list)
    """Indexes of entries that a compaction must keep."""
    messages_to_user: list[str] = field(default_factory=list)

    @property
    def messages(self) -> list[DeveloperMessage]:
        texts = [HOOK_SAYS.format(text=text) for text in self.context]
        return [DeveloperMessage(parts=text_parts(text)) for text in texts]


class _HookRun(NamedTuple):
    """The result of one hook program."""

    status: int | None = None
    """Exit code; None if the program did not start, or was ended before it exited."""
    stdout: str = ""
    stderr: str = ""
    """Text from standard error. If `status` is None, a clause that states the reason."""


async def refresh_hooks(state: AgentState) -> None:
    """Reread the hook files, if hooks are on.

    Warns once about ignored files.
    """
    if not state.runs_hooks:
        return
    state.hooks, faults = await asyncio.to_thread(hooks_of, state.cwd)
    state.warn_once(faults)


async def fire(
    state: AgentState,
    event: str,
    payload: Mapping[str, object],
    subjects: Sequence[str] = (),
) -> HookOutcome:
    """Run all hooks for an event in parallel.

    If a hook fails, the user gets a warning, and the agent continues.
    """
    if state.hooks is None:
        await refresh_hooks(state)
    hooks = [hook for hook in state.hooks or () if hook.matches(event, subjects)]
    outcome = HookOutcome()
    if not hooks:
        return outcome
    text = _input(state, event, payload)
    folders = await asyncio.to_thread(up_to_top, state.cwd)
    top = str(folders[-1])
    env = environment() | {"CLAUDE_PROJECT_DIR": top, "FOLDLINE_PROJECT_DIR": top}
    runs = await asyncio.gather(*(_run(state, hook, text, env) for hook in hooks))
    for hook, run in zip(hooks, runs, strict=True):
        try:
            _add_run(outcome, hook, run)
        except ValueError as failure:
            sentence = HOOK_FAILED.format(
                command=clip(escaped_line(hook.command), _SHOWN),
                event=event,
                path=hook.shown,
                problem=failure,
            )
            state.warn(sentence)
    for message in outcome.messages_to_user:
        state.notify(message)
    return outcome


def tool_payload(
    cwd: Path,
    name: str,
    arguments: Mapping[str, object],
) -> dict[str, object]:
    """Describe a call for hooks.

    Uses Claude Code's name for the tool, and both our names and Claude Code's for the arguments.
    """
    tool_input = dict(arguments)
    for key, claude_key in _CLAUDE_ARGUMENTS.items():
        if key in arguments:
            tool_input[claude_key] = arguments[key]
    path = arguments.get("path")
    if isinstance(path, str):
        tool_input["file_path"] = str(cwd / path)
    return {"tool_name": _CLAUDE_TOOLS.get(name, name), "tool_input": tool_input}


def tool_subjects(name: str) -> list[str]:
    """Return the names by which a matcher may refer to a tool."""
    return [name, _CLAUDE_TOOLS[name]] if name in _CLAUDE_TOOLS else [name]


def _input(state: AgentState, event: str, payload: Mapping[str, object]) -> str:
    path = state.session.path
    content = {
        "hook_event_name": event,
        "session_id": state.session.id,
        "transcript_path": "" if path is None else str(path),
        "cwd": str(state.cwd),
        "permission_mode": state.policy.mode,
        **payload,
    }
    return state.session.mask(json.dumps(content, ensure_ascii=False))


async def _run(
    state: AgentState,
    hook: Hook,
    text: str,
    env: Mapping[str, str],
) -> _HookRun:
    box = None
    if hook.of_project and state.policy.mode in SANDBOXED:
        engine = await state.sandbox_engine()
        if not engine.name:
            return _HookRun(stderr=NEEDS_SANDBOX.format(mode=state.policy.mode))
        box = state.sandbox
    bash = shell()
    mark = new_mark()
    output = bytearray()

    async def take(chunk: bytes) -> bool:
        output.extend(chunk)
        del output[
            MOST_BYTES : -MOST_BYTES - len(mark)
        ]  # keep the start of stderr and all of stdout
        return True

    timeout = hook.timeout
    if hook.event == "SessionEnd":
        timeout = min(timeout, _END_TIMEOUT)
    try:
        # Unlike an argument, an unnamed file has no size limit and is not visible in the process list.
        with tempfile.TemporaryFile() as stdin:
            stdin.write(text.encode("utf-8", "replace"))
            stdin.seek(0)
            async with asyncio.timeout(timeout):
                argv = [bash, "-c", _SCRIPT, bash, hook.command, mark]
                async with spawn(
                    argv, state.cwd, env, box=box, stdin=stdin.fileno()
                ) as child:
                    status = await child.follow(take)
    except TimeoutError:
        time = many(round(timeout), "second")
        return _HookRun(stderr=TIMED_OUT.format(time=time))
    except OSError as error:
        return _HookRun(stderr=NOT_STARTED.format(reason=system_words(error)))
    if status is None:
        return _HookRun(stderr=LEFT_PROCESS)
    stderr, _, stdout = output.decode("utf-8", "replace").partition(mark)
    return _HookRun(status, stdout, stderr)


def _add_run(outcome: HookOutcome, hook: Hook, run: _HookRun) -> None:
    """Merge the result of one hook into the outcome.

    Raises:
        ValueError: the hook failed. The message is a clause that states the reason.
    """
    if run.status is None:
        raise ValueError(run.stderr)
    if run.status == _REFUSED_STATUS:
        _refuse(outcome, escaped_line(run.stderr) or NO_REASON)
        return
    if run.status:
        output = clip(escaped_line(run.stderr), _SHOWN)
        failure = ", ".join(filter(None, (ending(run.status), output)))
        raise ValueError(f"failed: {failure}")
    answer: Mapping[str, Any] | None = {}
    if run.stdout.lstrip().startswith("{"):
        answer = json_object(run.stdout)
    if answer is None:
        raise ValueError(BAD_JSON)
    if answer:
        _add_answer(outcome, hook, answer)
    elif run.stdout.strip() and hook.event in _PLAIN_TEXT_EVENTS:
        outcome.context.append(clip(run.stdout.strip(), _MOST_CONTEXT))


def _add_answer(outcome: HookOutcome, hook: Hook, answer: Mapping[str, Any]) -> None:
    """Merge a hook's JSON output into the outcome.

    The fields are Claude Code's, plus `focus` and `pin`.
    """
    special = answer.get("hookSpecificOutput")
    of_event: Mapping[str, Any] = special if isinstance(special, dict) else {}
    decision = of_event.get("permissionDecision") or answer.get("decision")
    if decision in ("block", "deny") or answer.get("continue") is False:
        reason = (
            of_event.get("permissionDecisionReason")
            or answer.get("reason")
            or answer.get("stopReason")
            or NO_REASON
        )
        _refuse(outcome, escaped_line(str(reason)))
    elif decision == "ask":
        outcome.decision = "ask"
    elif decision == "allow" and not hook.of_project and outcome.decision != "ask":
        outcome.decision = "allow"
    context = (
        of_event.get("additionalContext")
        or answer.get("additionalContext")
        or of_event.get("focus")
    )
    if isinstance(context, str) and context.strip():
        outcome.context.append(clip(context.strip(), _MOST_CONTEXT))
    pins = of_event.get("pin")
    if isinstance(pins, list):
        outcome.pins += [pin for pin in pins if type(pin) is int]
    message = answer.get("systemMessage")
    if isinstance(message, str) and message.strip():
        outcome.messages_to_user.append(escaped_line(message))


def _refuse(outcome: HookOutcome, reason: str) -> None:
    """Set the reason for a rejection.

    If several hooks reject, the first reason is kept.
    """
    outcome.refused = outcome.refused or clip(reason, _MOST_CONTEXT)
