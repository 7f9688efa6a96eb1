"""The scenes of the pictures: the real program on a made-up web shop, with a fixed clock."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from textual.pilot import Pilot

from foldline.agent import Agent
from foldline.agent.session.rewind import FileDiff, RewindPreview
from foldline.agent.tools import ToolContext, ToolOutcome, default_tools
from foldline.history import Session
from foldline.llm import ModelInfo
from foldline.past.rewind_points import FileChange, RewindPoint
from foldline.protocol import (
    Approval,
    CacheTerms,
    Entry,
    RequestRecord,
    Rule,
    Title,
    Usage,
    dump_entry,
    operations,
)
from foldline.tui.app.app import FoldlineApp
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.panels.entry_list import TOOLS_KEY
from foldline.tui.overlays.rewind import QUESTION, Point, RewindDialog, branch_ends
from foldline.view.budget import Size
from foldline.view.tokens import estimate_tokens
from support.agents import PATIENCE, tool_reply
from support.chat_app import Clock, screen_text
from support.history import History, history, modified, read
from support.live import StreamedAnswer, StreamingLLM, session_in
from support.stories import SUMMARY, Story

WINDOW = 131_072
SERVICE = "src/shop/orders/service.py"
ROUTES = "src/shop/api/orders.py"
DEPS = "src/shop/api/deps.py"
REPOSITORY, MIGRATION = (
    "src/shop/orders/repository.py",
    "migrations/versions/0042_idempotency.py",
)
TESTS, LOG = "tests/test_orders.py", "logs/staging-0611.log"
DIFF = """--- a/src/shop/orders/service.py
+++ b/src/shop/orders/service.py
@@ -118,2 +118,2 @@
-existing = await self.orders.by_key(key)
-if existing: return existing
+order = await self.orders.insert_or_get(draft, key=key)
+replayed = order.id != draft.id
"""


class DatedStory(Story):
    """A story whose entries are dated one after the other, from a given time of day."""

    def __init__(self, hour: int, minute: int) -> None:
        super().__init__()
        self._at = datetime(2026, 3, 14, hour, minute, tzinfo=UTC)

    def add(self, entry: Entry) -> Self:
        self._at += timedelta(seconds=4)
        return super().add(entry.model_copy(update={"at": self._at}))

    def wait(self, minutes: float) -> Self:
        self._at += timedelta(minutes=minutes)
        return self

    def tool(
        self,
        name: str,
        text: str = "ok",
        *,
        seconds: float = 0.0,
        error: bool = False,
        **options: Any,
    ) -> Self:  # type: ignore[override]
        """Add a call and its result, with duration and failure."""
        super().tool(name, text, **options)
        result = self.entries[-1]
        details = result.details.model_copy(update={"seconds": seconds})  # type: ignore[attr-defined]
        self.entries[-1] = result.model_copy(
            update={"details": details, "is_error": error}
        )
        return self


def filler(
    tokens: int,
    line: str = "    order = await self.orders.insert_or_get(draft, key=key)  # {n}",
) -> str:
    """Return text of about `tokens` tokens."""
    lines = [line.format(n=number) for number in range(tokens // 8 + 1)]
    every = max(1, estimate_tokens("\n".join(lines)))
    return "\n".join(lines[: max(1, len(lines) * tokens // every)])


def shop_api() -> DatedStory:
    """The session of the pictures before its second compaction: about 115k tokens."""
    story = DatedStory(12, 40)
    story.system(
        filler(2_000, "Rule {n}: read before you write, and say what you did.")
    )
    story.instructions(filler(1_500, "The shop's rule {n}: money is counted in cents."))
    story.add(Title(title="Idempotent orders"))
    story.user("Contract with the mobile team: the key is a UUID, kept for 24 hours")
    story.edit("pin", story.last)
    for path, tokens in (
        ("docs/api/orders.md", 9_000),
        ("pyproject.toml", 2_000),
        ("alembic.ini", 1_500),
        ("src/shop/payments/ledger.py", 9_000),
        ("src/shop/api/schemas.py", 8_000),
    ):
        story.user(f"What does {path} say about orders?")
        story.tool(
            "read",
            filler(tokens),
            brief="312 lines",
            path=path,
            files=[read(path)],
            intro="I read it.",
        )
        story.assistant("Nothing about retries.")
    first_kept = story.last + 1
    story.wait(12).user("Why does the proxy drop the key?")
    story.compaction(
        first_kept, SUMMARY, first=6, pins=[3], before=101_300, after=26_100
    )
    for question, path, tokens in (
        ("Move key parsing into a dependency", DEPS, 17_000),
        ("Measure the endpoint under load", ROUTES, 21_000),
        ("Where do the double orders come from?", LOG, 22_000),
        ("Try the migration on staging", REPOSITORY, 21_000),
    ):
        story.wait(4).user(question)
        story.tool(
            "read",
            filler(tokens),
            brief="1,204 lines",
            path=path,
            files=[read(path)],
            intro="I read it.",
        )
        story.assistant("Done.")
    story.wait(22)
    story.add(
        RequestRecord(
            digest="0" * 64,
            model="kimi-k2",
            estimated=90_000,
            usage=Usage(input=90_000),
        )
    )
    story.user(
        "The retry from the mobile app still makes two orders. Find out why before changing anything."
    )
    story.tool(
        "grep",
        filler(400),
        brief="14 matches",
        seconds=0.1,
        pattern="idempotency_key",
        path="src tests",
    )
    story.tool(
        "bash",
        filler(2_200),
        brief="exit 1 ✗",
        seconds=6.8,
        error=True,
        command="pytest tests/test_orders.py -k retry -x",
    )
    story.tool(
        "read", filler(3_100), brief="312 lines", path=SERVICE, files=[read(SERVICE)]
    )
    story.assistant(
        "The key is looked up in one transaction and the order inserted in another, so two retries both "
        "pass. Proposal: unique index per customer, insert first."
    )
    story.wait(2)
    story.user("Yes, do that. Never touch the payments table. Keep the public schema.")
    story.tool(
        "edit",
        filler(500),
        brief="+9 −6",
        path=SERVICE,
        files=[modified(SERVICE, 9, 6)],
        diff=DIFF,
    )
    story.tool(
        "write",
        filler(600),
        brief="24 lines",
        path=MIGRATION,
        files=[modified(MIGRATION, 24)],
    )
    story.tool(
        "bash",
        filler(5_100),
        brief="exit 0",
        seconds=1.4,
        command="alembic upgrade head --sql",
    )
    story.tool(
        "read", filler(4_700), brief="401 lines", path=TESTS, files=[read(TESTS)]
    )
    story.tool(
        "edit", filler(200), brief="+58 −3", path=TESTS, files=[modified(TESTS, 58, 3)]
    )
    story.tool(
        "bash", filler(4_800), brief="31 passed", seconds=9.3, command="pytest -q"
    )
    story.assistant(
        "Done. A retry now gets the first order back; 31 tests pass, 4 of them new. The index is per "
        "customer and the public schema is unchanged.",
        usage=Usage(input=115_540, cached=113_000, output=60),
        model="kimi-k2",
    )
    # No cached input, so that the summary gets a request of its own.
    usage = Usage(input=115_540, output=60)
    return story.add(RequestRecord(digest="0" * 64, model="kimi-k2", usage=usage))


def after_a_pause() -> DatedStory:
    """The same session after its provider's five-minute cache has expired."""
    story = shop_api()
    usage = Usage(input=115_540, cached=113_000, output=60)
    newest = story.entries[-1].model_copy(
        update={"cache": CacheTerms(life=300), "usage": usage}
    )
    story.entries[-1] = newest
    return story


def chinese_shop() -> DatedStory:
    """A session in Chinese.

    It has wide characters, emoji and combining marks everywhere, some right-to-left text, and a word longer
    than any line.
    """
    story = DatedStory(9, 12).system("你是一个编程助手。")
    story.user(
        "移动端重试仍然会产生两个订单。先找出原因,不要修改任何东西,也不要碰支付表。"
    )
    path = "源代码/订单/服务模块.py"
    story.tool(
        "read",
        filler(900, "订单服务 {n}"),
        brief="五十行",
        path=path,
        files=[read(path)],
        intro="先读取服务模块 👩‍💻。",
    )
    story.tool(
        "bash",
        filler(90, "通过 {n}"),
        brief="通过 31 个",
        seconds=2.5,
        command="运行 全部 测试 --详细",
    )
    return story.assistant(
        "键在一个事务中查询,订单在另一个事务中插入,所以两次重试都会通过。\n\n"
        f"מפתח ייחודי לכל לקוח, مفتاح فريد لكل عميل: {'orders.idempotency_key.' * 6}\n\n"
        "- 每个客户一个唯一索引\n- 先插入,再读取\n\n"
        "```python\n订单 = await 仓库.插入或获取(草稿, 键=键)\n```\n\n"
        "| 文件 | 行 |\n|---|---|\n| 服务模块.py | 31 |\n| 测试订单.py | 58 |"
    )


class SceneApp(FoldlineApp):
    """The program with a fixed branch, and without links on paths.

    Links are invisible but would split the text of the picture.
    """

    branch = ""
    files = property(lambda _: None, lambda _, links: None)  # type: ignore[assignment]

    def on_load(self) -> None:
        super().on_load()
        self.chat._read_git_state = lambda: self.chat._show_git_state(self.branch)  # type: ignore[method-assign,assignment]


class _Waits:
    """A tool that runs until cancelled, under another tool's name."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        await asyncio.Event().wait()
        raise AssertionError("never")


@dataclass
class Scene:
    """A program, and the user's actions before the picture is taken."""

    app: SceneApp
    agent: Agent
    llm: StreamingLLM
    clock: Clock
    play: Callable[["Scene", Pilot[None]], Any] = field(
        default=lambda scene, pilot: scene.ready(pilot)
    )

    async def __call__(self, pilot: Pilot[None]) -> None:
        await self.ready(pilot)
        await self.play(self, pilot)
        await self.until(pilot, lambda: self.app.chat.presenter.settled)

    async def ready(self, pilot: Pilot[None]) -> None:
        await self.until(
            pilot,
            lambda: self.app.runner is not None and self.app.chat.presenter.settled,
        )

    async def until(self, pilot: Pilot[None], condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.005)
        await pilot.pause()

    async def enter(self, pilot: Pilot[None], text: str) -> None:
        self.app.chat.prompt.editor.insert(text)
        await pilot.pause()
        await pilot.press("enter")

    async def ask(self, pilot: Pilot[None], text: str) -> None:
        """Send a prompt and wait for the end of its turn."""
        count = len(self.agent.session.entries)
        await self.enter(pilot, text)
        await self.until(
            pilot,
            lambda: (
                len(self.agent.session.entries) > count and not self.agent.executor.busy
            ),
        )


def scene(
    folder: Path,
    story: DatedStory | None = None,
    *script: Any,
    play: Callable[[Scene, Pilot[None]], Any] | None = None,
    branch: str = "",
    model: str = "kimi-k2",
    window: int = WINDOW,
    summaries: Sequence[Any] = (),
    approvals: str = "ask",
    waits: str = "",
    asks: bool = False,
) -> Scene:
    """Return the program on this story, in a folder whose name the header shows.

    `asks` adds the tools that ask the user.
    """
    session = _kept(folder, story) if story is not None else session_in(folder)
    llm = StreamingLLM(*script, window=window, summaries=tuple(summaries))
    llm.info = ModelInfo(id=model, window=window)
    tools = [
        _Waits(tool) if tool.spec.name == waits else tool for tool in default_tools()
    ]
    agent = Agent(
        session,
        llm=llm,
        approvals=approvals,  # type: ignore[arg-type]
        tools=None if asks else tools,
        interactive=asks,
        draft_ahead=False,
        compaction="summary",  # the pictures show a summary
    )
    clock = Clock()
    app = SceneApp(lambda: agent, root=folder, clock=clock)
    app.branch = branch
    result = Scene(app, agent, llm, clock)
    if play is not None:
        result.play = play
    return result


def _kept(folder: Path, story: DatedStory) -> Session:
    """Write a session of the story to disk; it continues two minutes after the last entry."""
    session = session_in(folder)
    assert session.path is not None
    session.path.parent.mkdir(parents=True)
    lines = [session.header.model_dump_json().encode(), *map(dump_entry, story.entries)]
    session.path.write_bytes(b"".join(line + b"\n" for line in lines))
    last = story.entries[-1].at
    assert last is not None
    goes_on = last + timedelta(minutes=24)
    return Session.open(session.path, now=lambda: goes_on)


# --- what the reader does -----------------------------------------------------------------------------


async def compaction_with_a_queue(scene: Scene, pilot: Pilot[None]) -> None:
    """Picture (a): a compaction is drafted, one prompt is held, two are queued, one is being typed."""
    await scene.enter(
        pilot,
        "Now the same for POST /orders/{id}/cancel (@src/shop/api/cancel.py), with a test that fires 20 "
        "requests at once.",
    )
    await scene.until(
        pilot,
        lambda: (
            scene.app.state.compacting is not None
            and scene.app.state.compacting.drafted
        ),
    )
    await scene.enter(pilot, "Then update docs/api/orders.md and the changelog.")
    await scene.enter(pilot, "When everything is green, make one commit. Do not push.")
    scene.clock.now += 14.2
    scene.app.chat.prompt.editor.insert(
        "Also: a key longer than 64 characters must be a 422, not a 500,\nand say so in the docs"
    )
    scene.app.chat.show_status()


async def compaction_and_run(scene: Scene, pilot: Pilot[None]) -> None:
    """Send the held prompt after the compaction of picture (a)."""
    count = len(scene.agent.session.projection.all_compactions)
    await scene.enter(
        pilot,
        "Now the same for POST /orders/{id}/cancel, with a test of 20 requests at once.",
    )
    await scene.until(
        pilot, lambda: len(scene.agent.session.projection.all_compactions) > count
    )


ANSWER = """\
Because two apps may choose the same key: unique over all customers, one shop's retry would return another
shop's order. **Never** `UNIQUE (key)` alone:

```sql
CREATE UNIQUE INDEX orders_key ON orders (customer_id, idempotency_key);
```

- `insert_or_get` inserts first, and reads only where the index refuses
- the 24 h of the contract are kept by"""
THROTTLED = "https://api.example.com/v1 limits how often kimi-k2 can be used (429): wait and send again."
BROKEN_OFF = (
    'https://api.example.com/v1 reported an error: it says "The engine is overloaded just now; ask '
    'again later, or write to support if it goes on for longer than you would like it to".'
)


async def wait_for_a_retry(scene: Scene, pilot: Pilot[None]) -> None:
    """The server throttles: the request waits, one prompt is queued, one is being typed."""
    spoken = scene.llm.script[0]
    await scene.enter(
        pilot,
        "Now the same for POST /orders/{id}/cancel, with a test of 20 requests at once.",
    )
    await scene.until(pilot, lambda: scene.llm.silent.is_set())
    await scene.enter(pilot, "Then update docs/api/orders.md and the changelog.")
    spoken.retry(THROTTLED, 4.0, 2)
    await scene.until(pilot, lambda: scene.app.state.retry_at(scene.clock.now))
    scene.clock.now += 1.4
    scene.app.chat.prompt.editor.insert("Typed while it waits")
    scene.app.chat.show_status()


async def fail_half_way(scene: Scene, pilot: Pilot[None]) -> None:
    """The server fails permanently in the middle of an answer."""
    await scene.ask(
        pilot,
        "Now the same for POST /orders/{id}/cancel, with a test of 20 requests at once.",
    )


async def scroll_up(scene: Scene, pilot: Pilot[None]) -> None:
    """Picture (d): a test runs after the compaction, two prompts are queued, the reader scrolled up."""
    spoken = scene.llm.script[0]
    await compaction_and_run(scene, pilot)
    await scene.until(pilot, lambda: scene.llm.silent.is_set())
    await scene.enter(pilot, "Then update docs/api/orders.md and the changelog.")
    await scene.enter(pilot, "When everything is green, make one commit. Do not push.")
    scene.app.chat.prompt.editor.insert(
        "Also: a key longer than 64 characters must be a 422"
    )
    scene.app.chat.transcript.scroll_lines(-1)
    spoken.end(
        tool_reply(
            ("bash", {"command": "pytest -k cancel"}),
            text="I run the cancel tests first.",
        )
    )
    await scene.until(
        pilot, lambda: scene.app.state.tools and scene.app.chat.presenter.settled
    )
    scene.clock.now += 4.0
    scene.app.chat.show_status()


async def find_in_the_palette(scene: Scene, pilot: Pilot[None]) -> None:
    """Search the palette once all its items are loaded."""
    from foldline.tui.overlays.palette import Palette

    await pilot.press("ctrl+p")
    app, last = scene.app, {"theme:dusk", "setting:theme"}
    await scene.until(
        pilot, lambda: isinstance(app.screen, Palette) and last <= {*app.screen.items}
    )
    await pilot.press(*"compact")


async def look_at_the_rules(scene: Scene, pilot: Pilot[None]) -> None:
    """Permissions with two rules of this session."""
    from foldline.tui.lists.picker import Picker

    await scene.agent.session.append(
        Approval(rule=Rule(tool="bash", pattern="git status")),
        Approval(rule=Rule(tool="edit")),
    )
    await scene.enter(pilot, "/approvals")
    await scene.until(pilot, lambda: isinstance(scene.app.screen, Picker))


async def choose_a_theme(scene: Scene, pilot: Pilot[None]) -> None:
    """The list of themes with one previewed."""
    from foldline.tui.lists.picker import Picker

    await scene.enter(pilot, "/theme")
    await scene.until(pilot, lambda: isinstance(scene.app.screen, Picker))
    await pilot.press("down", "down")


async def ask_for_an_edit(scene: Scene, pilot: Pilot[None]) -> None:
    """A call waits for approval."""
    await scene.enter(pilot, "Make cancel idempotent, too")
    await scene.until(pilot, lambda: scene.app.state.question is not None)


async def inspect_after_the_compaction(
    scene: Scene, pilot: Pilot[None]
) -> InspectorPanels:
    """Picture (b): the Inspector with its cursor on a summarised entry."""
    await inspect_beside_the_chat(scene, pilot)
    shown = scene.app.chat.presenter.shown
    assert shown is not None
    inspecting = shown.inspecting
    if inspecting.docked is not None:
        await pilot.press("m")
    await scene.until(
        pilot, lambda: inspecting.screen is not None and inspecting.screen.is_current
    )
    await scene.until(
        pilot, lambda: inspecting.panels and inspecting.panels.has_edit_hints
    )
    assert inspecting.panels is not None
    return inspecting.panels


async def inspect_beside_the_chat(scene: Scene, pilot: Pilot[None]) -> None:
    """The Inspector as F2 opens it at this width, with its cursor on a summarised entry."""
    await compaction_and_run(scene, pilot)
    await scene.until(pilot, lambda: not scene.agent.executor.busy)
    await pilot.press("f2")
    shown = scene.app.chat.presenter.shown
    assert shown is not None
    inspecting = shown.inspecting
    await scene.until(pilot, lambda: getattr(scene.app.focused, "id", "") == "history")
    panels = inspecting.panels
    assert panels is not None
    compaction = scene.agent.session.projection.all_compactions[-1]
    panels.history.view.cursor_to((compaction.first_kept_index - 2, 0))
    await scene.until(pilot, lambda: panels.has_edit_hints)


async def compare_at_the_compaction(scene: Scene, pilot: Pilot[None]) -> None:
    """The view before and after the newest compaction."""
    panels = await inspect_after_the_compaction(scene, pilot)
    await pilot.press("right_curly_bracket", "d")
    await scene.until(pilot, lambda: panels.view.difference is not None)


async def look_at_the_settings(scene: Scene, pilot: Pilot[None]) -> None:
    """The Settings screen, on automatic compaction."""
    from foldline.tui.overlays.settings import SettingsScreen

    await scene.enter(pilot, "/settings")
    await scene.until(pilot, lambda: isinstance(scene.app.screen, SettingsScreen))
    screen = scene.app.screen
    assert isinstance(screen, SettingsScreen)
    screen.select("compaction.mode")
    screen.update()
    await pilot.pause()


async def run_a_turn(scene: Scene, pilot: Pilot[None]) -> None:
    """The model has thought and is writing its answer."""
    spoken = scene.llm.script[0]
    await scene.enter(pilot, "Why is the index per customer? Answer with an example.")
    await scene.until(pilot, lambda: scene.llm.silent.is_set())
    spoken.think("Two customers may choose the same key. " * 60)
    spoken.say(ANSWER)
    await scene.until(pilot, lambda: "are kept by" in str(screen_text(scene.app)))
    scene.clock.now += 8.0
    scene.app.chat.show_status()


async def look_at_the_context(scene: Scene, pilot: Pilot[None]) -> InspectorPanels:
    """The Inspector by size, with the effects of its keys."""
    await pilot.press("f4")
    shown = scene.app.chat.presenter.shown
    assert shown is not None
    inspecting = shown.inspecting
    await scene.until(
        pilot, lambda: inspecting.panels is not None and inspecting.panels.by_size
    )
    panels = inspecting.panels
    assert panels is not None
    await scene.until(pilot, lambda: not panels.view.view.holds(TOOLS_KEY))
    await pilot.pause()
    await scene.until(pilot, lambda: panels.active == 0 or panels.has_edit_hints)
    return panels


def preview_of(summary: StreamedAnswer) -> Callable[[Scene, Pilot[None]], Any]:
    """Picture (c): a prompt is held, and F3 shows the compaction being drafted."""

    async def play(scene: Scene, pilot: Pilot[None]) -> None:
        text = "Now the same for POST /orders/{id}/cancel, with a test of 20 requests at once."
        await scene.enter(pilot, text)
        await scene.until(pilot, lambda: scene.app.state.compacting is not None)
        await pilot.press("f3")
        scene.clock.now += 12
        summary.say(SUMMARY)
        summary.end()
        await scene.until(
            pilot, lambda: scene.agent.state.compaction.review.proposal is not None
        )
        await scene.until(pilot, lambda: scene.app.chat.presenter.settled)

    return play


def held_compaction() -> tuple[StreamedAnswer]:
    """A summary that stops after 2,000 tokens."""
    summary = StreamedAnswer()
    summary.say(filler(2_100))
    return (summary,)


def written_compaction() -> tuple[str]:
    """A realistic summary."""
    return (SUMMARY,)


AT_HALF_PAST_TWO = datetime(2026, 3, 14, 14, 31, tzinfo=UTC)
REWIND_PLACES = tuple(
    RewindPoint(number, number, AT_HALF_PAST_TWO, "turn", label, changes, label)
    for number, label, changes in (
        (
            9,
            "Now the same for POST /orders/{id}/cancel, with a test that fires 20 requests at once",
            2,
        ),
        (6, "Yes, do that. Never touch the payments table. Keep the public schema.", 4),
        (5, "把订单接口改成幂等的，先写一个测试", 5),
    )
)
REWIND_OUTCOME = RewindPreview(
    before=Size(27_400, estimated=False),
    after=Size(12_100, estimated=True),
    items=34,
    files=(
        FileChange("src/shop/orders/service.py", "write", "new", "old"),
        FileChange("migrations/0042_idempotency.py", "remove", "new", None),
        FileChange("docs/api.md", "conflict", "mine", "old"),
    ),
)


async def choose_point(scene: Scene, pilot: Pilot[None], dialog: RewindDialog) -> None:
    """The list of points to go back to."""
    from foldline.tui.lists.picker import Picker

    scene.app.chat.run_worker(dialog.choose())
    await scene.until(pilot, lambda: isinstance(scene.app.screen, Picker))


async def rewind(scene: Scene, pilot: Pilot[None]) -> None:
    """The question how to go back, with the effects."""

    async def look(_: operations.Rewind) -> RewindPreview:
        return REWIND_OUTCOME

    async def no_diffs(index: int) -> Sequence[FileDiff]:
        return ()

    await choose_point(
        scene, pilot, RewindDialog(scene.app.chat, REWIND_PLACES, look, no_diffs)
    )
    await pilot.press("enter")
    await scene.until(
        pilot, lambda: QUESTION.partition("{")[0] in "\n".join(screen_text(scene.app))
    )


def branched_session() -> History:
    """A session with an edited prompt, a branch of that branch, and a continued branch."""
    story = history().system("You are a coding agent.")
    story.entries[0] = story.entries[0].model_copy(update={"at": AT_HALF_PAST_TWO})
    story.turn(
        "Reproduce the retry bug in a test", "The test fails as the report says."
    )
    root = story.last
    story.turn("Fix it with a lock", "Done, but it serialises all orders.")
    lock = story.last
    story.turn(
        "Measure what that costs under load, with k6 and fifty users",
        "p95 goes from 96 to 412 ms.",
    )
    story.go_to(lock).turn("锁的粒度改小一点，每个客户一个锁", "每个客户一个锁。")
    story.go_to(root).turn(
        "Fix it with a unique index, insert first", "A retry gets the first order back."
    )
    story.turn("Now the same for POST /orders/{id}/cancel", "Done.")
    at = AT_HALF_PAST_TWO
    story.entries = [entry.model_copy(update={"at": at}) for entry in story.entries]
    return story


async def rewind_to_branch(scene: Scene, pilot: Pilot[None]) -> None:
    """The points to go back to, among them the ends of branches, with the mark on one of these."""

    async def look(_: operations.Rewind) -> RewindPreview:
        return REWIND_OUTCOME

    async def no_diffs(_: int) -> Sequence[FileDiff]:
        return ()

    ends = branch_ends(branched_session().projection(), every_turn=False)
    points: list[Point] = [*REWIND_PLACES, *ends]
    points.sort(key=lambda point: point.index, reverse=True)
    await choose_point(
        scene, pilot, RewindDialog(scene.app.chat, points, look, no_diffs)
    )
    await pilot.press("down", "down", "down")
