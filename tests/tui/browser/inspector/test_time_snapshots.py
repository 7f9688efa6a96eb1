"""The Inspector through time as pictures. Look at them before accepting them with `--snapshot-update`."""

from collections.abc import Callable

import pytest
from textual.app import App
from textual.pilot import Pilot

from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.look.themes import DEFAULT_THEME, ROLE_DEFAULTS, load_themes
from support.history import call
from support.request_stories import RequestStory, compacted_story

Compare = Callable[..., bool]


class Shown(App[None]):
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, story: RequestStory, title: str) -> None:
        super().__init__(ansi_color=True)
        panels = InspectorPanels(
            story.projection(),
            overhead=600,
            live=True,
            window=6_400,
            threshold=6_000,
            cwd="/work",
        )
        self.inspector = InspectorScreen(panels, title)
        for theme in load_themes():
            self.register_theme(theme)
        self.theme = DEFAULT_THEME

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return ROLE_DEFAULTS

    def on_mount(self) -> None:
        self.push_screen(self.inspector)


def chinese() -> RequestStory:
    story = (
        RequestStory()
        .system("你是一个编程助手。")
        .user("移动端重试仍然会产生两个订单。先找出原因。")
    )
    for number in range(12):
        story.ask(
            "先读取服务模块 👩‍💻",
            call("read", path=f"源代码/订单/服务模块{number}.py"),
            reported=700 + 300 * number,
        )
        story.answer("订单服务\n" * 60, brief="六十行")
    kept = story.user("好的,就这样做。").last
    story.compaction(
        kept, "## 目标\n每个客户的订单都要幂等\n", first=1, before=4_300, after=900
    )
    return story.ask("完成了", reported=1_000)


def taken(compare: Compare, app: Shown, size: tuple[int, int], *commands: str) -> bool:
    async def play(pilot: Pilot[None]) -> None:
        await pilot.pause()
        for command in commands:
            app.inspector.panels.action_inspect(command)
            await app.workers.wait_for_complete()
            await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()

    return compare(app, terminal_size=size, run_before=play)


def test_all_panels_as_of_a_request(snap_compare: Compare) -> None:
    app = Shown(compacted_story(), "shop-api ▸ Idempotent orders")
    commands = (
        *["older-request"] * 4,
        "mark",
        *["older-request"] * 2,
        "panel-1",
    )
    assert taken(snap_compare, app, (160, 44), *commands)


@pytest.mark.slow
def test_the_timeline_of_a_chinese_session_in_a_small_terminal(
    snap_compare: Compare,
) -> None:
    assert taken(
        snap_compare,
        Shown(chinese(), "订单"),
        (80, 24),
        "timeline",
        *["older-request"] * 2,
    )


def test_the_difference_that_a_compaction_makes(snap_compare: Compare) -> None:
    app = Shown(compacted_story(), "shop-api ▸ Idempotent orders")
    assert taken(snap_compare, app, (120, 36), "before-compaction", "diff")
