"""Pictures and pastes on their way into the editor, where placeholders stand for them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from foldline.tui.prompting.attachments import Attachments, names_pictures, pasted, with_pictures
from foldline.tui.prompting.completer import Start
from foldline.tui.widgets.editor import Editor

_EDITABLE = 20_000
"""Characters of a text that comes back into the editor as it is; what is longer comes as a paste."""


class Attaching:
    """Attaches to the text in the editor. `refuse` says in a sentence why something was not taken; `start`
    runs something in the background."""

    def __init__(
        self,
        root: Path | None,
        refuse: Callable[[str], None],
        start: Start,
    ) -> None:
        self.attachments = Attachments()
        self.editor: Editor
        self._root = root
        self._refuse = refuse
        self._start = start
        self._warned_of: str | None = None
        """A text whose pictures the model is known not to take, as was said."""

    def put(self, text: str) -> None:
        """Make this the text of the editor. One that is too long to be edited there becomes a paste."""
        self.editor.put(text if len(text) <= _EDITABLE else self.attachments.paste(text))

    async def take_paste(self, text: str) -> str:
        """What goes in for a paste; nothing where it is refused."""
        from foldline.protocol import FoldlineError

        try:
            return await pasted(text, self._root, self.attachments)
        except FoldlineError as failure:
            self._refuse(str(failure))
            return ""

    def open_paste(self) -> None:
        """Put the text in place of the placeholder of a paste: the one at the cursor, else the first of its
        line."""
        line, column = self.editor.cursor_location
        found = self.attachments.paste_at(self.editor.document.get_line(line), column)
        if found is None:
            self._refuse("There is no [pasted …] in this line")
        elif len(found[2]) > _EDITABLE:
            self._refuse(
                f"{len(found[2]):,} characters are too many to be edited here; they are sent in full"
            )
        else:
            edit = self.editor.replace(found[2], (line, found[0]), (line, found[1]))
            self.editor.move_cursor(edit.end_location)

    def paste_picture(self) -> None:
        """Attach the picture in the system's clipboard."""
        self._start(self._paste_picture)

    async def _paste_picture(self) -> None:
        from foldline.protocol import FoldlineError
        from foldline.tui.prompting.clipboard import clipboard_picture

        try:
            part = await asyncio.to_thread(clipboard_picture)
        except FoldlineError as failure:
            self._refuse(str(failure))
        else:
            self.editor.insert_here(self.attachments.picture("clipboard", part))

    def attach_soon(self) -> None:
        """Attach the pictures that the text names now, where it names any."""
        if names_pictures(self.editor.text):
            self._start(self.attach_named)

    async def attach_named(self) -> bool:
        """Put placeholders for the picture files that the text names; False where one cannot be taken, which
        is said."""
        text = self.editor.text
        if self._root is None or not names_pictures(text):
            return True
        from foldline.protocol import FoldlineError

        try:
            attached = await with_pictures(text, self._root, self.attachments)
        except FoldlineError as failure:
            self._refuse(str(failure))
            return False
        if attached != text and self.editor.text == text:
            self.editor.put(attached)
        return True

    def delete_placeholder(self, back: bool) -> bool:
        """Delete the placeholder before the cursor, or behind it, as one sign; False where there is none."""
        if self.editor.selected_text:
            return False
        line, column = self.editor.cursor_location
        text = self.editor.document.get_line(line)
        other = (
            self.attachments.ending_at(text, column) if back else self.attachments.beginning_at(text, column)
        )
        if other is None:
            return False
        self.editor.replace("", (line, min(other, column)), (line, max(other, column)))
        return True

    def in_vain(self, text: str, model: str) -> bool:
        """Whether a prompt holds pictures that its model is known not to take. Said once a text."""
        if self._warned_of == text or not self.attachments.pictures_in(text):
            return False
        from foldline.llm.models import takes_pictures

        if takes_pictures(model) is not False:
            return False
        self._warned_of = text
        self._refuse(f"{model} takes no pictures: /model switches, Enter again sends them all the same")
        return True
