"""The compaction preview in a minimal app, and proposals of the real engine."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

from textual import on
from textual.message import Message

from foldline.compaction import (
    CompactionFailed,
    CompactionStrategy,
    Proposal,
    SessionLedger,
    SummaryCompaction,
    propose,
)
from foldline.llm import Chunk, Request
from foldline.memory.ledger import Ledger
from foldline.protocol import Reason, Usage
from foldline.protocol.operations import Operation, ReviseProposal
from foldline.tui.base_app import BaseApp
from foldline.tui.browser.draft.state import DraftState
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.look.themes import DEFAULT_THEME
from foldline.tui.messages import CancelRequested, OperationWanted
from foldline.view.budget import Budget
from foldline.view.projection import Projection
from support.chat_app import Clock
from support.history import call, modified, read
from support.llm import ScriptedLLM, Step, answer
from support.stories import Story

BUDGET = Budget(
    window=16_384,
    reserve_tokens=2_048,
    keep_recent_tokens=700,
    max_summary_tokens=1_600,
    soft_ratio=0.75,
)
LONG = "what the command said, line after line: all is well\n" * 60
"""About 800 tokens."""
NOTES = """## Goal
POST /orders idempotent per customer

## Progress · Done
- src/shop/orders/service.py: two transactions, both retries pass, which is why there are two orders

## Next Steps
1. the same for cancel
2. docs, changelog"""
DIVIDED_NOTES = """## Original Request
Make cancel idempotent, too

## Early Progress
- the tests were run"""


class NoteTaker(ScriptedLLM):
    """Scripted model that writes the requested notes.

    Notes for a divided turn have their own headings.
    """

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        is_divided = "## Original Request" in request.messages[-1].text
        self._always = answer(
            DIVIDED_NOTES if is_divided else NOTES,
            usage=Usage(input=9_700, cached=9_400, output=90),
        )
        async for chunk in super().stream(request):
            yield chunk


def orders() -> Story:
    """Three turns to compact, each with a fact, and a kept one with two steps."""
    story = (
        Story().system("You are careful.").instructions("Money is counted in cents.")
    )
    story.user("Contract with the mobile team: the key is a UUID").assistant("Noted.")
    story.edit("pin", 2)
    story.user("Measure the endpoint. Never touch the payments table.")
    story.tool(
        "bash",
        LONG + "p95 412 ms",
        command="k6 run --vus 50 load.js",
        brief="exit 0",
        intro="I measure.",
    )
    story.assistant("p95 is 412 ms with 50 users.")
    story.user("Try the migration on staging")
    story.tool(
        "bash",
        LONG + "asyncpg.exceptions.LockNotAvailableError: could not obtain lock",
        command='PGOPTIONS="-c lock_timeout=2s" alembic upgrade head',
        brief="exit 1",
        intro="I try it.",
    )
    story.assistant("It needs `OrderReplayed` and a lock timeout.")
    story.user("Fix the service")
    story.tool(
        "read",
        LONG,
        path="src/shop/orders/service.py",
        files=[read("src/shop/orders/service.py")],
        brief="60 lines",
    )
    story.assistant(
        "two changes",
        calls=[
            call("edit", path="src/shop/orders/service.py"),
            call("write", path="migrations/0042.py"),
        ],
    )
    story.answer(
        "done", brief="+9 −6", files=[modified("src/shop/orders/service.py", 9, 6)]
    )
    story.answer("done", brief="24 lines", files=[modified("migrations/0042.py", 24)])
    return story.assistant("Done. A retry now gets the first order back.")


async def proposal_for(
    story: Any,
    *script: Step,
    strategy: CompactionStrategy | None = None,
    budget: Budget = BUDGET,
    reason: Reason = "threshold",
    focus: str | None = None,
    overhead: int = 0,
    model: str = "scripted",
    ledger: bool = False,
) -> Proposal:
    """Return the engine's proposal for a story; without a script the model writes `NOTES`.

    `ledger` is off by default: the ledger of a short story would hold everything.
    """
    llm = NoteTaker(*script)
    llm.info = replace(llm.info, id=model)
    proposal = await propose(
        story.projection(),
        strategy=strategy or SummaryCompaction(),
        llm=llm,
        budget=budget,
        reason=reason,
        focus=focus,
        overhead=overhead,
        ledger=None if ledger else SessionLedger(Ledger(score=lambda *_: 0.0)),
    )
    assert proposal is not None
    return proposal


def index_of(proposal: Proposal, words: str) -> int:
    """Return the index of the view's entry that begins with `words`."""
    return next(
        item.index for item in proposal.view if item.message.text.startswith(words)
    )


class PreviewApp(BaseApp[None]):
    """Minimal app around a preview.

    It records the preview's messages, and carries out operations that need no model.
    """

    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False

    def __init__(
        self, state: DraftState, *, clock: Clock | None = None, revises: bool = True
    ) -> None:
        super().__init__(DEFAULT_THEME)
        self.clock = clock or Clock()
        self.panels = InspectorPanels(
            state.projection or Projection(),
            live=True,
            window=state.window,
            clock=self.clock,
        )
        self.panels.open_draft = lambda: self.panels.show_draft(self.state)
        self.panels.show_draft(state)
        self.preview = InspectorScreen(self.panels, "shop-api ▸ Idempotent orders")
        self.revises = revises
        self.posted: list[Any] = []

    async def on_mount(self) -> None:
        await self.push_screen(self.preview)

    def show(self, **changes: object) -> None:
        self.panels.show_draft(replace(self.state, **changes))

    @property
    def state(self) -> DraftState:
        return self.panels.draft.state

    def revise(self, change: Callable[[Proposal], Proposal]) -> None:
        proposal = self.state.proposal
        if not self.revises or proposal is None:
            return
        try:
            self.show(proposal=change(proposal), error="")
        except CompactionFailed as failure:
            self.show(error=str(failure))

    @on(OperationWanted)
    def carry_out(self, event: OperationWanted) -> None:
        """Carry out an operation as the agent does, if it needs no model."""
        operation: Operation = event.operation
        self.posted.append(operation)
        if not isinstance(operation, ReviseProposal):
            return
        pins = None if operation.pins is None else frozenset(operation.pins)
        if operation.notes is not None or pins is not None or operation.ledger:
            self.revise(
                lambda proposal: proposal.revised(
                    notes=operation.notes, pins=pins, ledger=operation.ledger
                )
            )
        if operation.first_kept_index is not None:
            index = operation.first_kept_index
            self.revise(lambda proposal: proposal.moved(index))
        proposal = self.state.proposal
        if operation.focus is not None and self.revises and proposal is not None:
            self.show(proposal=proposal.out_of_date(), focus=operation.focus)

    @on(CancelRequested)
    def _keep(self, event: Message) -> None:
        self.posted.append(event)


def chinese_orders() -> Story:
    """The same kind of session in Chinese."""
    story = (
        Story()
        .system("你是一个编程助手。")
        .user("移动端重试仍然会产生两个订单。先找出原因,绝对不要碰支付表。")
    )
    for number in range(3):
        path = f"源代码/订单/服务模块{number}.py"
        story.tool(
            "read",
            "订单服务的一行代码\n" * 90,
            path=path,
            files=[read(path)],
            brief="九十行",
            intro="先读取 👩‍💻",
        )
    story.assistant("运行 `pytest -k 重试` 失败:p95 412 ms。")
    story.user("好的,就这样做。e\u0301 🇨🇳")
    story.tool(
        "bash",
        "通过\n" * 60,
        command="运行 全部 测试 --详细",
        brief="通过 31 个",
        intro="运行测试",
    )
    return story.assistant("完成。重试现在返回第一个订单。")


CHINESE_NOTES = """## 目标
每个客户的订单都要幂等,重试返回第一个订单,而不是再下一个新的订单,也不碰支付表
## 进展
- 源代码/订单/服务模块0.py:键在一个事务中查询,订单在另一个事务中插入,所以两次重试都会通过"""
