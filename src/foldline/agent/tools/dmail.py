"""The tool `send_dmail`: the model goes back to a checkpoint of its own and leaves itself a message there.

The tool only takes the message; the turn delivers it once the other calls of the step have their results.
"""

from dataclasses import dataclass

from pydantic import Field

from foldline.history import Session
from foldline.protocol import NEW

from .base import Arguments, BaseTool, ToolContext, ToolOutcome
from .failure import ToolFailure
from .text import one_line


@dataclass(frozen=True, slots=True)
class Dmail:
    message: str
    checkpoint: int


class Mailbox:
    """Holds the D-Mail of a step until the turn delivers it."""

    def __init__(self) -> None:
        self.waiting: Dmail | None = None

    def take(self) -> Dmail | None:
        taken, self.waiting = self.waiting, None
        return taken


class DmailArguments(Arguments):
    message: str = Field(
        min_length=1,
        description="All you need to know back there: what you found out and changed, what to do next.",
    )
    checkpoint_id: int = Field(description="The number of a CHECKPOINT you were told of.")


class SendDmail(BaseTool[DmailArguments]):
    name = "send_dmail"
    description = (
        "Send a message to yourself at an earlier CHECKPOINT: everything after it leaves your memory, and "
        "you go on from there with the message, and with what the user asked for. Files stay as they are "
        "now. Use it when the steps since then were long and only their outcome matters: a large file read "
        "for one line, a search that found one place, an approach that failed. The person sees all of it."
    )
    level = "read"

    def __init__(self, session: Session, mailbox: Mailbox) -> None:
        super().__init__(DmailArguments)
        self._session = session
        self._mailbox = mailbox

    def headline(self, arguments: DmailArguments) -> str:
        return f"to checkpoint {arguments.checkpoint_id}: {one_line(arguments.message)}"

    async def act(self, arguments: DmailArguments, context: ToolContext) -> ToolOutcome:
        if not arguments.message.strip():
            raise ToolFailure("The message is empty: back there it is all you will have.")
        if self._mailbox.waiting is not None:
            raise ToolFailure("Only one D-Mail a step: the first one goes out.", "not sent ✗")
        known = reachable(self._session)
        if arguments.checkpoint_id not in known:
            there = ", ".join(map(str, known[-12:])) or "none yet"
            raise ToolFailure(
                f"Checkpoint {arguments.checkpoint_id} cannot be reached. There are: {there}.", "not sent ✗"
            )
        self._mailbox.waiting = Dmail(arguments.message, arguments.checkpoint_id)
        return ToolOutcome("Sent: it is delivered when this step ends.", brief="sent")


def reachable(session: Session) -> list[int]:
    """The checkpoints the model was told of since the newest fold and that its view still leads to."""
    told = {item.message.checkpoint for item in session.projection.view}
    folds = session.projection.compactions()
    newest_fold = folds[-1].index if folds else NEW
    places = (place for place in session.projection.checkpoints if place.index > newest_fold)
    return [place.id for place in places if place.id in told]
