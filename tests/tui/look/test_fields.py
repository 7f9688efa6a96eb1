"""Keys that come all at once do what they would have done one by one."""

import pytest
from textual import events
from textual.app import App, ComposeResult

from foldline.tui.look.fields import Editor, OrderedInput


async def _not_taken(_: str) -> bool:
    return False


async def _as_it_is(text: str) -> str:
    return text


class OneField(App[None]):
    """Nothing but this field."""

    def __init__(self, field: Editor | OrderedInput) -> None:
        super().__init__()
        self.field = field

    def get_css_variables(self) -> dict[str, str]:
        return {
            **super().get_css_variables(),
            "role-text": "white",
            "role-muted": "grey",
        }

    def compose(self) -> ComposeResult:
        yield self.field


@pytest.mark.parametrize("kind", ["editor", "field"])
@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("a", "b", "c", "left", "X"), "abXc"),
        (("a", "b", "c", "d", "backspace", "backspace", "X"), "abX"),
        (("a", "space", "b", "ctrl+w", "X"), "a X"),
    ],
)
async def test_what_is_typed_behind_a_key_stays_behind_it(
    kind: str, keys: tuple[str, ...], text: str
) -> None:
    field = Editor(_not_taken, _as_it_is) if kind == "editor" else OrderedInput()
    app = OneField(field)
    async with app.run_test() as pilot:
        field.focus()
        await pilot.pause()
        for key in keys:
            app.post_message(
                events.Key(
                    key, " " if key == "space" else key if len(key) == 1 else None
                )
            )
        await pilot.pause()
        assert (field.text if isinstance(field, Editor) else field.value) == text


async def test_a_paste_into_one_line_keeps_all_of_its_lines() -> None:
    class OneInput(App[None]):
        def compose(self) -> ComposeResult:
            yield OrderedInput()

    app = OneInput()
    async with app.run_test() as pilot:
        field = app.query_one(OrderedInput)
        field.focus()
        await pilot.pause()
        field.post_message(events.Paste("the first line\r\nand the second\n"))
        await pilot.pause()
        assert field.value == "the first line and the second"
