"""Histories for the Inspector, and its panels in a minimal app.

They have compactions, edits and rewinds.
"""

from collections.abc import Sequence
from typing import Self

from textual.app import App, ComposeResult
from textual.widgets import Input

from foldline.protocol import (
    Compaction,
    FileTouch,
    Kept,
    RequestRecord,
    SystemMessage,
    ToolDetails,
    ToolResultMessage,
    Written,
    text_parts,
)
from foldline.tui.base_app import BaseApp
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.look.themes import DEFAULT_THEME
from foldline.view.projection import Projection
from support.history import History, call, modified, read


class Story(History):
    """A history builder with compactions."""

    def tool(
        self,
        name: str,
        text: str = "ok",
        *,
        intro: str = "",
        brief: str = "",
        files: Sequence[FileTouch] = (),
        diff: str | None = None,
        **arguments: object,
    ) -> Self:
        """Add an answer with one tool call, and its result as shown to users."""
        self.assistant(intro, calls=[call(name, **arguments)])
        return self.answer(text, brief=brief, files=files, diff=diff)

    def answer(
        self,
        text: str,
        *,
        brief: str = "",
        files: Sequence[FileTouch] = (),
        diff: str | None = None,
    ) -> Self:
        """Add the result of the oldest open call."""
        open_call = self._open.pop(0)
        return self.add(
            ToolResultMessage(
                call_id=open_call.call_id,
                name=open_call.name,
                parts=text_parts(text),
                details=ToolDetails(brief=brief, files=tuple(files), diff=diff),
            )
        )

    def compaction(
        self,
        first_kept: int,
        summary: str,
        *,
        first: int = 0,
        inputs: Sequence[int] = (),
        pins: Sequence[int] = (),
        replaced: Sequence[Kept] = (),
        before: int = 116_200,
        after: int = 27_400,
    ) -> Self:
        """Add a compaction: entries from `first` up to `first_kept` become the summary."""
        message = SystemMessage(origin="summary", parts=text_parts(summary))
        return self.add(
            Compaction(
                summary=summary,
                first_kept_index=first_kept,
                head=(
                    Written(
                        message=message,
                        covers=((first, first_kept - 1),),
                        inputs=tuple(inputs),
                    ),
                    *(Kept(ref=pin) for pin in pins),
                ),
                replaced=tuple(replaced),
                reason="threshold",
                tokens_before=before,
                tokens_after=after,
            )
        )

    def request(self) -> Self:
        return self.add(RequestRecord(digest="0" * 64, model="offline"))


SUMMARY = """## Goal
POST /orders and cancel idempotent per customer

## Progress · Done
- src/shop/api/deps.py: idempotency_key() reads and hashes the header
- tests/test_orders.py::test_retry_is_one_order reproduces the bug
- keys in Postgres, not Redis: they must outlive a restart
- src/shop/orders/service.py: looked the key up in one transaction and inserted in another
- 24 h retention by a nightly job, as in the contract

## Next Steps
1. the same for cancel
2. docs, changelog
"""

SERVICE = "src/shop/orders/service.py"


def shop(many: int = 8) -> Story:
    """The session of the pictures, smaller.

    It has a compaction, a pin, clipped and hidden results, a drop and a rewind.
    """
    story = (
        Story()
        .system("Foldline system prompt")
        .instructions("Project instructions of shop-api")
    )
    story.user("Contract with the mobile team: the key is a UUID")  # 2
    story.edit("pin", 2)
    story.user(
        "The retry from the mobile app still makes two orders. Find out why."
    )  # 4
    for number in range(many):
        story.tool(
            "grep",
            "hits\n" * 40,
            brief="14 matches",
            pattern=f"idempotency_key {number}",
            intro="look",
        )
    story.tool(
        "read",
        "code\n" * 300,
        brief="312 lines",
        path=SERVICE,
        files=[read(SERVICE)],
        intro="read it",
    )
    story.assistant(
        "The key is looked up in one transaction and the order inserted in another."
    )
    story.user("Yes, do that. Never touch the payments table.")
    first_kept = story.last
    story.assistant(
        "two changes",
        calls=[call("edit", path=SERVICE), call("write", path="migrations/0042.py")],
    )
    story.answer(
        "done",
        brief="+9 −6",
        files=[modified(SERVICE, 9, 6)],
        diff="@@ -118 +118 @@\n-old\n+new\n",
    )
    story.answer("done", brief="24 lines", files=[modified("migrations/0042.py", 24)])
    story.tool(
        "bash",
        "sql\n" * 900,
        brief="exit 0",
        command="alembic upgrade head --sql",
        intro="show the SQL",
    )
    clipped = story.last
    story.tool(
        "bash",
        "31 passed\n" * 200,
        brief="31 passed",
        command="pytest -q",
        intro="run all tests",
    )
    hidden = story.last
    story.assistant("Done. A retry now gets the first order back.")
    story.compaction(
        first_kept,
        SUMMARY,
        first=4,
        pins=[2],
        replaced=[
            Kept(ref=clipped, content="sql\n" * 60, fate="clipped"),
            Kept(ref=hidden, content="[hidden]", fate="hidden"),
        ],
    )
    story.user("Now the same for POST /orders/{id}/cancel")
    story.checkpoint(1)
    story.tool(
        "bash",
        "A=1\n" * 90,
        brief="exit 0",
        command="printenv | sort",
        intro="look at the environment",
    )
    dropped = story.last
    story.edit("drop", dropped)
    story.checkpoint(2)
    story.tool(
        "edit",
        "done",
        brief="+14 −2",
        path="src/shop/api/cancel.py",
        intro="change cancel in place",
    )
    story.revert(2)
    story.request()
    story.tool(
        "bash",
        "6 passed",
        brief="6 passed",
        command="pytest -k cancel",
        intro="run the cancel tests",
    )
    return story


def chinese() -> Story:
    """The same history in Chinese, with wide characters, emoji and combining marks."""
    story = (
        Story()
        .system("你是一个编程助手。")
        .user("移动端重试仍然会产生两个订单。先找出原因,不要修改任何东西。")
    )
    for number in range(6):
        story.tool(
            "read",
            "订单服务\n" * 50,
            brief="五十行",
            path=f"源代码/订单/服务模块{number}.py",
            files=[read(f"源代码/订单/服务模块{number}.py")],
            intro="先读取服务模块,再看看测试 👩‍💻 是怎么写的,然后决定下一步要怎么做",
        )
    story.user("好的,就这样做。绝对不要碰支付表。e\u0301\u0301 🇨🇳")
    first_kept = story.last
    story.compaction(
        first_kept,
        "## 目标\n每个客户的订单都要幂等\n## 进展\n源代码/订单/服务模块3.py:已经读过\n",
        first=1,
    )
    return story.tool(
        "bash",
        "全部通过\n" * 30,
        brief="通过 31 个",
        command="运行 全部 测试",
        intro="运行测试",
    )


def long_story(entries: int) -> Story:
    """Turns of four entries without compactions."""
    story = Story().system("prompt")
    for number in range(entries // 4):
        story.user(f"request {number}")
        story.tool(
            "read",
            f"text {number}",
            intro="look",
            brief="1 line",
            path=f"src/f{number % 50}.py",
        )
        story.assistant(f"answer {number}")
    return story


class PanelsApp(BaseApp[None]):
    """The Inspector's panels alone."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, projection: Projection, *, overhead: int = 0, live: bool = False
    ) -> None:
        super().__init__(DEFAULT_THEME)
        self.panels = InspectorPanels(projection, overhead=overhead, live=live)
        self.panels.close = self._close
        self.closed = 0

    def compose(self) -> ComposeResult:
        yield self.panels

    def _close(self) -> None:
        self.closed += 1

    @property
    def finder(self) -> Input:
        return self.panels.query_one(Input)


def screen_rows(app: App[None]) -> list[str]:
    """Return the text of the screen, row by row."""
    return [
        "".join(segment.text for segment in strip)
        for strip in app.screen._compositor.render_strips()
    ]
