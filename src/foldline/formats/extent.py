"""How much of a session is written: all of it, only its view, or every message as if nothing was folded."""

from collections.abc import Sequence
from dataclasses import replace

from foldline.context.projection import Projection, project
from foldline.context.view import is_preamble
from foldline.context.view_state import unmarked
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    Edit,
    Entry,
    FoldDetails,
    Kept,
    ModelChange,
    NoticeRecord,
    Revert,
    Title,
    Written,
)

from .writing import Original


def only_view(original: Original) -> Original:
    """A session that is the view and nothing else. Its summaries stand for entries that are not there."""
    projection = original.projection
    entries: list[Entry] = [*_about(projection)]
    known = projection.compactions()
    details = known[-1].details if known else FoldDetails()
    turned = projection.newest_change.index if projection.newest_change else -1
    shown: list[Kept] = []
    for item in projection.view:
        index, message = len(entries), unmarked(item).message
        if item.written:
            text = Written(message=message.model_copy(update={"nth": 0}))
            entries.append(_fold(index, message, (*shown, text), details))
        else:
            message = message if message.index > turned else _without_usage(message)
            entries.append(message.model_copy(update={"index": index}))
        if not is_preamble(message):
            shown.append(Kept(ref=index))
    return _with(original, entries)


def _fold(
    index: int, summary: BaseMessage, head: Sequence[Kept | Written], details: FoldDetails
) -> Compaction:
    return Compaction(
        index=index,
        at=summary.at,
        summary=summary.text,
        first_kept_index=index,
        head=tuple(head),
        strategy="export",
        details=details,
    )


def _about(projection: Projection) -> list[Entry]:
    """What is known of the session besides its messages."""
    about: list[Entry] = []
    if projection.title:
        about.append(Title(index=0, title=projection.title))
    if projection.model:
        about.append(ModelChange(index=len(about), model=projection.model))
    return about


def unfolded(original: Original) -> Original:
    """Every message as it was said, with no fold, clear, rewind or edit in force, nor summary."""
    entries: list[Entry] = []
    turned = False
    for entry in original.entries:
        match entry:
            case BaseMessage():
                entries.append(_without_usage(entry) if turned else entry)
            case Title() | ModelChange() | NoticeRecord():
                entries.append(entry)
            case Compaction() | Clear() | Edit() | Revert():
                turned = True
            case _:
                pass
    return _with(original, entries)


def _without_usage(message: BaseMessage) -> BaseMessage:
    """An answer's usage counts the view it was given in: in another one it would say something else."""
    return message.model_copy(update={"usage": None}) if isinstance(message, AssistantMessage) else message


def _with(original: Original, entries: Sequence[Entry]) -> Original:
    return replace(original, entries=entries, projection=project(entries))
