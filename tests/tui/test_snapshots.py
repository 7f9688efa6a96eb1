"""Every screen as a picture. Look at it before accepting it: `pytest … --snapshot-update`, then svg2png."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from foldline.history import age
from foldline.llm import LLMError
from foldline.tui.chat.welcome import Resumable
from support import scenes
from support.agents import reply, tool_reply
from support.live import StreamedAnswer
from support.scenes import Scene, scene

NEW = "await cancel_once(id, key=key)\n" + "".join(
    f"    order.step_{step}()\n" for step in range(20)
)
Compare = Callable[..., bool]


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., Scene]:
    """A scene in the folder of the pictures."""

    def build(*args: Any, **options: Any) -> Scene:
        options = {"branch": "orders-idempotent ±3", **options}
        return scene(tmp_path / "shop-api", *args, **options)

    return build


def taken(compare: Compare, made: Scene, size: tuple[int, int]) -> bool:
    return compare(made.app, terminal_size=size, run_before=made)


def keys(*pressed: str) -> Callable[[Scene, Pilot[None]], Any]:
    async def press(_: Scene, pilot: Pilot[None]) -> None:
        await pilot.press(*pressed)

    return press


def test_chat_idle(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    assert taken(snap_compare, shop(), (120, 36))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["small", "large"])
def test_chat_with_a_cold_cache(
    snap_compare: Compare, shop: Callable[..., Scene], size: tuple[int, int]
) -> None:
    assert taken(snap_compare, shop(scenes.after_a_pause()), size)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(40, 10), (70, 24), (80, 24), (120, 36)])
def test_an_empty_chat(
    snap_compare: Compare, shop: Callable[..., Scene], size: tuple[int, int]
) -> None:
    async def look(made: Scene, pilot: Pilot[None]) -> None:
        now = datetime(2026, 6, 11, 14, 5, tzinfo=UTC)
        made.app.chat.welcome.offer(
            [Resumable("a", "Idempotent orders", age(now - timedelta(hours=3), now))]
        )
        await pilot.press("tab")

    assert taken(snap_compare, shop(play=look), size)


def test_chat_running(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    made = shop(
        scenes.shop_api(), StreamedAnswer(), play=scenes.run_a_turn, window=400_000
    )
    assert taken(snap_compare, made, (120, 36))


@pytest.mark.slow
def test_a_terminal_that_is_too_small(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    assert taken(snap_compare, shop(scenes.shop_api()), (38, 9))


@pytest.mark.slow
def test_chat_in_ascii(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    made = shop(
        scenes.shop_api(),
        play=scenes.compaction_with_a_queue,
        summaries=scenes.held_compaction(),
    )
    made.app.use_charset("marks")
    assert taken(snap_compare, made, (80, 24))


def test_chat_compacting(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    made = shop(
        scenes.shop_api(),
        play=scenes.compaction_with_a_queue,
        summaries=scenes.held_compaction(),
    )
    assert taken(snap_compare, made, (120, 36))


@pytest.mark.slow
def test_chat_scrolled_in_a_small_terminal(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    made = shop(
        scenes.shop_api(),
        StreamedAnswer(),
        play=scenes.scroll_up,
        summaries=scenes.written_compaction(),
        waits="bash",
        approvals="all",
    )
    assert taken(snap_compare, made, (80, 24))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(40, 10), (70, 24), (80, 24), (120, 36)])
def test_chat_with_a_question(
    snap_compare: Compare,
    shop: Callable[..., Scene],
    tmp_path: Path,
    size: tuple[int, int],
) -> None:
    folder = tmp_path / "shop-api"
    folder.mkdir()
    (folder / "cancel.py").write_text(
        "async def cancel(id):\n    order = await by_id(id)\n    return order\n"
    )
    script = (
        tool_reply(("read", {"path": "cancel.py"}), text="I look at it first."),
        tool_reply(
            (
                "edit",
                {"path": "cancel.py", "old": "await by_id(id)", "new": NEW},
            ),
            text="One line has to change.",
            stem="d",
        ),
    )
    assert taken(snap_compare, shop(None, *script, play=scenes.ask_for_an_edit), size)


SIZES = [(80, 24), (120, 36)]
PLAN = """# Idempotent cancel

1. `insert_or_get` in `src/shop/orders/service.py`, for cancel, too
2. A key longer than 64 characters is a 422
3. Tests: two retries at once; `pytest -q`
"""


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", SIZES)
def test_chat_with_a_question_of_the_model(
    snap_compare: Compare, shop: Callable[..., Scene], size: tuple[int, int]
) -> None:
    asked = {
        "question": "Which index should stay?",
        "choices": ["The one per customer", "The older one"],
    }
    made = shop(
        None, tool_reply(("ask_user", asked)), play=scenes.ask_for_an_edit, asks=True
    )
    assert taken(snap_compare, made, size)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", SIZES)
def test_chat_with_a_plan(
    snap_compare: Compare, shop: Callable[..., Scene], size: tuple[int, int]
) -> None:
    async def say_why(made: Scene, pilot: Pilot[None]) -> None:
        await made.enter(pilot, "/plan")
        await scenes.ask_for_an_edit(made, pilot)
        made.clock.now += 2
        await pilot.press("3", *"with a test")

    assert taken(
        snap_compare,
        shop(None, tool_reply(("plan", {"text": PLAN})), play=say_why, asks=True),
        size,
    )


@pytest.mark.slow
def test_chat_waiting_for_a_retry(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    made = shop(scenes.shop_api(), StreamedAnswer(), play=scenes.wait_for_a_retry)
    assert taken(snap_compare, made, (80, 24))


@pytest.mark.slow
def test_chat_after_a_request_failed_half_way(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    half = reply(
        "I read the route and the service first. The cancel path has no key at all:",
        stop_reason="error",
    )
    failed = LLMError(scenes.BROKEN_OFF, partial=half)
    assert taken(
        snap_compare,
        shop(scenes.shop_api(), failed, play=scenes.fail_half_way),
        (120, 36),
    )


def test_help(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    assert taken(snap_compare, shop(play=keys("f1")), (120, 36))


def test_palette(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    assert taken(snap_compare, shop(play=scenes.find_in_the_palette), (120, 36))


@pytest.mark.slow
def test_help_of_the_inspector_in_a_small_terminal(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    assert taken(snap_compare, shop(play=keys("f2", "f1", *"pin")), (80, 24))


def test_inspector(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    made = shop(
        scenes.shop_api(),
        play=scenes.inspect_after_the_compaction,
        summaries=scenes.written_compaction(),
    )
    assert taken(snap_compare, made, (160, 44))


@pytest.mark.slow
def test_inspector_beside_the_chat(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    made = shop(
        scenes.shop_api(),
        play=scenes.inspect_beside_the_chat,
        summaries=scenes.written_compaction(),
    )
    assert taken(snap_compare, made, (160, 36))


@pytest.mark.slow
def test_inspector_in_a_small_terminal(
    snap_compare: Compare, shop: Callable[..., Scene]
) -> None:
    made = shop(
        scenes.shop_api(),
        play=scenes.inspect_after_the_compaction,
        summaries=scenes.written_compaction(),
    )
    assert taken(snap_compare, made, (80, 24))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "size", [(40, 10), (80, 24), (120, 30), (200, 50)], ids=lambda size: f"{size[0]}"
)
def test_rewind_to_a_branch(
    snap_compare: Compare, shop: Callable[..., Scene], size: tuple[int, int]
) -> None:
    assert taken(
        snap_compare, shop(scenes.shop_api(), play=scenes.rewind_to_branch), size
    )


@pytest.mark.slow
def test_rewind(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    assert taken(snap_compare, shop(scenes.shop_api(), play=scenes.rewind), (100, 30))


def test_approvals(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    assert taken(snap_compare, shop(play=scenes.look_at_the_rules), (80, 24))


@pytest.mark.slow
def test_choosing_a_theme(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    assert taken(snap_compare, shop(play=scenes.choose_a_theme), (80, 24))


@pytest.mark.slow
def test_chinese_chat(snap_compare: Compare, shop: Callable[..., Scene]) -> None:
    made = shop(
        scenes.chinese_shop(), play=keys("ctrl+o", "ctrl+end"), branch="主分支 ±2"
    )
    assert taken(snap_compare, made, (100, 40))


@pytest.mark.slow
def test_chat_without_colour(
    snap_compare: Compare, shop: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    made = shop(
        scenes.shop_api(),
        play=scenes.compaction_with_a_queue,
        summaries=scenes.held_compaction(),
    )
    assert taken(snap_compare, made, (120, 36))
