"""Runs the tool calls of one step: approval, execution and result.

Each result is appended before the next call starts.
"""

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal

from foldline.agent.permissions.approvals import SANDBOXED, decide, missing
from foldline.agent.session.hook_runs import fire, tool_payload, tool_subjects
from foldline.agent.session.permission_changes import grant, grant_in_project
from foldline.agent.session.rewind import recorder
from foldline.agent.session.state import AgentState
from foldline.agent.tools import Tool, ToolContext, ToolFailure, ToolOutcome, failed
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
from foldline.text.harmless import escaped_line
from foldline.view.tokens import CALL_OVERHEAD, MESSAGE_OVERHEAD, message_tokens

from .toolset import offer_found

CANCELLED = ToolOutcome(
    "Interrupted by the user: the call may have run partially.",
    True,
    "cancelled ✗",
)
NOT_RUN = ToolOutcome(
    "Not run: the user interrupted before the call started.",
    True,
    "not run",
)
NO_ROOM = ToolOutcome(
    "Not run: the context window was full. Call it again.",
    True,
    "not run",
)
REFUSED = {
    "read-only": "Not run: in read-only mode, tools cannot change anything, and commands need a sandbox.",
    "plan": "Not run: in plan mode, tools cannot change anything or run commands. Use tools that read.",
}
PLAN_HINT = " Then submit a plan with the `plan` tool."
NO_APPROVAL = (
    "This call was not run: it needs the user's approval, and there is no user to ask. Continue with work "
    "that needs no approval, and say what is left to do."
)
DECLINED = "The user declined this call{reason}"
NO_REASON = ". Only try it again if the user asks for it."
REASON = " and says: {reason}"
REJECTED = "the user rejected this change"
NOBODY_ALLOWED = "there is no user to allow this change"
ENDED_EARLY = "{tool} was not run: your answer was {ending}. {advice}"
NO_TOOL = "There is no tool {name!r}. Available tools: {names}."
BAD_ARGUMENTS = (
    "{tool} was not run: its arguments are not a complete JSON object. Repeat the call."
)
HOOK_REFUSED = "A user hook rejected this call: {reason}"
HOOK_SAYS = "[a user hook says: {text}]"
BLOCKED = "{title}\nneeds {access}. Run it again {how}?"
CREATED = "{title}\ncreated {paths}, which other programs may execute. Keep it?"
RENAMED = "{path} was renamed to {new_path}"
KEPT = "{path} could not be renamed: {reason}"
_LEAST_ROOM = 256
"""Minimum room for a result, in estimated tokens.

If less is left, the step's remaining calls are not run.
"""
_RESULT_FRAME = MESSAGE_OVERHEAD + CALL_OVERHEAD
"""Estimated size of an empty tool result, in tokens."""


@dataclass
class _Execution:
    """A call that is about to run."""

    tool: Tool
    call: ToolCallPart
    title: str
    context: ToolContext

    @property
    def arguments(self) -> dict[str, Any]:
        return self.call.parsed()

    async def run(self) -> ToolOutcome:
        return await self.tool.run(self.arguments, self.context)


class Calls:
    """Runs tool calls for one agent, and waits for approvals."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._waiting: dict[str, asyncio.Future[operations.Approve]] = {}
        self._reported_fault = ""
        """The last reported problem with the project's rules file."""
        self._started: dict[str, float] = {}
        """Monotonic time at which each tool started, by call id.

        A tool starts after any wait for an approval.
        """

    def on_answer(
        self, answer: operations.Approve | operations.SendToBackground
    ) -> None:
        """Handle the user's answer about a call made by this agent or a subagent.

        Late answers are ignored.
        """
        subagents = self._state.subagents
        if isinstance(answer, operations.SendToBackground):
            if subagents is not None:
                subagents.send_to_background(answer.call_id)
            return
        future = self._waiting.get(answer.call_id)
        if future is not None:
            if not future.done():
                future.set_result(answer)
        elif subagents is not None:
            subagents.answer(answer)

    # --- running ---------------------------------------------------------------------------------

    async def run(self, calls: Sequence[ToolCallPart]) -> None:
        """Run the calls and append their results, in order.

        Consecutive calls to the same tool run in parallel if the tool allows it. After a cancellation, every
        call still gets a result.
        """
        state = self._state
        room = state.room_for_results()
        remaining = deque(calls)
        outcomes: dict[str, ToolOutcome] = {}
        try:
            while remaining:
                batch = self._next_batch(remaining)[: max(1, room // _LEAST_ROOM)]
                share = room // len(batch)
                await _run_all(self._run_call(call, share, outcomes) for call in batch)
                for call in batch:
                    remaining.popleft()  # before the append, which is completed even after a cancellation
                    result = _result(call, outcomes[call.call_id])
                    room -= message_tokens(result)
                    await self._append(result)
        except asyncio.CancelledError:
            for call in remaining:
                default = CANCELLED if call.call_id in self._started else NOT_RUN
                await self._append(_result(call, outcomes.get(call.call_id, default)))
            await state.check_sandbox_after_cancel()
            raise
        finally:
            self._started.clear()
            entries = state.after_results
            state.after_results = []
            if entries:
                await state.session.append(*entries, durable=True)
            await offer_found(state)

    async def refuse(self, answer: AssistantMessage, ending: str) -> None:
        """Append an error result for each call in an answer that ended early.

        Args:
            ending: how the answer ended, as returned by `early_end`.
        """
        edit_tools = {
            tool.spec.name for tool in self._state.tools if tool.level == "edit"
        }
        for call in answer.calls:
            advice = "Repeat the call if it is still needed."
            if answer.stop_reason == "length":
                advice = "Repeat the call."
                if call.name in edit_tools:
                    advice = "Write the file in parts."
            text = ENDED_EARLY.format(tool=call.name, ending=ending, advice=advice)
            await self._append(_result(call, ToolOutcome(text, True, "not run ✗")))

    def _next_batch(self, remaining: Iterable[ToolCallPart]) -> list[ToolCallPart]:
        """Return the next calls that may run in parallel."""
        first, *others = remaining
        if not any(
            tool.at_once and tool.spec.name == first.name for tool in self._state.tools
        ):
            return [first]
        return [first, *takewhile(lambda call: call.name == first.name, others)]

    async def _run_call(
        self,
        call: ToolCallPart,
        room: int,
        outcomes: dict[str, ToolOutcome],
    ) -> None:
        outcome = await self._outcome(call, room)
        seconds = None
        start = self._started.get(call.call_id)
        if start is not None:
            seconds = round(time.monotonic() - start, 3)
        outcomes[call.call_id] = replace(outcome, seconds=seconds)

    async def _outcome(self, call: ToolCallPart, room: int) -> ToolOutcome:
        state = self._state
        tool = next((tool for tool in state.tools if tool.spec.name == call.name), None)
        title = tool.title(call.parsed()) if tool else ""
        state.emit(
            events.ToolStarted(call_id=call.call_id, name=call.name, title=title)
        )
        if room < _LEAST_ROOM:
            return NO_ROOM
        if tool is None:
            names = ", ".join(tool.spec.name for tool in state.tools)
            sentence = NO_TOOL.format(name=call.name, names=names)
            return ToolOutcome(sentence, True, "no such tool ✗")
        if call.arguments.strip() and json_object(call.arguments) is None:
            sentence = BAD_ARGUMENTS.format(tool=call.name)
            return ToolOutcome(sentence, True, "bad arguments ✗")
        context = state.tool_context(call.call_id, room - _RESULT_FRAME)
        return await self._run_with_hooks(_Execution(tool, call, title, context))

    async def _run_with_hooks(self, execution: _Execution) -> ToolOutcome:
        state, tool = self._state, execution.tool
        if tool.works_in_folder and state.folder.trouble:
            return self._no_folder()
        context = execution.context
        context.before_change = recorder((state.parent or state).session)
        subjects = tool_subjects(tool.spec.name)
        payload = tool_payload(context.cwd, tool.spec.name, execution.arguments)
        before = await fire(state, "PreToolUse", payload, subjects)
        if before.refused:
            sentence = HOOK_REFUSED.format(reason=before.refused)
            return ToolOutcome(sentence, True, "hook ✗")
        refusal = await self._refusal(execution, before.decision)
        if refusal is not None:
            return refusal
        if (
            tool.works_in_folder and state.folder.trouble
        ):  # hooks and approvals may have taken hours
            return self._no_folder()
        outcome = await self._run_tool(execution)
        response = {"content": outcome.text, "is_error": outcome.is_error}
        after = await fire(
            state, "PostToolUse", {**payload, "tool_response": response}, subjects
        )
        remarks = filter(None, (*before.context, after.refused, *after.context))
        hook_lines = [HOOK_SAYS.format(text=remark) for remark in remarks]
        text = "\n".join((outcome.text, *hook_lines))
        diff = outcome.diff and context.mask(outcome.diff)
        return replace(outcome, text=context.mask(text), diff=diff)

    async def _run_tool(self, execution: _Execution) -> ToolOutcome:
        """Run the tool.

        If the sandbox blocks an access, asks the user about it.
        """
        self._started[execution.call.call_id] = time.monotonic()
        outcome = await execution.run()
        if outcome.refused is not None and self._state.policy.mode == "sandboxed":
            second = await self._retry_beyond_sandbox(execution, outcome)
            new_files = dict.fromkeys((*outcome.made, *second.made))
            outcome = replace(second, made=tuple(new_files))
        if outcome.made:
            outcome = await self._confirm_acting_files(execution, outcome)
        return outcome

    def _no_folder(self) -> ToolOutcome:
        return ToolOutcome(self._state.folder.trouble, True, "no folder ✗")

    async def _append(self, result: ToolResultMessage) -> None:
        await self._state.session.append(result)
        self._state.emit(
            events.ToolFinished(
                call_id=result.call_id,
                name=result.name,
                is_error=result.is_error,
                brief=result.details.brief,
            )
        )

    # --- approval --------------------------------------------------------------------------------

    async def _refusal(
        self, execution: _Execution, hook_decision: str
    ) -> ToolOutcome | None:
        """Return the result of a rejected call, or None if the call may run."""
        state, tool = self._state, execution.tool
        arguments, context = execution.arguments, execution.context
        # In a thread, because `inside` follows links, and that of `fetch` resolves the host.
        inside = await asyncio.to_thread(tool.inside, arguments, context)
        rule_sets = tuple(tool.rules(arguments, state.cwd))
        project_rules = frozenset[Rule]()
        if inside and rule_sets and tool.level != "read":
            project_rules = self._project_rules()
        box = await self._enter_sandbox(context)
        decision = decide(
            state.policy,
            tool.level,
            rule_sets,
            inside=inside,
            of_project=project_rules,
            box=box,
            in_box=tool.in_sandbox,
        )
        if decision == "refuse":
            mode = state.policy.mode
            hint = PLAN_HINT if mode == "plan" and state.parent is None else ""
            return ToolOutcome(REFUSED[mode] + hint, True, f"{mode} ✗")
        if (hook_decision or decision) == "allow":
            return None
        grantable = []
        if inside:
            missing_rules = [
                missing(state.policy, rules, project_rules) for rules in rule_sets
            ]
            grantable = [rules for rules in missing_rules if rules]
        title, diff = execution.title, None
        try:
            diff = await asyncio.to_thread(tool.preview, arguments, context)
        except ToolFailure as failure:
            if inside:  # outside, the failure could reveal content of a file without the user's approval
                return failed(failure)
        if diff is None and tool.level == "edit":
            title = f"{title} {escaped_line(execution.call.arguments)}"
        answer = await self._ask(
            events.ApprovalRequested(
                call_id=execution.call.call_id,
                name=execution.call.name,
                title=title,
                diff=diff,
                rules=tuple(rules[0] for rules in grantable),
                also=grantable[0][1:] if grantable else (),
                inside=inside,
            )
        )
        return _declined(answer) if answer.answer == "deny" else None

    async def _enter_sandbox(
        self, context: ToolContext
    ) -> Literal["", "part", "whole"]:
        """Set up the sandbox for a call, if the mode requires one.

        Returns:
            Whether the sandbox confines the call fully, partly, or not at all.
        """
        if self._state.policy.mode not in SANDBOXED:
            return ""
        engine = await self._state.sandbox_engine()
        context.box = self._state.sandbox if engine.holds or engine.name else None
        if engine.holds:
            return "whole"
        return "part" if engine.name else ""

    async def _retry_beyond_sandbox(
        self, execution: _Execution, outcome: ToolOutcome
    ) -> ToolOutcome:
        """Ask whether to run a command again with fewer restrictions.

        The command may then reach the hosts that it requested, or run outside the sandbox.

        Returns:
            The new outcome, or the old one if the user declines.
        """
        refused = outcome.refused
        assert refused is not None
        hosts = tuple(Rule(tool="network", pattern=host) for host in refused.hosts)
        how = "with this access" if hosts else "outside the sandbox"
        answer = await self._ask(
            events.ApprovalRequested(
                call_id=execution.call.call_id,
                name=execution.call.name,
                title=BLOCKED.format(
                    title=execution.title, access=refused.words, how=how
                ),
                rules=hosts if len(hosts) == 1 else (),
                inside=bool(hosts),
            )
        )
        if answer.answer == "deny":
            if not answer.why and not answer.no_one_to_ask:
                return outcome
            return replace(outcome, text=f"{outcome.text}\n{_declined(answer).text}")
        context = execution.context
        if not hosts:
            context = replace(context, box=None)
        self._state.temporary_hosts = refused.hosts
        try:
            return await replace(execution, context=context).run()
        finally:
            self._state.temporary_hosts = ()

    async def _confirm_acting_files(
        self, execution: _Execution, outcome: ToolOutcome
    ) -> ToolOutcome:
        """Ask whether to keep self-executing files that a command created.

        If the user declines, the files are renamed. The sandbox cannot prevent commands from creating such
        files.
        """
        paths = ", ".join(entry.path for entry in outcome.made)
        answer = await self._ask(
            events.ApprovalRequested(
                call_id=execution.call.call_id,
                name=execution.call.name,
                title=CREATED.format(title=execution.title, paths=paths),
            )
        )
        record = self._state.sandbox.acting
        is_kept = answer.answer != "deny"
        await asyncio.to_thread(record.settle, outcome.made, are_kept=is_kept)
        if is_kept:
            return outcome
        changes = []
        for entry in outcome.made:
            try:
                new_path = await asyncio.to_thread(record.put_aside, entry)
                changes.append(RENAMED.format(path=entry.path, new_path=new_path))
            except OSError as error:
                reason = system_words(error)
                changes.append(KEPT.format(path=entry.path, reason=reason))
        why = REASON.format(reason=answer.why) if answer.why else ""
        who = NOBODY_ALLOWED if answer.no_one_to_ask else REJECTED
        remark = f"[{who}: {'; '.join(changes)}]{why}"
        text = f"{outcome.text.rstrip()}\n{remark}\n"
        return replace(outcome, text=text, is_error=True, brief="put aside ✗")

    async def _ask(self, question: events.ApprovalRequested) -> operations.Approve:
        """Ask about a call, and grant rules if the user allows similar calls from now on."""
        answer = await self._answer_to(question)
        is_always = answer.answer in ("always", "project")
        if is_always and 0 <= answer.nth < len(question.rules):
            rules = [question.rules[answer.nth]]
            if answer.nth == 0:
                rules += question.also  # the user saw only those of the first rule
            add_rule = grant if answer.answer == "always" else grant_in_project
            for rule in rules:
                await add_rule(self._state, rule)
        return answer

    async def _answer_to(
        self, question: events.ApprovalRequested
    ) -> operations.Approve:
        emit = self._state.emit
        call_id = question.call_id
        future: asyncio.Future[operations.Approve] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting[call_id] = future
        emit(question)
        allowed = False
        try:
            answer = await future
            allowed = answer.answer != "deny"
        finally:
            del self._waiting[call_id]
            emit(events.ApprovalResolved(call_id=call_id, allowed=allowed))
        return answer

    def _project_rules(self) -> frozenset[Rule]:
        """Return this folder's rules.

        Warns once if the rules file cannot be used.
        """
        rules, fault = self._state.project.rules_and_fault()
        if fault and fault != self._reported_fault:
            self._state.warn(fault)
        self._reported_fault = fault
        return rules


def _declined(answer: operations.Approve) -> ToolOutcome:
    """Return the result of a declined call, with the user's reason."""
    if answer.no_one_to_ask:
        return ToolOutcome(NO_APPROVAL, True, "no one to ask ✗")
    why = REASON.format(reason=answer.why) if answer.why else NO_REASON
    return ToolOutcome(DECLINED.format(reason=why), True, "declined ✗")


async def _run_all(coroutines: Iterable[Coroutine[None, None, None]]) -> None:
    """Run coroutines in parallel.

    If one fails, the others are cancelled and awaited.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            if (
                not task.cancelling()
            ):  # a cancelled task may be waiting for its clean-up
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _result(call: ToolCallPart, outcome: ToolOutcome) -> ToolResultMessage:
    details = ToolDetails(
        brief=outcome.brief,
        seconds=outcome.seconds,
        files=outcome.files,
        diff=outcome.diff,
        full_output=outcome.full_output,
        child=outcome.child,
    )
    return ToolResultMessage(
        call_id=call.call_id,
        name=call.name,
        is_error=outcome.is_error,
        parts=(*text_parts(outcome.text), *outcome.images),
        details=details,
    )
