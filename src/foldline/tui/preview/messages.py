"""What the reader wants of a proposal. The owner of the screen turns these into operations."""

from textual.message import Message


class PreviewMessage(Message):
    """A wish that concerns the proposal of this identity; empty where none is drafted yet."""

    def __init__(self, proposal: str) -> None:
        super().__init__()
        self.proposal = proposal


class CutMoved(PreviewMessage):
    """Cut before this entry instead: a legal place."""

    def __init__(self, proposal: str, first_kept_index: int) -> None:
        super().__init__(proposal)
        self.first_kept_index = first_kept_index


class NotesEdited(PreviewMessage):
    """The reader's own text in place of the draft, without the lists from the history."""

    def __init__(self, proposal: str, text: str) -> None:
        super().__init__(proposal)
        self.text = text


class PinsChosen(PreviewMessage):
    """All entries to pin with the fold, tool groups whole."""

    def __init__(self, proposal: str, pins: frozenset[int]) -> None:
        super().__init__(proposal)
        self.pins = pins


class FocusAdded(PreviewMessage):
    """What the next draft should dwell on."""

    def __init__(self, proposal: str, text: str, focus: str) -> None:
        """`text` is what was added, `focus` all of it, with what stood there before."""
        super().__init__(proposal)
        self.text = text
        self.focus = focus


class RedraftWanted(PreviewMessage):
    """Draft again, for the cut and the focus as they are now."""

    def __init__(self, proposal: str, guidance: str | None, keep_text: bool) -> None:
        """`guidance` is what to do better; with `keep_text` the reader's own text is guidance, too."""
        super().__init__(proposal)
        self.guidance = guidance
        self.keep_text = keep_text


class ApplyWanted(PreviewMessage):
    """Commit exactly this proposal."""


class DiscardWanted(PreviewMessage):
    """Throw the proposal away."""


class CancelWanted(PreviewMessage):
    """Stop drafting."""


class EntryWanted(PreviewMessage):
    """Show an entry of the history."""

    def __init__(self, proposal: str, index: int) -> None:
        super().__init__(proposal)
        self.index = index


class Closed(PreviewMessage):
    """The reader leaves; the proposal stays as it is."""
