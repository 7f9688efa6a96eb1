"""Runs the tool calls of one step: approval, room, result. Each result is appended before the next call."""

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from foldline.context.tokens import CALL_OVERHEAD, MESSAGE_OVERHEAD, message_tokens
from foldline.protocol import (
    AssistantMessage,
    Rule,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    events,
    operations,
    system_words,
    text_parts,
)
from foldline.protocol.messages import json_object

from .approvals import SANDBOXED, decide, grant, grant_in_project, missing
from .hooks import fire, tool_payload, tool_subjects
from .rewind import recorder
from .state import AgentState
from .tools import Tool, ToolContext, ToolFailure, ToolOutcome, failed
from .tools.text import one_line
from .toolset import offer_found

_CANCELLED = ToolOutcome("Interrupted by the user: the call may have run in part.", True, "cancelled ✗")
_NOT_RUN = ToolOutcome("Not run: the user interrupted before it began.", True, "not run")
_NO_ROOM = ToolOutcome("Not run: window full, call again.", True, "not run")
_REFUSED = {
    "read-only": "Not run: the mode is read-only, where nothing is changed and commands need a sandbox.",
    "plan": "Not run: the mode is plan, where nothing is changed and no command runs; use tools that read.",
}
_NO_ONE_TO_ASK = (
    "This call needs the user's approval, and no person is here to be asked: it did not run. Continue with "
    "what needs none, and say what is left to do."
)
_PLANS = " Then hand in a plan with the tool `plan`."
_ENOUGH = 256
"""Estimated tokens below which a call of a group is not run any more."""
_RESULT_FRAME = MESSAGE_OVERHEAD + CALL_OVERHEAD
"""What a result takes beside its text, in estimated tokens."""


class Calls:
    """Executes tool calls for one agent, and waits for the user's word where it is needed."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._waiting: dict[str, asyncio.Future[operations.Approve]] = {}
        self._fault = ""
        """What is wrong with the rules of the project, as it was said."""
        self._began: dict[str, float] = {}
        """When the tools of the calls that run were started: the time a call takes is not the time the user
        took to allow it."""

    def on_word(self, word: operations.Approve | operations.SendToBackground) -> None:
        """The user's word on a call, which may be a subagent's; ignored where none waits for it."""
        subagents = self._state.subagents
        if isinstance(word, operations.SendToBackground):
            if subagents is not None:
                subagents.send_to_background(word.call_id)
            return
        waiting = self._waiting.get(word.call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(word)
        elif waiting is None and subagents is not None:
            subagents.answer(word)

    async def run(self, calls: Sequence[ToolCallPart]) -> None:
        """Run the calls in order, those that may run at once together; their results come in order, too.
        Cancelled, every call still gets a result that says what became of it."""
        room = self._state.room_for_results()
        left = deque(calls)
        ended: dict[str, ToolOutcome] = {}
        try:
            while left:
                together = self._together(left)[: max(1, room // _ENOUGH)]
                each = room // len(together)
                await _all_of(self._ended(call, each, ended) for call in together)
                for call in together:
                    left.popleft()  # before it is written: that is finished, also when the turn is cancelled
                    result = _result(call, ended[call.call_id])
                    room -= message_tokens(result)
                    await self._finish(result)
        except asyncio.CancelledError:
            for call in left:
                outcome = _CANCELLED if call.call_id in self._began else _NOT_RUN
                await self._finish(_result(call, ended.get(call.call_id, outcome)))
            await self._state.look_after_cancel()
            raise
        finally:
            self._began.clear()
            behind, self._state.behind_results = self._state.behind_results, []
            if behind:
                await self._state.session.append(*behind, durable=True)
            await offer_found(self._state)

    async def refuse(self, answer: AssistantMessage, ending: str) -> None:
        """Give each call of an answer that ended early a result that says so. `ending`: see `early_end`."""
        edits = {tool.spec.name for tool in self._state.tools if tool.level == "edit"}
        for call in answer.calls:
            then = "Call it again if it is still needed."
            if answer.stop_reason == "length":
                then = "Write the file in parts." if call.name in edits else "Call it again."
            text = f"{call.name} was not run: your answer was {ending}. {then}"
            await self._finish(_result(call, ToolOutcome(text, True, "not run ✗")))

    def _together(self, left: Iterable[ToolCallPart]) -> list[ToolCallPart]:
        """The next call, with those behind it that run at the same time."""
        at_once = {tool.spec.name for tool in self._state.tools if tool.at_once}
        first, *others = left
        same = takewhile(lambda call: call.name == first.name, others) if first.name in at_once else ()
        return [first, *same]

    async def _ended(self, call: ToolCallPart, room: int, ended: dict[str, ToolOutcome]) -> None:
        outcome = await self._outcome(call, room)
        began = self._began.get(call.call_id)
        seconds = None if began is None else round(time.monotonic() - began, 3)
        ended[call.call_id] = replace(outcome, seconds=seconds)

    async def _outcome(self, call: ToolCallPart, room: int) -> ToolOutcome:
        state = self._state
        tool = next((tool for tool in state.tools if tool.spec.name == call.name), None)
        title = tool.title(call.parsed()) if tool else ""
        state.emit(events.ToolStarted(call_id=call.call_id, name=call.name, title=title))
        if room < _ENOUGH:
            return _NO_ROOM
        if tool is None:
            names = ", ".join(tool.spec.name for tool in state.tools)
            return ToolOutcome(f"There is no tool {call.name!r}. There are: {names}.", True, "no such tool ✗")
        if call.arguments.strip() and json_object(call.arguments) is None:
            sentence = f"{call.name} was not run: its arguments are no JSON object. Call it again, whole."
            return ToolOutcome(sentence, True, "bad arguments ✗")
        return await self._allowed_run(tool, call, title, room)

    async def _allowed_run(self, tool: Tool, call: ToolCallPart, title: str, room: int) -> ToolOutcome:
        if tool.works_in_folder and self._state.folder.trouble:
            return self._without_folder()
        context = self._state.tool_context(call.call_id, room - _RESULT_FRAME)
        context = replace(context, before_change=recorder((self._state.parent or self._state).session))
        subjects = tool_subjects(tool.spec.name)
        about = tool_payload(context.cwd, tool.spec.name, call.parsed())
        before = await fire(self._state, "PreToolUse", about, subjects)
        if before.refused:
            return ToolOutcome(f"A hook of the user's refuses this call: {before.refused}", True, "hook ✗")
        refusal = await self._refusal(tool, call, title, context, before.decision)
        if refusal is not None:
            return refusal
        if tool.works_in_folder and self._state.folder.trouble:  # hooks and the user may take hours to answer
            return self._without_folder()
        self._began[call.call_id] = time.monotonic()
        outcome = await tool.run(call.parsed(), context)
        if outcome.refused is not None and self._state.policy.mode == "sandboxed":
            again = await self._beyond(tool, call, title, context, outcome)
            outcome = replace(again, made=tuple(dict.fromkeys((*outcome.made, *again.made))))
        if outcome.made:
            outcome = await self._kept(call, title, outcome)
        response = {"content": outcome.text, "is_error": outcome.is_error}
        after = await fire(self._state, "PostToolUse", {**about, "tool_response": response}, subjects)
        said_by_hooks = filter(None, (*before.said, after.refused, *after.said))
        text = "\n".join((outcome.text, *(f"[a hook says: {said}]" for said in said_by_hooks)))
        diff = outcome.diff and context.mask(outcome.diff)
        return replace(outcome, text=context.mask(text), diff=diff)

    def _without_folder(self) -> ToolOutcome:
        return ToolOutcome(self._state.folder.trouble, True, "no folder ✗")

    async def _beyond(
        self, tool: Tool, call: ToolCallPart, title: str, context: ToolContext, outcome: ToolOutcome
    ) -> ToolOutcome:
        """What comes of a command that the sandbox kept from something, once the user was asked about that:
        run again with the hosts it asked for, or outside; as it is, where they decline."""
        wanted = outcome.refused
        assert wanted is not None
        hosts = tuple(Rule(tool="network", pattern=host) for host in wanted.hosts)
        asked = (
            f"{title}\nwants {wanted.words}; run it again, {'with that' if hosts else 'outside the sandbox'}?"
        )
        rules = hosts if len(hosts) == 1 else ()
        word = await self._ask(
            events.ApprovalRequested(
                call_id=call.call_id, name=call.name, title=asked, rules=rules, inside=bool(hosts)
            )
        )
        if word.answer == "deny":
            is_said = word.why or word.no_one_to_ask
            return replace(outcome, text=f"{outcome.text}\n{_declined(word).text}") if is_said else outcome
        self._state.hosts_once = wanted.hosts
        try:
            return await tool.run(call.parsed(), replace(context, box=context.box if hosts else None))
        finally:
            self._state.hosts_once = ()

    async def _kept(self, call: ToolCallPart, title: str, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome of a command that made what acts by itself, once the user was asked about that. No
        sandbox prevents it; what the user does not want gets another name."""
        paths = ", ".join(entry.path for entry in outcome.made)
        asked = f"{title}\nmade {paths}, which acts by itself; keep it?"
        word = await self._ask(events.ApprovalRequested(call_id=call.call_id, name=call.name, title=asked))
        record = self._state.sandbox.acting
        await asyncio.to_thread(record.settle, outcome.made, are_kept=word.answer != "deny")
        if word.answer != "deny":
            return outcome
        aside = []
        for entry in outcome.made:
            try:
                aside.append(f"{entry.path} is {await asyncio.to_thread(record.put_aside, entry)} now")
            except OSError as error:
                aside.append(f"{entry.path} stays: {system_words(error)}")
        why = f" and says: {word.why}" if word.why else ""
        who = "no person is here to allow it" if word.no_one_to_ask else "the user does not want it"
        said = f"[{who}: {'; '.join(aside)}]{why}"
        return replace(outcome, text=f"{outcome.text.rstrip()}\n{said}\n", is_error=True, brief="put aside ✗")

    async def _refusal(
        self, tool: Tool, call: ToolCallPart, title: str, context: ToolContext, by_hook: str
    ) -> ToolOutcome | None:
        """Why a call may not run; None where it may, by what was allowed before, by the user's word, or by a
        hook of theirs."""
        state, arguments = self._state, call.parsed()
        # In a thread: it follows links, and `fetch` asks for the address of a host.
        inside = await asyncio.to_thread(tool.inside, arguments, context)
        offered = tuple(tool.rules(arguments, state.cwd))
        of_project = self._rules_of_project() if inside and offered and tool.level != "read" else frozenset()
        rules = [*offered, *((rule,) for rule in tool.older_rules(arguments))]
        box: Literal["", "part", "whole"] = ""
        if state.policy.mode in SANDBOXED:
            engine = await state.sandbox_engine()
            box = "whole" if engine.holds else "part" if engine.name else ""
            context.box = state.sandbox if box else None
        decided = decide(
            state.policy,
            tool.level,
            rules,
            inside=inside,
            of_project=of_project,
            box=box,
            in_box=tool.in_sandbox,
        )
        if decided == "refuse":
            mode = state.policy.mode
            then = _PLANS if mode == "plan" and state.parent is None else ""
            return ToolOutcome(_REFUSED[mode] + then, True, f"{mode} ✗")
        if (by_hook or decided) == "allow":
            return None
        missed = [missing(state.policy, each, of_project) for each in offered] if inside else []
        wanted = [each for each in missed if each]
        diff = None
        try:
            diff = await asyncio.to_thread(tool.preview, arguments, context)
        except ToolFailure as failure:
            if inside:  # else the failure would show what is in a file that the user has not let it read
                return failed(failure)
        if diff is None and tool.level == "edit":
            # What cannot be compared is shown as it was asked for.
            title = f"{title} {one_line(call.arguments)}"
        question = events.ApprovalRequested(
            call_id=call.call_id,
            name=call.name,
            title=title,
            diff=diff,
            rules=tuple(each[0] for each in wanted),
            also=wanted[0][1:] if wanted else (),
            inside=inside,
        )
        word = await self._ask(question)
        return _declined(word) if word.answer == "deny" else None

    async def _ask(self, question: events.ApprovalRequested) -> operations.Approve:
        """The user's word on a call; what they always allow is granted."""
        word = await self._word_on(question)
        if word.answer in ("always", "project") and 0 <= word.nth < len(question.rules):
            also = question.also if word.nth == 0 else ()
            for rule in (question.rules[word.nth], *also):  # nothing is granted that was not shown
                await (grant if word.answer == "always" else grant_in_project)(self._state, rule)
        return word

    def _rules_of_project(self) -> frozenset[Rule]:
        """What is always allowed in this folder; that its file counts for nothing is said once."""
        rules, fault = self._state.project.known()
        if fault and fault != self._fault:
            self._state.emit(events.Notice(level="warning", text=fault))
        self._fault = fault
        return rules

    async def _word_on(self, question: events.ApprovalRequested) -> operations.Approve:
        emit, call_id = self._state.emit, question.call_id
        waiting: asyncio.Future[operations.Approve] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = waiting
        emit(question)
        allowed = False
        try:
            word = await waiting
            allowed = word.answer != "deny"
        finally:
            del self._waiting[call_id]
            emit(events.ApprovalResolved(call_id=call_id, allowed=allowed))
        return word

    async def _finish(self, result: ToolResultMessage) -> None:
        await self._state.session.append(result)
        self._state.emit(
            events.ToolFinished(
                call_id=result.call_id,
                name=result.name,
                is_error=result.is_error,
                brief=result.details.brief,
            )
        )


def _declined(word: operations.Approve) -> ToolOutcome:
    """The result of a call that was not allowed, with the user's own words if they gave any."""
    if word.no_one_to_ask:
        return ToolOutcome(_NO_ONE_TO_ASK, True, "no one to ask ✗")
    why = f" and says: {word.why}" if word.why else ". Only try it again if asked to."
    return ToolOutcome(f"The user declined this call{why}", True, "declined ✗")


async def _all_of(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run them at once. Whatever ends them early, none of them runs on."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if not task.cancelling():  # else it is waiting for what it has begun to end
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _result(call: ToolCallPart, outcome: ToolOutcome) -> ToolResultMessage:
    return ToolResultMessage(
        call_id=call.call_id,
        name=call.name,
        is_error=outcome.is_error,
        parts=(*text_parts(outcome.text), *outcome.images),
        details=ToolDetails(
            brief=outcome.brief,
            seconds=outcome.seconds,
            files=outcome.files,
            diff=outcome.diff,
            full_output=outcome.full_output,
            child=outcome.child,
        ),
    )
