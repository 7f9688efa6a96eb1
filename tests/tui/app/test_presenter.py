"""When the presenter draws."""

from typing import cast

from foldline.frontend.state import ChatState
from foldline.tui.app.presenter import (
    CHARACTERS_A_SECOND,
    FRAMES,
    LEAST_FRAMES,
    Presenter,
)
from foldline.tui.chat.screen import ChatScreen


class _Chat:
    """Notes in how many seconds a frame is wanted."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.written = 0

    def set_timer(self, seconds: float, draw: object) -> object:
        self.waits.append(seconds)
        return draw


def test_the_first_words_are_drawn_at_once_and_those_after_them_with_the_next_frame() -> (
    None
):
    chat, now = _Chat(), 10.0
    presenter = Presenter(
        cast(ChatScreen, chat), ChatState(), lambda: now, lambda: chat.written
    )
    presenter._request_frame()
    assert chat.waits == [] and presenter.settled
    now += 0.25 / FRAMES
    presenter._request_frame()
    presenter._request_frame()
    assert [round(wait * FRAMES, 6) for wait in chat.waits] == [0.75]
    assert not presenter.settled


def test_long_frames_come_less_often_and_short_ones_as_often_as_before() -> None:
    chat, now = _Chat(), 10.0
    presenter = Presenter(
        cast(ChatScreen, chat), ChatState(), lambda: now, lambda: chat.written
    )
    most = CHARACTERS_A_SECOND
    for written, pause in (
        (0, 1 / FRAMES),
        (most // 10, 0.1),
        (9 * most, 1 / LEAST_FRAMES),
        (9, 1 / FRAMES),
    ):
        chat.written += written
        presenter._draw()
        chat.waits.clear()
        presenter._request_frame()
        assert [round(wait, 6) for wait in chat.waits] == [round(pause, 6)]
        presenter._frame = None
