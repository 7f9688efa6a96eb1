"""Operations: what an interface asks the executor to do."""

from typing import Annotated, Literal

from pydantic import Field

from .base import Record
from .entries import EditAction, Reason
from .messages import Part


class RunAgent(Record):
    """Append the prompt and run the turn it begins."""

    type: Literal["run_agent"] = "run_agent"
    parts: tuple[Part, ...]


class CompactSession(Record):
    type: Literal["compact_session"] = "compact_session"
    reason: Reason
    focus: str | None = None
    will_retry: bool = False


class UndoCompaction(Record):
    """Take back a compaction; none named, the newest one in force."""

    type: Literal["undo_compaction"] = "undo_compaction"
    target: int | None = None


class EditView(Record):
    type: Literal["edit_view"] = "edit_view"
    target: int
    action: EditAction


class ClearView(Record):
    type: Literal["clear_view"] = "clear_view"


class SwitchModel(Record):
    type: Literal["switch_model"] = "switch_model"
    model: str


class Interrupt(Record):
    """Cancel the running task, whatever it is."""

    type: Literal["interrupt"] = "interrupt"


class Approve(Record):
    """The answer to an `ApprovalRequested`."""

    type: Literal["approve"] = "approve"
    call_id: str
    answer: Literal["once", "always", "deny"]


Operation = Annotated[
    RunAgent | CompactSession | UndoCompaction | EditView | ClearView | SwitchModel | Interrupt | Approve,
    Field(discriminator="type"),
]
