"""The chat screen in a minimal app that records its messages."""

from collections.abc import Sequence
from pathlib import Path

from textual import events, on
from textual.app import App
from textual.keys import _character_to_key

from foldline.frontend.state import (
    ChatState,
    Compacting,
    CompactionRow,
    ContextUse,
    FileRow,
    PinRow,
    RunningTool,
    SidebarData,
    ViewWeights,
    Waiting,
)
from foldline.tui.base_app import BaseApp
from foldline.tui.chat.screen import ChatScreen
from foldline.tui.messages import (
    CancelRequested,
    CommandInvoked,
    OperationWanted,
    PromptSubmitted,
    QueueEdited,
)


class Clock:
    """A clock set by tests."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class ChatApp(BaseApp[None]):
    """Minimal app around a chat screen."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        state: ChatState | None = None,
        *,
        root: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self.clock = clock or Clock()
        self.first = state or ChatState(workdir="shop-api", model="offline")
        self.chat = ChatScreen(root=root, clock=self.clock)
        self.posted: list[object] = []

    async def on_mount(self) -> None:
        await self.push_screen(self.chat)
        self.chat.show(self.first)

    def palette_items(self, below):
        from foldline.tui.overlays.palette import chat_items

        return chat_items(self, below)  # type: ignore[arg-type]  # it has a chat, like the real app

    def tell_above(self) -> None:
        """No screen above the chat handles keys here."""

    @on(PromptSubmitted)
    @on(CommandInvoked)
    @on(CancelRequested)
    @on(QueueEdited)
    @on(OperationWanted)
    def keep(self, event: object) -> None:
        self.posted.append(event)


def burst(app: App[None], text: str) -> None:
    """Send keys that arrive together, as `tmux send-keys -l` does."""
    for sign in text:
        key = {"\r": "enter", "\t": "tab"}.get(sign) or _character_to_key(sign)
        app.post_message(events.Key(key, sign))


def screen_text(app: App[None]) -> list[str]:
    """Return the text of the screen, row by row."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height
    return ["".join(segment.text for segment in strip)[:width] for strip in lines]


def laid_out_text(app: App[None]) -> list[str]:
    """Return the text of the screen. Empty if it has just been opened and has no layout yet."""
    strips = app.screen._compositor.render_strips()
    return screen_text(app) if len(strips) == app.size.height else []


def compacting_state(**changes: object) -> ChatState:
    """Picture (a): a threshold compaction, one prompt held, two queued."""
    return ChatState(
        workdir="shop-api",
        title="Idempotent orders",
        model="kimi-k2",
        git="orders-idempotent ±3",
        compacting=Compacting(
            86.0, "threshold", 116_200, 27_400, 123, "draft", drafted=2_100
        ),
        waiting=Waiting(
            held="Now the same for POST /orders/{id}/cancel (@src/shop/api/cancel.py), with a test that",
            queued=(
                "Then update docs/api/orders.md and the changelog.",
                "When everything is green, make one commit. Do not push.",
            ),
        ),
        room=ContextUse(
            116_200,
            131_072,
            98_304,
            114_688,
            92_000,
            ViewWeights(6_400, 4_100, 0, 105_700),
        ),
        cached=113_000,
    )


def running_state() -> ChatState:
    """Picture (d): a running turn, two prompts queued."""
    tool = RunningTool(96.0, "c1", "bash", "pytest -k cancel")
    return ChatState(
        workdir="shop-api",
        title="Idempotent orders",
        model="kimi-k2",
        git="±3",
        activity=tool,
        tools=(tool,),
        waiting=Waiting(queued=("one", "two")),
        room=ContextUse(
            26_700, 131_072, 98_304, 114_688, None, ViewWeights(6_400, 4_800, 0, 15_500)
        ),
        cached=26_600,
    )


def sidebar_data(read: Sequence[str] = ()) -> SidebarData:
    """The sidebar of picture (a)."""
    read_files = (
        "src/shop/orders/repository.py",
        "src/shop/api/orders.py",
        "src/shop/api/deps.py",
    )
    name = (
        "src/shop/api/schemas.py",
        "src/shop/payments/ledger.py",
        "alembic.ini",
        "pyproject.toml",
        *read,
    )
    return SidebarData(
        modified=(
            FileRow("src/shop/orders/service.py", "whole", 31, 12),
            FileRow("migrations/versions/0042_idempotency.py", "whole", 24, 0),
            FileRow("tests/test_orders.py", "whole", 58, 3),
        ),
        read=(
            *(FileRow(path, "whole") for path in read_files),
            FileRow("logs/staging-0611.log", "part"),
            *(FileRow(path, "name") for path in name),
        ),
        pinned=(PinRow(131, "Contract with the mobile team: keys", 200),),
        compactions=(CompactionRow(118, "101.3k → 26.1k", "13:20"),),
    )
