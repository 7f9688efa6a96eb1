"""When the presenter draws."""

from typing import cast

from foldline.tui.chat import ChatScreen
from foldline.tui.presenter import FRAMES, Presenter
from foldline.tui.state import ChatState


class _Chat:
    """Notes in how many seconds a frame is wanted."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def set_timer(self, seconds: float, draw: object) -> object:
        self.waits.append(seconds)
        return draw


def test_the_first_words_are_drawn_at_once_and_those_after_them_with_the_next_frame() -> None:
    chat, now = _Chat(), 10.0
    presenter = Presenter(cast(ChatScreen, chat), ChatState(), lambda: now)
    presenter._want_frame()
    assert chat.waits == [] and presenter.settled
    now += 0.25 / FRAMES
    presenter._want_frame()
    presenter._want_frame()
    assert [round(wait * FRAMES, 6) for wait in chat.waits] == [0.75]
    assert not presenter.settled
