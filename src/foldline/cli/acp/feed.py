"""Sends the events of a session to its client as updates, in order."""

import asyncio
from collections import deque
from contextlib import suppress
from itertools import count
from typing import Final

from acp import helpers, schema
from acp.interfaces import Client

from foldline.agent import Agent
from foldline.agent.limits import Spent
from foldline.cli.plain.narrator import compacted_words, entry_words
from foldline.context.numbers import many, tokens
from foldline.formats.writers.markdown import fenced
from foldline.protocol import Approval, Clear, Entry, Revert, Title, Undo, events
from foldline.protocol.events import Event

from .options import config_options
from .updates import EntryUpdates, Update, said

_SHOWN_EVERY: Final = 0.2
"""Seconds between two looks at the output of a call that runs: each replaces the one before."""
_SHOWN: Final = 4_000
"""Characters of it."""


class Feed:
    """Sends one client what happens in one session."""

    def __init__(self, agent: Agent, client: Client, id: str) -> None:
        self._agent = agent
        self._client = client
        self._id = id
        self.entry_updates = EntryUpdates(agent.session.projection, agent.state.cwd)
        self.models: tuple[str, ...] = ()
        """Those to choose from, once the provider has listed them."""
        self._spent = Spent()
        """What the session came to."""
        self._ids = count(1)
        self._compaction = ""
        """The id of the call that stands for the compaction that runs."""
        self._title = ""
        self._options: schema.ConfigOptionUpdate | None = None
        """Those that were sent last."""
        self._outputs: dict[str, str] = {}
        """The end of what calls that run have put out, and was not shown yet."""
        self._waiting: deque[Update] = deque()
        self._sending: asyncio.Task[None] | None = None

    # --- the session ---------------------------------------------------------------------------------------

    async def replay(self, *, known: bool) -> None:
        """Everything that was said; where the client has `known` it, only what it came to."""
        for entry in self._agent.session.entries:
            self._spent = self._spent.after(entry)
            for update in () if known else self.entry_updates.replayed(entry):
                await self._client.session_update(self._id, update)
            await asyncio.sleep(0)
        self.figures()
        await self.flush()

    def say(self, text: str) -> None:
        """A sentence of ours, in a paragraph of its own: clients show it after what the model wrote. Several
        lines, which may quote a file, are fenced: as Markdown they could hide something."""
        text = fenced(text, "") if "\n" in text else text
        self.post(helpers.update_agent_message_text(f"\n\n{text}\n\n"))

    def figures(self) -> None:
        """Title, sizes and options, as they are now."""
        meta = self._agent.session.meta()
        if meta.title != self._title:
            self._title = meta.title
            at = meta.updated_at.isoformat()
            info = schema.SessionInfoUpdate(
                session_update="session_info_update", title=meta.title, updated_at=at
            )
            self.post(info)
        self._usage(self._agent.state.size())
        options = schema.ConfigOptionUpdate(
            session_update="config_option_update", config_options=config_options(self._agent, self.models)
        )
        if options != self._options:
            self._options = options
            self.post(options)

    # --- events ---------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        match event:
            case events.StepStarted():
                self._usage(event.tokens)
            case events.TextDelta():
                self.post(helpers.update_agent_message_text(event.text))
            case events.ThinkingDelta():
                self.post(helpers.update_agent_thought_text(event.text))
            case events.EntryAppended():
                self._entry(event.entry)
            case events.ToolStarted() if call := self.entry_updates.calls.get(event.call_id):
                self.post(helpers.update_tool_call(call.id, status="in_progress"))
            case events.ToolOutput() if event.call_id in self.entry_updates.calls:
                if not self._outputs:
                    asyncio.get_running_loop().call_later(_SHOWN_EVERY, self._show_outputs)
                shown = self._outputs.get(event.call_id, "")
                self._outputs[event.call_id] = f"{shown}{event.text}"[-_SHOWN:]
            case _:
                self._hear_beside(event)

    def _hear_beside(self, event: Event) -> None:
        """What is no part of an answer."""
        match event:
            case events.Retrying():
                self.say(f"{event} What was said of this answer does not count.")
            case events.Notice():
                self.say(event.text)
            case events.CompactionStart():
                self._compaction = f"compacting-{next(self._ids)}"
                title = f"Compacting {tokens(event.tokens_before)} tokens"
                call = helpers.start_tool_call(self._compaction, title, kind="other", status="in_progress")
                self.post(call)
            case events.CompactionEnd():
                self._compacted(event)
            case events.SubagentProgress() if known := self.entry_updates.calls.get(event.call_id):
                words = f"{event.agent}: {many(event.steps, 'step')}, {tokens(event.tokens)} tokens"
                shown = ", ".join(filter(None, (words, event.doing)))
                self.post(helpers.update_tool_call(known.id, content=[said(shown)]))
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
                update = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
                self.post(update)
                self.figures()
            case Title():
                self.figures()
            case Undo() | Clear() | Revert() | Approval():
                self.say(entry_words(entry, self._agent.session.projection))
            case _:
                pass

    def _compacted(self, event: events.CompactionEnd) -> None:
        """The protocol has no word for a compaction: it is a call that ran as long as it took."""
        sizes = f"{tokens(event.tokens_before)} → {tokens(event.tokens_after)} tokens"
        title = f"Compacted {sizes}" if event.index is not None else f"Compaction: {compacted_words(event)}"
        text = event.error or event.summary
        if not self._compaction:  # it did not begin: there was nothing to compact
            self.say(f"{title}.")
            return
        self.post(
            helpers.update_tool_call(
                self._compaction,
                title=title,
                status="failed" if event.error or event.aborted else "completed",
                content=[helpers.tool_content(helpers.text_block(text))] if text else None,
            )
        )
        self._compaction = ""

    def _show_outputs(self) -> None:
        for call_id, text in self._outputs.items():
            if call := self.entry_updates.calls.get(call_id):  # else its result is there
                self.post(helpers.update_tool_call(call.id, content=[said(text)]))
        self._outputs.clear()

    def _usage(self, used: int) -> None:
        cost = schema.Cost(amount=round(self._spent.cost, 6), currency="USD")
        size = self._agent.state.window
        self.post(schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost))

    # --- sending --------------------------------------------------------------------------------------------

    def post(self, update: Update) -> None:
        """Send this behind what was posted before."""
        self._waiting.append(update)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        with suppress(ConnectionError):
            while self._waiting:
                await self._client.session_update(self._id, self._waiting.popleft())

    async def flush(self) -> None:
        """Wait until all that was posted is on its way."""
        while self._sending is not None and not self._sending.done():
            await asyncio.wait([self._sending])
