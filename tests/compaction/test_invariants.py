"""Random histories under random operations: the rules of docs/design/invariants.md hold after each."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from foldline.compaction import (
    BUILT_IN,
    CompactionContext,
    CompactionFailed,
    Proposal,
    SummaryCompaction,
    load_strategy,
    propose,
)
from foldline.compaction.summary_text import notes_of, unframed
from foldline.llm import LLMError
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    Edit,
    Entry,
    ModelChange,
    Reason,
    RequestRecord,
    Revert,
    ToolResultMessage,
    Undo,
    Unknown,
    Usage,
    UserMessage,
    dump_entry,
    parse_entry,
)
from foldline.view.budget import Budget
from foldline.view.items import ViewItem, is_hidden_placeholder, is_preamble, is_summary
from foldline.view.projection import Projection, project
from foldline.view.rules import broken
from support.history import History, call
from support.limits import examples
from support.llm import BAD_DRAFTS, HANG, TOO_LONG, ScriptedLLM, Step, overflow, refusal
from support.projections import State
from support.reopened_sessions import reopened_sessions

PIECES = [
    "",
    "ok, go on",
    "Never touch schema.sql; the tests in tests/test_orders.py must pass.",
    "把配置文件改成 UTF-8 编码，不要动数据库。",
    "すべてのテストを実行してください 🚀🧪",
    "E   AssertionError: expected 200, got 503 in src/shop/api.py:41\n" * 4,
    "def cancel(order: Order) -> None:\n    order.state = 'cancelled'\n" * 12,
    "log line 2024-05-01T10:00:00Z worker-7 retried in 200 ms\n\n" * 60,
]
LONG = PIECES[-3:]
texts = st.sampled_from(PIECES)
requests = st.sampled_from(PIECES[1:])
names = st.sampled_from(["read", "write", "bash"])
calls = st.lists(
    st.builds(lambda name, body: call(name, path="src/a.py", body=body), names, texts),
    max_size=3,
)

DRAFTS: dict[str, Step] = {
    **BAD_DRAFTS,
    "long": TOO_LONG,
    "overflow": overflow(),
    "refused": refusal(),
}
"""Drawn by name, because hypothesis keeps the representation of each choice."""


class Recording:
    """Records a strategy's last rewrite, to compare the preview with the applied compaction."""

    def __init__(self, name: str) -> None:
        self.strategy = load_strategy(name)
        self.after: Sequence[BaseMessage] | None = None

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        after = await self.strategy.compact(ctx)
        if (
            after is not None
        ):  # a strategy without model calls may run again, and must find nothing to do
            self.after = after
        return after


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.live = Projection()
        self.states: list[State] = []
        self.before_compaction: dict[int, tuple[ViewItem, ...]] = {}
        self.answers = 0

    # --- appending -----------------------------------------------------------------------------

    def sync(self) -> None:
        """Replay new entries and check the invariants after each."""
        for entry in self.history.entries[len(self.live.entries) :]:
            before = list(self.live.view)
            self.live.append(entry)
            assert broken(self.live) == []
            self.states.append(State.of(self.live))
            if not isinstance(
                entry, Compaction | Edit | Clear | Revert | Undo
            ) and not self.is_late(entry):
                # The agent mentions a checkpoint at the end of the unsent messages.
                sent = (
                    before[:-1]
                    if isinstance(entry, Checkpoint) and entry.shown
                    else before
                )
                assert self.live.view[: len(sent)] == sent, "the prefix is not stable"

    def is_late(self, entry: Entry) -> bool:
        """Return whether a result comes late: other entries follow its call."""
        if not isinstance(entry, ToolResultMessage):
            return False
        group = self.live.group(entry.index)
        places = [
            place for place, item in enumerate(self.live.view) if item.index in group
        ]
        return bool(places) and places[-1] < len(self.live.view) - 1

    @initialize(results=st.lists(st.sampled_from(LONG), max_size=3))
    def begin(self, results: list[str]) -> None:
        self.history.system("You are a careful agent.")
        self.work(results, True)

    @rule(text=requests, images=st.integers(0, 1))
    def ask(self, text: str, images: int) -> None:
        self.history.user(f"{text} (request {len(self.live.entries)})", images=images)
        self.sync()

    @rule(text=texts, thinking=texts)
    def say(self, text: str, thinking: str) -> None:
        self.history.assistant(text, thinking=thinking)
        self.sync()

    @rule(
        text=texts,
        asked=calls,
        results=st.lists(texts, max_size=4),
        reported=st.booleans(),
    )
    def step(self, text: str, asked: list, results: list[str], reported: bool) -> None:
        """Append parallel calls; some lack a result, and an extra result is an orphan."""
        usage = (
            Usage(input=int(self.live.tokens * 1.2), output=50) if reported else None
        )
        self.history.assistant(text, calls=asked, usage=usage, model="m")
        for result in results:
            self.history.result(result, error=len(result) > 200)
        self.sync()

    @rule(text=texts, twice=st.booleans())
    def step_with_a_used_id(self, text: str, twice: bool) -> None:
        same = call("read", call_id="used-before", path="b.py")
        self.history.assistant(calls=[same, same] if twice else [same]).result(
            text, call_id="used-before"
        )
        self.sync()

    @rule(
        results=st.lists(st.sampled_from(LONG), min_size=1, max_size=5),
        ends=st.booleans(),
    )
    def work(self, results: list[str], ends: bool) -> None:
        """A turn with something to compact in it."""
        self.history.user(f"Look at it again. (request {len(self.live.entries)})")
        for result in results:
            self.history.step("read", result, path="src/a.py")
        if ends:
            self.history.assistant("Done: the handler checks the state first.")
        self.sync()

    @rule(text=texts)
    def notice(self, text: str) -> None:
        self.history.notice(text)
        self.sync()

    @rule()
    def instructions(self) -> None:
        self.history.instructions("Always run the linter.")
        self.sync()

    @rule(text=texts, lost=st.integers(0, 2))
    def late_or_orphan_result(self, text: str, lost: int) -> None:
        self.history.gap(lost).result(text)
        self.sync()

    @rule()
    def other_records(self) -> None:
        self.history.add(Unknown(type="hologram")).add(ModelChange(model="m"))
        usage = Usage(input=int(self.live.tokens * 1.1))
        self.history.add(
            RequestRecord(digest="", model="m", estimated=self.live.tokens, usage=usage)
        )
        self.sync()

    @rule(shown=st.booleans())
    def checkpoint(self, shown: bool) -> None:
        self.history.checkpoint(self.live.next_checkpoint_id, shown=shown)
        self.sync()

    # --- changing the view ---------------------------------------------------------------------

    @rule(
        keep=st.sampled_from([1, 200, 1_000]),
        reason=st.sampled_from(["manual", "threshold"]),
        draft=st.sampled_from(["good"] * 12 + list(DRAFTS)),
        wanted=st.sampled_from([True, True, True, False]),
        window=st.sampled_from([8_192, 8_192, 2_600]),
        pins=st.lists(st.integers(0, 60), max_size=3),
        strategy=st.sampled_from(["summary"] * 3 + list(BUILT_IN)),
    )
    @precondition(lambda self: self.live.tokens > 400)
    def compaction(
        self,
        keep: int,
        reason: Reason,
        draft: str,
        wanted: bool,
        window: int,
        pins: list[int],
        strategy: str,
    ) -> None:
        self.answers += 1
        good = f"## Goal\nNotes number {self.answers}: orders can be cancelled."
        bad = DRAFTS.get(draft)
        llm = ScriptedLLM(*([bad, bad] if bad else []), always=good)
        recording = Recording(strategy)
        before = State.of(self.live)
        proposal = self.proposed(recording, llm, keep, reason, window)
        assert State.of(self.live) == before, "a proposal changed something"
        if proposal is None or not wanted:
            return
        assert proposal.fits(self.live)
        proposal = self.pinned(proposal, pins)
        foreseen = self.live.with_entries(proposal.entry)
        assert State.of(self.live) == before, "looking ahead changed something"
        self.history.add(proposal.entry)
        self.before_compaction[self.history.last] = before.view
        self.sync()
        assert foreseen.view == self.live.view, "what was foreseen is not what came"
        assert [item.message.parts for item in self.live.view] == [
            m.parts for m in proposal.after
        ]
        self.check_compaction(before, proposal, llm, recording)

    def pinned(self, proposal: Proposal, pins: list[int]) -> Proposal:
        """Return the proposal with the reader's pins, if it is still a compaction."""
        compactable = [
            item.index
            for item in proposal.view
            if item.compactable and not item.written
        ]
        chosen = frozenset(
            compactable[pin % len(compactable)] for pin in pins if compactable
        )
        try:
            return proposal.revised(pins=chosen) if chosen else proposal
        except CompactionFailed:
            return proposal

    def proposed(
        self,
        strategy: Recording,
        llm: ScriptedLLM,
        keep: int,
        reason: Reason,
        window: int,
    ) -> Proposal | None:
        budget = Budget(window, 1_024, keep, 400, 0.75)
        try:
            made = asyncio.run(
                propose(
                    self.live, strategy=strategy, llm=llm, budget=budget, reason=reason
                )
            )
        except (CompactionFailed, LLMError):
            return None
        assert made is not None or not llm.requests, (
            "nobody is asked where there is nothing to compact"
        )
        return made

    def check_compaction(
        self, before: State, proposal: Proposal, llm: ScriptedLLM, strategy: Recording
    ) -> None:
        assert self.live.tokens < before.tokens, "the view did not shrink"
        after = {item.key: item.message for item in self.live.view}
        for item in before.view:
            if item.pinned or is_preamble(item.message):
                assert after.get(item.key) == item.message
        for message in must_survive([item.message for item in before.view]):
            kept = after.get(message.key)
            clipped = kept is not None and "[foldline: clipped" in kept.text
            whole = kept in (
                message,
                self.live.entry(message.index),
            )  # a pin restores hidden content
            assert whole or clipped, (
                "only what no request could carry is clipped, with a handle"
            )
        absorbed = [
            item for item in before.view if item.written and item.key not in after
        ]
        if proposal.entry.rung == "strategy" and not proposal.pins:
            assert strategy.after is not None
            made = sorted(strategy.after, key=lambda message: not is_preamble(message))
            assert list(map(without_ledger, made)) == [
                without_ledger(item.message) for item in self.live.view
            ]
            for item in absorbed if llm.requests else []:
                notes = notes_of(unframed(item.message))
                assert any(notes in prompt for prompt in llm.prompts), (
                    "the earlier summary is no input"
                )

    @precondition(lambda self: self.live.tokens > 400)
    @rule(keep=st.sampled_from([1, 200]))
    def cancelled_compaction(self, keep: int) -> None:
        before = State.of(self.live)
        llm = ScriptedLLM(HANG)

        async def begin_and_cancel() -> None:
            budget = Budget(8_192, 1_024, keep, 400, 0.75)
            task = asyncio.create_task(
                propose(
                    self.live,
                    strategy=SummaryCompaction(),
                    llm=llm,
                    budget=budget,
                    reason="manual",
                )
            )
            hanging = asyncio.create_task(llm.silent.wait())
            await asyncio.wait([task, hanging], return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            hanging.cancel()
            await asyncio.gather(task, hanging, return_exceptions=True)

        asyncio.run(begin_and_cancel())
        assert State.of(self.live) == before

    @rule(
        data=st.data(),
        action=st.sampled_from(["pin", "unpin", "hide", "show", "drop", "restore"]),
    )
    def edit(self, data: st.DataObject, action: str) -> None:
        self.history.edit(action, data.draw(st.integers(0, self.live.last_index + 1)))
        self.sync()

    @rule()
    def clear(self) -> None:
        self.history.clear()
        self.sync()

    @precondition(lambda self: self.live.next_checkpoint_id > 0)
    @rule(
        data=st.data(),
        keeps=st.booleans(),
        message=st.sampled_from([None, "only lines 50-60 matter"]),
        context=st.sampled_from([True, True, True, False]),
    )
    def revert(
        self, data: st.DataObject, keeps: bool, message: str | None, context: bool
    ) -> None:
        checkpoint = data.draw(st.integers(0, self.live.next_checkpoint_id))
        users = [e.index for e in self.live.entries if isinstance(e, UserMessage)]
        kept = data.draw(st.sampled_from(users)) if keeps and users else None
        self.history.revert(checkpoint, kept=kept, message=message, context=context)
        self.sync()

    # --- undo ----------------------------------------------------------------------------------

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        """Undo any entry, whether or not that is refused."""
        target = data.draw(st.integers(0, self.live.last_index + 2))
        before, refused = State.of(self.live), self.live.undo_refusal(target)
        self.history.undo(target)
        self.sync()
        if refused:
            assert self.states[-1].view == before.view

    @rule(data=st.data())
    def undo_a_marker(self, data: st.DataObject) -> None:
        markers = [
            e.index
            for e in self.live.entries
            if isinstance(e, Compaction | Revert | Clear | Edit | Undo)
        ]
        if not markers:
            return
        target = data.draw(st.sampled_from(markers))
        refused = self.live.undo_refusal(target)
        since = [entry for entry in self.live.entries if entry.index > target]
        only_messages = all(
            isinstance(entry, BaseMessage) and not self.is_late(entry)
            for entry in since
        )
        before = State.of(self.live)
        self.history.undo(target)
        self.sync()
        # A result may be late once its call, which had been compacted, is restored.
        if (
            target in self.before_compaction
            and only_messages
            and not refused
            and not any(map(self.is_late, since))
        ):
            earlier = self.before_compaction[target]
            assert tuple(self.live.view[: len(earlier)]) == earlier, (
                "undo gives back the earlier view"
            )
        if refused is None and self.live.undo_refusal(self.history.last) is None:
            self.history.undo()
            self.sync()
            after = self.states[-1]
            assert (after.view, after.pins, after.compactions) == (
                before.view,
                before.pins,
                before.compactions,
            )
            assert after.fates[: len(before.fates)] == before.fates

    def teardown(self) -> None:
        """Compare the live and the reloaded state at every point of the history."""
        again = Projection()
        for entry, state in zip(
            self.history.entries, self.states, strict=False
        ):  # fewer after a failure
            again.append(parse_entry(dump_entry(entry)))
            assert State.of(again) == state
        if len(self.states) < len(self.live.entries):
            return
        with reopened_sessions(self.history.entries) as sessions:
            for session in sessions:
                assert State.of(session.projection) == self.states[-1]
        whole = project(again.entries)
        assert [item.message.model_dump_json() for item in whole.view] == [
            item.message.model_dump_json() for item in self.live.view
        ]


def without_ledger(message: BaseMessage) -> object:
    """Return a message as the strategy wrote it, without the appended ledger."""
    if is_summary(message):
        return notes_of(unframed(message))
    if is_hidden_placeholder(message.text):
        return message.text.partition("\n")[0]
    return message.parts


def must_survive(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the unanswered request and the unseen results (invariant 7)."""
    kept: list[BaseMessage] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolResultMessage):
            kept.append(message)
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return [*kept, message]
        if isinstance(message, AssistantMessage) and not message.calls:
            break
    return kept


Sessions.TestCase.settings = settings(
    max_examples=examples(120),
    stateful_step_count=40,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
TestEverySession = pytest.mark.slow(Sessions.TestCase)
