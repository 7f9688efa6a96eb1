"""One session in an editor: its prompts and commands, its questions as permissions or as forms."""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from acp import RequestError, helpers, schema
from acp.interfaces import Client

from foldline.agent import Agent
from foldline.agent.skill_loading import look_around
from foldline.agent.trust_question import ask_trust
from foldline.cli.plain.commands import carry_out, handlers, usage
from foldline.cli.plain.narrator import Answer, Asked, asked_since
from foldline.context.harmless import nothing_hidden_lines
from foldline.formats.writers.markdown import fenced
from foldline.protocol import AssistantMessage, FoldlineError, Part, events, operations, text_parts
from foldline.protocol.events import Event
from foldline.protocol.messages import Usage
from foldline.tui.keys.commands import COMMANDS, Command, own_command
from foldline.tui.machine import reduce
from foldline.tui.prompting.inputs import SlashCall, UnknownSlash, parse_input
from foldline.tui.runner import Runner
from foldline.tui.state import ChatState, Question

from .blocks import Block, prompt_of
from .feed import Feed
from .options import Options, asked_for, config_options, listed_models
from .updates import Call, Content, diffs

FAILED: Final = -32603
"""The code of JSON-RPC for what went wrong inside."""
_TURNS: Final = ("run_agent", "retry")
_STOPPED: Final[Mapping[str | None, schema.StopReason]] = {
    "length": "max_tokens",
    "repeated": "max_tokens",
    "filtered": "refusal",
}
"""Why an answer ended, where that is not that it was given."""
_ALLOWING: Final[Mapping[str, schema.PermissionOptionKind]] = {
    "once": "allow_once",
    "always": "allow_always",
    "project": "allow_always",
    "deny": "reject_once",
}


class Conversation:
    """Drives one agent for a client, by the runner that the chat has, too."""

    def __init__(self, agent: Agent, client: Client, id: str, *, has_forms: bool) -> None:
        """`has_forms`: the client shows forms, in which something may be written."""
        self.agent = agent
        self.feed = Feed(agent, client, id)
        self._client = client
        self._id = id
        self._has_forms = has_forms
        self._state = ChatState(model=agent.state.llm.info.id, edits=agent.state.policy.mode)
        self._runner = Runner(agent, self._hear, self._keep_unsent, self._parts_of)
        self._parts: dict[str, tuple[Part, ...]] = {}
        """What the model is sent for the prompt that is under way."""
        self._turn = asyncio.Lock()
        """Held by the prompt that is answered: a further one waits for it."""
        self._cancels = 0
        self._unsent = False
        self._end: events.TaskFinished | None = None
        """How the newest turn of this prompt ended."""
        self._answer: AssistantMessage | None = None
        self._usage = Usage()
        """What this prompt has used."""
        self._lines: list[str] = []
        """What the command that runs has answered."""
        self._handlers = handlers(self._runner, self._lines.append)
        self._offered: list[schema.AvailableCommand] = []
        """What the client was told last that can be called."""
        self._others: set[asyncio.Task[None]] = set()
        agent.executor.subscribe(self._hear)
        agent.state.choices.read = False

    def start(self) -> None:
        """Once the client knows the session: what can be called, and what takes a while to learn."""
        self.agent.start()
        self._aside(ask_trust(self.agent.state))
        self._aside(self._offer_commands())
        self._aside(self._learn_models())

    async def aclose(self) -> None:
        """Cancels what runs, and gives the session back."""
        for task in self._others:
            task.cancel()
        await self._runner.aclose()
        await self.feed.flush()

    async def set_option(self, option: str, value: object) -> Options:
        """Sets one of the options; all of them then.

        Raises:
            FoldlineError: there is no such option or value, or the model cannot be asked.
        """
        executor, change = self.agent.executor, asked_for(self.agent, option, value)
        if change is not None:
            finished = await executor.wait_for(executor.submit(change))
            if finished.outcome == "failed":
                raise FoldlineError(finished.error or "It could not be set.")
            await executor.settle()
        self.feed.figures()
        await self.feed.flush()
        return config_options(self.agent, self.feed.models)

    async def _offer_commands(self) -> None:
        """Tells what can be called where that has changed: commands, the user's own, and skills."""
        await look_around(self.agent.state)
        ours = (each for each in COMMANDS if each.slash and each.id in self._handlers)
        own = map(own_command, self.agent.state.catalogue.by_name.values())
        offered = [*map(_available, (*ours, *own))]
        if offered != self._offered:
            self._offered = offered
            self.feed.post(helpers.update_available_commands(offered))

    async def _learn_models(self) -> None:
        await self.agent.state.learn_window()
        self.feed.models = await listed_models(self.agent)
        self.feed.figures()

    # --- prompts ------------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Block]) -> schema.PromptResponse:
        """Answers a prompt, or carries out a command.

        Raises:
            RequestError: the turn failed, or the prompt was not sent.
            FoldlineError: the prompt holds what cannot be taken.
        """
        text, parts = prompt_of(blocks, self.agent.state.cwd)
        cancels = self._cancels
        async with self._turn:
            await self._offer_commands()
            stop: schema.StopReason = "cancelled"
            if self._cancels == cancels:
                self._end, self._answer, self._usage, self._unsent = None, None, Usage(), False
                await self._take(text, parts)
                stop = "cancelled" if self._cancels != cancels else self._stop_reason()
            self.feed.figures()
            await self.feed.flush()
            return schema.PromptResponse(stop_reason=stop, usage=_reported(self._usage))

    def cancel(self) -> None:
        """Ends the turn that runs, and all that wait for it."""
        self._cancels += 1
        self._runner.cancel()

    async def _take(self, text: str, parts: tuple[Part, ...]) -> None:
        match parse_input(text, self.agent.state.catalogue.by_name) if text.startswith("/") else None:
            case SlashCall(command, argument):
                self._lines.clear()
                await carry_out(
                    command, argument, self._handlers, self._runner, self._state, self._lines.append
                )
                await self._runner.quiet()
                if answer := "\n".join(self._lines):
                    self.feed.say(answer)
            case UnknownSlash() as unknown:
                self.feed.say(str(unknown))
            case _:
                # A `!` is no command of the user's own shell here: editors have terminals of their own.
                text = f" {text}" if text.startswith("!") else text
                self._parts = {text: parts}
                self._runner.send(text)
                await self._runner.quiet()
        if self._runner.unsent:  # cancelled before it was on its way
            self._runner.edit_queue(self._runner.unsent, (), paused=False)

    def _parts_of(self, text: str) -> tuple[Part, ...]:
        return self._parts.get(text) or text_parts(text)

    def _keep_unsent(self, _: str) -> bool:
        """A prompt that was not sent: the client still has it."""
        self._unsent = True
        return True

    def _stop_reason(self) -> schema.StopReason:
        """How the turn ended, where there was one.

        Raises:
            RequestError: it failed, or did not begin.
        """
        end = self._end
        if end is None:
            return "end_turn"
        if end.outcome == "cancelled":
            return "cancelled"
        if end.error and self.agent.state.bounds.reached:
            self.feed.say(end.error)
            return "max_turn_requests"
        if end.error or self._unsent:
            raise RequestError(FAILED, end.error or f"Not sent: {self.agent.state.unsent}")
        return _STOPPED.get(self._answer.stop_reason if self._answer else None, "end_turn")

    # --- events, and questions among them ------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        before, self._state = self._state, reduce(self._state, event, time.monotonic())
        self.feed.hear(event)
        match event:
            case events.UsageReported():
                self._usage += event.usage
            case events.EntryAppended(entry=AssistantMessage() as answer):
                self._answer = answer
            case events.TaskFinished() if event.operation in _TURNS:
                self._end = event
            case events.TaskFinished(outcome="failed"):
                self.feed.say(event.error or "That failed.")
            case _:
                pass
        for asked in asked_since(before, self._state):
            question = next((each for each in self._state.questions if each.id == asked.id), None)
            self._aside(self._ask(asked, question))

    async def _ask(self, asked: Asked, question: Question | None) -> None:
        """Has the client ask. Where nobody answers there, the last answer counts: it allows nothing."""
        written = next((answer for answer in asked.answers if answer.asks == "line"), None)
        is_choice = question is not None and question.kind == "choice"
        await self.feed.flush()
        cancels, operation = self._cancels, asked.unanswered
        try:
            if self._has_forms and is_choice and written is not None:
                operation = await self._filled_in(asked, written)
            else:
                operation = await self._permitted(asked, question)
        except ConnectionError:
            return  # nobody is there any more
        except (RequestError, ValueError):
            pass
        if self._cancels == cancels:
            self._runner.submit(operation)

    async def _permitted(self, asked: Asked, question: Question | None) -> operations.Operation:
        """What the chosen answer asks of the agent; the last one if none was chosen."""
        options = [
            schema.PermissionOption(
                option_id=answer.key, name=answer.sentence, kind=_allows(answer.operation)
            )
            for answer in _listed(asked)
        ]
        call = self._asked_call(asked, question)
        outcome = (await self._client.request_permission(self._id, call, options)).outcome
        chosen = asked.taken(outcome.option_id) if isinstance(outcome, schema.AllowedOutcome) else None
        return (chosen or asked.answers[-1]).operation

    async def _filled_in(self, asked: Asked, written: Answer) -> operations.Operation:
        """The same by a form, in which the answer may be `written` as well: then that one counts."""
        options = [schema.EnumOption(const=answer.key, title=answer.sentence) for answer in _listed(asked)]
        fields: dict[str, Any] = {
            "answer": schema.ElicitationStringPropertySchema(type="string", title="Answer", one_of=options),
            "words": schema.ElicitationStringPropertySchema(
                type="string", title=written.sentence, default=written.usual
            ),
        }
        form = schema.ElicitationSchema(properties=fields)
        mode = schema.ElicitationFormSessionMode(session_id=self._id, requested_schema=form)
        response = await self._client.create_elicitation("\n".join(asked.lines), mode)
        if not isinstance(response, schema.AcceptElicitationResponse):
            return asked.answers[-1].operation
        key, words = (str((response.content or {}).get(name) or "") for name in fields)
        if words.strip() and not (key and words == written.usual):
            return written.with_line(words)
        chosen = asked.taken(key) or asked.answers[-1]
        return chosen.operation

    def _asked_call(self, asked: Asked, question: Question | None) -> schema.ToolCallUpdate:
        """What is asked about, as a call. A choice, or a proposal, is one of its own."""
        title, *lines = asked.lines
        known = self.feed.entry_updates.calls.get(asked.id, Call(asked.id, title))
        content: list[Content] = []
        text = "\n".join(lines)
        if question is not None and question.kind == "call":
            content = [diff.content for diff in diffs(question.diff or "", self.agent.state.cwd)]
            text = f"{title}\n{_as_it_is(question.title)}"
            if content and not question.outside:
                text = ""  # clients show diffs larger
        elif question is not None and question.asks_agreement and not question.is_markdown:
            text = _as_it_is(question.title)
        if text:
            content.insert(0, helpers.tool_content(helpers.text_block(text)))
        return schema.ToolCallUpdate(
            tool_call_id=known.id, title=known.title, status="pending", content=content or None
        )

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)


def _available(command: Command) -> schema.AvailableCommand:
    hint = usage(command).partition(" ")[2]
    return schema.AvailableCommand(
        name=command.slash,
        description=command.title,
        input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=hint)) if hint else None,
    )


def _as_it_is(text: str) -> str:
    """Text for somebody who is to agree to it: no client draws it as Markdown, which could hide something."""
    return fenced("\n".join(nothing_hidden_lines(text)), "")


def _listed(asked: Asked) -> list[Answer]:
    """The answers that can be given without writing something."""
    return [answer for answer in asked.answers if not answer.asks or answer.key == "n"]


def _allows(operation: operations.Operation) -> schema.PermissionOptionKind:
    match operation:
        case operations.Approve():
            return _ALLOWING[operation.answer]
        case operations.DiscardProposal() | operations.Choose(key="" | "n"):
            return "reject_once"
        case _:
            return "allow_once"


def _reported(usage: Usage) -> schema.Usage | None:
    if not usage.total:
        return None
    return schema.Usage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        thought_tokens=usage.reasoning,
        cached_read_tokens=usage.cached,
        cached_write_tokens=usage.written,
    )
