"""Sends a session's events to its client as updates."""

import asyncio
from collections import deque
from contextlib import suppress
from itertools import count

from foldline.agent import Agent
from foldline.agent.session.limits import Spent
from foldline.cli.plain.printer import (
    DISCARDED,
    compaction_result,
    marker_sentence,
)
from foldline.formats.writers.markdown import fenced
from foldline.protocol import Approval, Clear, Entry, Revert, Title, Undo, events
from foldline.protocol.events import Event
from foldline.text.numbers import many, tokens

from . import helpers, schema
from .connection import ClientConnection
from .options import config_options
from .updates import EntryUpdates, Update, output_content

_OUTPUT_INTERVAL = 0.2
"""Seconds between updates of a running call's output."""
_OUTPUT_END = 4_000
"""Maximum length of the output in an update, in characters.

Only the end of longer output is sent.
"""


class UpdateFeed:
    """Sends the updates of one session to one client, in order."""

    def __init__(self, agent: Agent, client: ClientConnection, id: str) -> None:
        self._agent = agent
        self._client = client
        self._id = id
        self.entry_updates = EntryUpdates(agent.session.projection, agent.state.cwd)
        self.models: tuple[str, ...] = ()
        """The provider's models; empty until they have been listed."""
        self._spent = Spent()
        """The session's tokens and cost."""
        self._ids = count(1)
        self._compaction = ""
        """Id of the call that shows the running compaction."""
        self._title = ""
        self._options: schema.ConfigOptionUpdate | None = None
        """The options that were sent last."""
        self._outputs: dict[str, str] = {}
        """The end of each running call's unsent output, by call id."""
        self._queue: deque[Update] = deque()
        self._sending: asyncio.Task[None] | None = None

    # --- the session ---------------------------------------------------------------------------------------

    async def replay(self, *, with_messages: bool) -> None:
        """Send the session's title, sizes and options.

        With `with_messages`, also send its messages.
        """
        for entry in self._agent.session.entries:
            self._spent = self._spent.after(entry)
            if with_messages:
                for update in self.entry_updates.replayed(entry):
                    await self._client.session_update(self._id, update)
            await asyncio.sleep(0)
        self.send_figures()
        await self.flush()

    def say(self, text: str) -> None:
        """Send a notice as a paragraph of the agent's message.

        A notice of several lines is enclosed in a code fence, because it may quote a file, and Markdown in
        the file could hide text.
        """
        text = fenced(text, "") if "\n" in text else text
        self.post(helpers.update_agent_message_text(f"\n\n{text}\n\n"))

    def send_figures(self) -> None:
        """Send the usage and, if they have changed, the title and options."""
        meta = self._agent.session.meta()
        if meta.title != self._title:
            self._title = meta.title
            self.post(
                schema.SessionInfoUpdate(
                    title=meta.title,
                    updated_at=meta.updated_at.isoformat(),
                )
            )
        self._send_usage(self._agent.state.budget.size())
        options = schema.ConfigOptionUpdate(
            config_options=config_options(self._agent, self.models),
        )
        if options != self._options:
            self._options = options
            self.post(options)

    # --- events ---------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        match event:
            case events.StepStarted():
                self._send_usage(event.tokens)
            case events.TextDelta():
                self.post(helpers.update_agent_message_text(event.text))
            case events.ThinkingDelta():
                self.post(helpers.update_agent_thought_text(event.text))
            case events.EntryAppended():
                self._entry(event.entry)
            case events.ToolStarted() if call := self.entry_updates.calls.get(
                event.call_id
            ):
                self.post(helpers.update_tool_call(call.id, status="in_progress"))
            case events.ToolOutput() if event.call_id in self.entry_updates.calls:
                if not self._outputs:
                    asyncio.get_running_loop().call_later(
                        _OUTPUT_INTERVAL, self._send_outputs
                    )
                output = self._outputs.get(event.call_id, "") + event.text
                self._outputs[event.call_id] = output[-_OUTPUT_END:]
            case _:
                self._on_status_event(event)

    def _on_status_event(self, event: Event) -> None:
        """Send an event that is not part of an answer or a tool call."""
        match event:
            case events.Retrying():
                self.say(f"{event}{DISCARDED}")
            case events.Notice():
                self.say(event.text)
            case events.CompactionStart():
                self._compaction = f"compacting-{next(self._ids)}"
                title = f"Compacting {tokens(event.tokens_before)} tokens"
                call = helpers.start_tool_call(
                    self._compaction, title, kind="other", status="in_progress"
                )
                self.post(call)
            case events.CompactionEnd():
                self._compacted(event)
            case events.SubagentProgress() if (
                client_call := self.entry_updates.calls.get(event.call_id)
            ):
                progress = f"{event.agent}: {many(event.steps, 'step')}, {tokens(event.tokens)} tokens"
                if event.doing:
                    progress += f", {event.doing}"
                self.post(
                    helpers.update_tool_call(
                        client_call.id, content=[output_content(progress)]
                    )
                )
            case events.ChoiceResolved():
                self.post(helpers.update_tool_call(event.choice, status="completed"))
            case events.ProposalClosed():
                self.post(helpers.update_tool_call(event.proposal, status="completed"))
            case _:
                pass

    def _entry(self, entry: Entry) -> None:
        self._spent = self._spent.after(entry)
        for update in self.entry_updates.appended(entry):
            self.post(update)
        match entry:
            case Approval(mode=mode) if mode is not None:
                update = schema.CurrentModeUpdate(current_mode_id=mode)
                self.post(update)
                self.send_figures()
            case Title():
                self.send_figures()
            case Undo() | Clear() | Revert() | Approval():
                self.say(marker_sentence(self._agent.session.projection, entry))
            case _:
                pass

    def _compacted(self, event: events.CompactionEnd) -> None:
        """Send the end of a compaction as a completed tool call.

        The protocol has no update for compactions.
        """
        if event.index is None:
            title = f"Compaction: {compaction_result(event)}"
        else:
            title = f"Compacted {tokens(event.tokens_before)} → {tokens(event.tokens_after)} tokens"
        text = event.error or event.summary
        if not self._compaction:  # it did not start: there was nothing to compact
            self.say(f"{title}.")
            return
        self.post(
            helpers.update_tool_call(
                self._compaction,
                title=title,
                status="failed" if event.error or event.aborted else "completed",
                content=[helpers.tool_content(helpers.text_block(text))]
                if text
                else None,
            )
        )
        self._compaction = ""

    def _send_outputs(self) -> None:
        for call_id, text in self._outputs.items():
            if call := self.entry_updates.calls.get(
                call_id
            ):  # otherwise its result has been sent already
                self.post(
                    helpers.update_tool_call(call.id, content=[output_content(text)])
                )
        self._outputs.clear()

    def _send_usage(self, used: int) -> None:
        cost = schema.CostAmount(amount=round(self._spent.cost, 6), currency="USD")
        size = self._agent.state.models.window
        self.post(schema.UsageUpdate(used=used, size=size, cost=cost))

    # --- sending --------------------------------------------------------------------------------------------

    def post(self, update: Update) -> None:
        """Queue an update.

        Updates are sent in the order in which they are posted.
        """
        self._queue.append(update)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        with suppress(ConnectionError):
            while self._queue:
                await self._client.session_update(self._id, self._queue.popleft())

    async def flush(self) -> None:
        """Wait until all posted updates are sent."""
        while self._sending is not None and not self._sending.done():
            await asyncio.wait([self._sending])
