"""A session in an editor, with its prompts, commands, and questions to the user."""

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from foldline.agent import Agent
from foldline.agent.session.skill_loading import look_around
from foldline.agent.session.trust_question import ask_trust
from foldline.cli.plain.commands import carry_out, handlers, usage
from foldline.formats.writers.markdown import fenced
from foldline.frontend.commands import COMMANDS, ChatCommand, own_command
from foldline.frontend.inputs import SlashCall, UnknownSlash, parse_input
from foldline.frontend.questions import (
    new_questions,
    operation_of,
    option_for,
    option_label,
    options_of,
    question_lines,
    unanswered,
)
from foldline.frontend.reduce import reduce
from foldline.frontend.runner import Runner
from foldline.frontend.state import Answerable, ChatState, Question
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    Part,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.protocol.messages import Usage
from foldline.text.harmless import nothing_hidden_lines

from . import helpers, schema
from .blocks import Block, prompt_of
from .connection import INTERNAL_ERROR, ClientConnection, RequestError
from .feed import UpdateFeed
from .options import Options, config_options, listed_models, set_option
from .updates import ClientCall, Content, diffs

_TURNS: Final = ("run_agent", "retry")
"""Types of operations that run a turn."""
_STOPPED: Final[Mapping[str | None, schema.StopReason]] = {
    "length": "max_tokens",
    "repeated": "max_tokens",
    "filtered": "refusal",
}
"""The protocol's stop reasons, by the stop reason of an incomplete answer."""
_OPTION_KINDS: Final[Mapping[str, schema.PermissionOptionKind]] = {
    "once": "allow_once",
    "always": "allow_always",
    "project": "allow_always",
    "deny": "reject_once",
}


class EditorSession:
    """Runs an agent for a client, using the same runner as the chat.

    Args:
        has_forms: whether the client can show forms with text fields.
    """

    def __init__(
        self, agent: Agent, client: ClientConnection, id: str, *, has_forms: bool
    ) -> None:
        self.agent = agent
        self.feed = UpdateFeed(agent, client, id)
        self._client = client
        self._id = id
        self._has_forms = has_forms
        self._state = ChatState(
            model=agent.state.models.llm.info.id,
            edits=agent.state.permissions.policy.mode,
        )
        self._runner = Runner(agent, self._on_event, self._keep_unsent, self._parts_of)
        self._parts: dict[str, tuple[Part, ...]] = {}
        """The current prompt's message parts, by the prompt's text."""
        self._turn = asyncio.Lock()
        """A lock that is held while a prompt is being answered.

        The next prompt waits for it.
        """
        self._cancels = 0
        self._unsent = False
        self._end: events.TaskFinished | None = None
        """The end of the last turn started by the current prompt."""
        self._answer: AssistantMessage | None = None
        self._usage = Usage()
        """Number of tokens used for the current prompt."""
        self._lines: list[str] = []
        """The running command's output."""
        self._handlers = handlers(self._runner, self._lines.append)
        self._sent_commands: list[schema.AvailableCommand] = []
        """The commands that were sent to the client last."""
        self._background: set[asyncio.Task[None]] = set()
        agent.executor.subscribe(self._on_event)
        agent.state.permissions.choices.is_read = False

    def start(self) -> None:
        """Start the agent, and send the client its commands and models.

        The client must already know the session's id.
        """
        self.agent.start()
        self._run_in_background(ask_trust(self.agent.state.permissions))
        self._run_in_background(self._send_commands())
        self._run_in_background(self._list_models())

    async def aclose(self) -> None:
        """Cancel everything that is running, and close the session."""
        for task in self._background:
            task.cancel()
        await self._runner.aclose()
        await self.feed.flush()

    async def set_option(self, option: str, value: object) -> Options:
        """Set an option, and return all options with their values.

        Raises:
            FoldlineError: there is no such option or value, or the model is not available.
        """
        executor = self.agent.executor
        operation = set_option(self.agent, option, value)
        if operation is not None:
            end = await executor.wait_for(executor.submit(operation))
            if end.outcome == "failed":
                raise FoldlineError(end.error or "The option could not be set.")
            await executor.settle()
        self.feed.send_figures()
        await self.feed.flush()
        return config_options(self.agent, self.feed.models)

    async def _send_commands(self) -> None:
        """Send the client all commands, if any have changed.

        These are slash commands, the user's own commands, and skills.
        """
        await look_around(self.agent.state)
        built_in = [
            command
            for command in COMMANDS
            if command.slash and command.id in self._handlers
        ]
        own = map(own_command, self.agent.state.tools.catalogue.by_name.values())
        commands = [*map(_available, (*built_in, *own))]
        if commands != self._sent_commands:
            self._sent_commands = commands
            self.feed.post(helpers.update_available_commands(commands))

    async def _list_models(self) -> None:
        await self.agent.state.models.learn_window()
        self.feed.models = await listed_models(self.agent)
        self.feed.send_figures()

    # --- prompts ------------------------------------------------------------------------------------------

    async def prompt(self, blocks: Sequence[Block]) -> schema.PromptResponse:
        """Answer a prompt, or run a command.

        Raises:
            RequestError: the turn failed, or the prompt was not sent.
            FoldlineError: the prompt contains unsupported content.
        """
        text, parts = prompt_of(blocks, self.agent.state.cwd)
        cancels = self._cancels
        async with self._turn:
            await self._send_commands()
            if self._cancels == cancels:
                self._end = None
                self._answer = None
                self._usage = Usage()
                self._unsent = False
                await self._run(text, parts)
            stop = self._stop_reason() if self._cancels == cancels else "cancelled"
            self.feed.send_figures()
            await self.feed.flush()
            return schema.PromptResponse(stop_reason=stop, usage=_usage(self._usage))

    def cancel(self) -> None:
        """Cancel the running turn and all waiting prompts."""
        self._cancels += 1
        self._runner.cancel()

    async def _run(self, text: str, parts: tuple[Part, ...]) -> None:
        match (
            parse_input(text, self.agent.state.tools.catalogue.by_name)
            if text.startswith("/")
            else None
        ):
            case SlashCall(command, argument):
                self._lines.clear()
                await carry_out(
                    command,
                    argument,
                    self._handlers,
                    self._runner,
                    self._state,
                    self._lines.append,
                )
                await self._runner.quiet()
                if answer := "\n".join(self._lines):
                    self.feed.say(answer)
            case UnknownSlash() as unknown:
                self.feed.say(str(unknown))
            case _:
                if text.startswith("!"):
                    text = f" {text}"  # not a shell command: editors have terminals
                self._parts = {text: parts}
                self._runner.send(text)
                await self._runner.quiet()
        if self._runner.unsent:  # the prompt was cancelled before it was sent
            self._runner.edit_queue(self._runner.unsent, (), paused=False)

    def _parts_of(self, text: str) -> tuple[Part, ...]:
        return self._parts.get(text) or text_parts(text)

    def _keep_unsent(self, _: str) -> bool:
        """Record that a prompt was not sent.

        Its text need not be kept, because the client has it.
        """
        self._unsent = True
        return True

    def _stop_reason(self) -> schema.StopReason:
        """Return the reason why the turn ended.

        Raises:
            RequestError: the turn failed or was not started.
        """
        end = self._end
        if end is None:
            return "end_turn"
        if end.outcome == "cancelled":
            return "cancelled"
        if end.error and self.agent.state.budget.bounds.reached:
            self.feed.say(end.error)
            return "max_turn_requests"
        if end.error or self._unsent:
            raise RequestError(
                INTERNAL_ERROR, end.error or f"Not sent: {self.agent.state.unsent}"
            )
        return _STOPPED.get(
            self._answer.stop_reason if self._answer else None, "end_turn"
        )

    # --- events and questions ------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        before = self._state
        self._state = reduce(before, event, time.monotonic())
        self.feed.on_event(event)
        match event:
            case events.UsageReported():
                self._usage += event.usage
            case events.EntryAppended(entry=AssistantMessage() as answer):
                self._answer = answer
            case events.TaskFinished() if event.operation in _TURNS:
                self._end = event
            case events.TaskFinished(outcome="failed"):
                self.feed.say(event.error or "The operation failed.")
            case _:
                pass
        for question in new_questions(before, self._state):
            self._run_in_background(self._ask(question))

    async def _ask(self, question: Question) -> None:
        """Ask the client a question, and submit the answer.

        If the client fails to answer, the request in the question is denied.
        """
        typed = next(
            (option for option in options_of(question) if option.asks == "line"), None
        )
        await self.feed.flush()
        cancels = self._cancels
        operation = unanswered(question)
        try:
            if self._has_forms and question.kind == "choice" and typed is not None:
                operation = await self._ask_by_form(question, typed)
            else:
                operation = await self._ask_permission(question)
        except ConnectionError:
            return  # the client is gone
        except (RequestError, ValueError):
            pass
        if self._cancels == cancels:
            self._runner.submit(operation)

    async def _ask_permission(self, question: Question) -> operations.Operation:
        """Ask for permission, and return the operation of the chosen answer.

        Without a choice, returns the last answer's operation.
        """
        options = [
            schema.PermissionOption(
                option_id=option.key,
                name=option_label(question, option),
                kind=_option_kind(operation_of(question, option)),
            )
            for option in _listed(question)
        ]
        call = self._question_call(question)
        response = await self._client.request_permission(self._id, call, options)
        outcome = response.outcome
        chosen = ""
        if isinstance(outcome, schema.AllowedOutcome):
            chosen = outcome.option_id
        return _chosen(question, chosen)

    async def _ask_by_form(
        self, question: Question, typed: Answerable
    ) -> operations.Operation:
        """Ask with a form of choices and a text field.

        Typed text takes precedence over the chosen answer.
        """
        options = [
            schema.EnumOption(const=option.key, title=option_label(question, option))
            for option in _listed(question)
        ]
        fields = {
            "answer": schema.ElicitationStringPropertySchema(
                title="Answer", one_of=options
            ),
            "words": schema.ElicitationStringPropertySchema(
                title=option_label(question, typed)
            ),
        }
        form = schema.ElicitationSchema(properties=fields)
        response = await self._client.create_elicitation(
            self._id, "\n".join(question_lines(question)), form
        )
        if response.action != "accept":
            return _chosen(question, "")
        key, text = (str((response.content or {}).get(name) or "") for name in fields)
        if text.strip():
            return operation_of(question, typed, text.strip())
        return _chosen(question, key)

    def _question_call(self, question: Question) -> schema.ToolCallUpdate:
        """Return the tool call that the question is about.

        For a choice or a proposal, returns a new call.
        """
        title, *lines = question_lines(question)
        calls = self.feed.entry_updates.calls
        call = calls.get(question.id, ClientCall(question.id, title))
        content: list[Content] = []
        text = "\n".join(lines)
        if question.kind == "call":
            changes = diffs(question.diff or "", self.agent.state.cwd)
            content = [change.content for change in changes]
            text = f"{title}\n{_verbatim(question.title)}"
            if content and not question.outside:
                text = ""  # to leave more room for the diff
        elif question.asks_agreement and not question.is_markdown:
            text = _verbatim(question.title)
        if text:
            content.insert(0, helpers.tool_content(helpers.text_block(text)))
        return schema.ToolCallUpdate(
            tool_call_id=call.id,
            title=call.title,
            status="pending",
            content=content or None,
        )

    def _run_in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _available(command: ChatCommand) -> schema.AvailableCommand:
    hint = usage(command).partition(" ")[2]
    return schema.AvailableCommand(
        name=command.slash,
        description=command.title,
        input=schema.UnstructuredCommandInput(hint=hint) if hint else None,
    )


def _verbatim(text: str) -> str:
    """Enclose text that the user must see in full in a code fence.

    Otherwise, Markdown could hide parts of it.
    """
    return fenced("\n".join(nothing_hidden_lines(text)), "")


def _listed(question: Question) -> list[Answerable]:
    """Return the answers that require no text."""
    return [
        option
        for option in options_of(question)
        if not option.asks or option.key == "n"
    ]


def _chosen(question: Question, key: str) -> operations.Operation:
    """Return the operation of the answer with this key, or of the last answer."""
    option = option_for(question, key) or options_of(question)[-1]
    return operation_of(question, option)


def _option_kind(operation: operations.Operation) -> schema.PermissionOptionKind:
    match operation:
        case operations.Approve():
            return _OPTION_KINDS[operation.answer]
        case operations.DiscardProposal() | operations.Choose(key="" | "n"):
            return "reject_once"
        case _:
            return "allow_once"


def _usage(usage: Usage) -> schema.TokenUsage | None:
    if not usage.total:
        return None
    return schema.TokenUsage(
        total_tokens=usage.total,
        input_tokens=usage.input,
        output_tokens=usage.output,
        thought_tokens=usage.reasoning,
        cached_read_tokens=usage.cached,
        cached_write_tokens=usage.written,
    )
