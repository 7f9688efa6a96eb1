"""The events of one agent, and the notices to the user among them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal

from foldline.history import Session
from foldline.protocol import FoldlineError, NoticeRecord, RequestRecord
from foldline.protocol.events import Event, Notice

MORE_IGNORED = " {count} more were ignored: `foldline doctor` lists them."
_NAMED = 2
"""Maximum number of ignored files named in one warning. The others are only counted."""

Listener = Callable[[Event], None]


class EventStream:
    """Passes each event to all listeners, in order."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self.reported_faults: set[str] = set()
        """Messages about ignored files that the user has already seen."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with every event from now on.

        Returns:
            A function that ends the subscription.
        """
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def emit(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def notify(
        self,
        text: str,
        level: Literal["info", "warning", "error"] = "info",
        **values: object,
    ) -> None:
        """Show a message to the user.

        Args:
            values: replace the placeholders in the text.
        """
        sentence = text.format(**values) if values else text
        self.emit(Notice(text=sentence, level=level))

    def warn(self, text: str, **values: object) -> None:
        """Show a warning to the user. The arguments are the same as for `notify`."""
        self.notify(text, "warning", **values)

    def warn_once(self, faults: Iterable[str]) -> None:
        """Warn about ignored files that have not been reported yet.

        If there are many, only the first ones are named.

        Args:
            faults: one message for each file.
        """
        new = [fault for fault in faults if fault not in self.reported_faults]
        self.reported_faults.update(new)
        if not new:
            return
        text = " ".join(new[:_NAMED])
        if len(new) > _NAMED:
            text += MORE_IGNORED.format(count=len(new) - _NAMED)
        self.warn(text)


async def record_failure(session: Session, failure: FoldlineError) -> None:
    """Append an error notice, unless a request's record already contains the error."""
    if not session.entries:
        return
    newest = session.entries[-1]
    if isinstance(newest, RequestRecord) and newest.error == str(failure):
        return
    with suppress(
        FoldlineError
    ):  # If writing to disk is what failed, the user sees the failure anyway.
        notice = NoticeRecord(level="error", text=str(failure))
        await session.append(notice, durable=True)
