"""What is drawn while the Inspector opens: once, and from the first picture on what will be there; and that
it is right whatever comes meanwhile."""

from pathlib import Path

import pytest
from textual import events
from textual._styles_cache import StylesCache
from textual.screen import Screen

from foldline.tui.blocks.view import BlockView
from foldline.tui.browser.inspector.panels import InspectorPanels
from foldline.tui.browser.inspector.screen import InspectorScreen
from support.live import Live, StreamedAnswer, live

pytestmark = pytest.mark.slow

DOCKED, TWO, THREE = (170, 36), (100, 36), (159, 44)
PLACES = pytest.mark.parametrize(
    "size", [DOCKED, TWO, THREE], ids=["docked", "two panels", "three panels"]
)


class Pictures:
    """Every picture of the screen in front as it was painted, and the work for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.layouts = 0
        """Of the Inspector's own screen."""
        self.lines = 0
        self.most = 0
        """Lines that widgets drew for one picture."""
        paint, lay_out, draw = (
            Screen._compositor_refresh,
            Screen._refresh_layout,
            StylesCache.render_line,
        )

        def _compositor_refresh(screen: Screen[object]) -> None:
            self.lines = 0
            paint(screen)
            self.most = max(self.most, self.lines)
            if screen is screen.app.screen:
                self.seen.append(
                    "\n".join(
                        strip.text for strip in screen._compositor.render_strips()
                    )
                )

        def _refresh_layout(
            screen: Screen[object], *args: object, **kwargs: object
        ) -> None:
            self.layouts += isinstance(screen, InspectorScreen)
            lay_out(screen, *args, **kwargs)  # type: ignore[arg-type]

        def render_line(cache: StylesCache, *args: object) -> object:
            self.lines += 1
            return draw(cache, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(Screen, "_compositor_refresh", _compositor_refresh)
        monkeypatch.setattr(Screen, "_refresh_layout", _refresh_layout)
        monkeypatch.setattr(StylesCache, "render_line", render_line)

    @property
    def of_panels(self) -> list[str]:
        return [picture for picture in self.seen if "state no." in picture]


async def opened(running: Live) -> InspectorPanels:
    await running.until(lambda: getattr(running.app.focused, "id", "") == "history")
    return running.app.screen.query_one(InspectorPanels)


def press_at_once(running: Live, *keys: str) -> None:
    """As a terminal gives them where they were read in one go: nothing is done between them."""
    for key in keys:
        running.app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.mark.quick_cases(1)
@PLACES
async def test_it_is_drawn_once_and_whole_from_its_first_picture_on(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path, *["An answer."] * 4, size=size) as running:
        for _ in range(4):
            await running.ask("A prompt.")
        pictures = Pictures(monkeypatch)
        await running.press("f2")
        panels = await opened(running)
        for view in panels.query(BlockView):
            assert view.rendered == (view.count if view.size.width else 0), (
                "each row once, of what is seen"
            )
        assert pictures.layouts <= 2
        # Of the seven widgets below every cell those draw lines that have something to show.
        assert pictures.most < 8 * size[1]
        first, last = (
            pictures.of_panels[0].split("\n"),
            pictures.of_panels[-1].split("\n"),
        )
        assert [row for row in first if "History" in row] == [
            row for row in last if "History" in row
        ]
        assert first[-1] == last[-1], "the hints"
        assert all("┏━ 1 History" in picture for picture in pictures.of_panels), (
            "it has the focus"
        )
        assert {picture.count("state no.") for picture in pictures.of_panels} == {
            1 if size == DOCKED else 2
        }


async def test_opened_and_closed_beside_the_chat_in_one_go_the_prompt_has_the_keys(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, "First", "Second", size=DOCKED) as running:
        await running.ask("hi")
        press_at_once(running, "f2", "f2")
        await running.until(
            lambda: (
                not running.app.chat.docked.is_used
                and not running.app.chat.docked.display
            )
        )
        await running.until(
            lambda: running.app.focused is running.app.chat.prompt.editor
        )
        await running.ask("go on")
        await running.until(lambda: "Second" in running.text)
        assert "1 History" not in running.text


@PLACES
async def test_opened_while_an_answer_streams_it_has_what_came(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken, size=size) as running:
        await running.enter("tell me")
        await running.llm.silent.wait()
        spoken.say("Once upon ")
        press_at_once(running, "f2")
        spoken.say("a time")
        panels = await opened(running)
        spoken.end()
        await running.at_rest()
        await running.until(
            lambda: any("Once upon a time" in row for row in running.screen)
        )
        assert panels.history.view.count == 3


@pytest.mark.parametrize(
    ("before", "after"), [(DOCKED, TWO), (TWO, DOCKED), (THREE, (80, 24))]
)
async def test_a_resize_while_it_opens_shows_what_the_new_size_has_room_for(
    tmp_path: Path, before: tuple[int, int], after: tuple[int, int]
) -> None:
    async with live(tmp_path, "First", size=before) as running:
        await running.ask("hi")
        press_at_once(running, "f2")
        await running.pilot.resize_terminal(*after)
        await running.until(
            lambda: (
                isinstance(running.app.screen, InspectorScreen) == (after != DOCKED)
                and sum(row.count("state no.") for row in running.screen)
                == {TWO: 2, DOCKED: 1}.get(after, 1)
            )
        )


async def test_another_theme_while_it_opens_is_that_of_all_it_shows(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, "First", size=THREE) as running:
        await running.ask("hi")
        press_at_once(running, "f2")
        running.app.theme = "gruvbox"
        panels = await opened(running)
        await running.pilot.pause()
        shown = [view.roles for view in panels.query(BlockView)]
        assert all(roles == running.app.chat.transcript.roles for roles in shown)
