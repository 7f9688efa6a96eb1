"""What an aside says in one line, and in full: requests, notices, approvals, edits, titles. Pure."""

from foldline.context import numbers
from foldline.context.permissions import approval_words
from foldline.protocol import (
    Approval,
    Checkpoint,
    Edit,
    Entry,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Title,
)
from foldline.tui.inspector.text import first_words

_KINDS: dict[type[Entry], str] = {
    RequestRecord: "request",
    NoticeRecord: "notice",
    Approval: "approve",
    Edit: "edit",
    Checkpoint: "check",
    Title: "title",
    ModelChange: "model",
}


def aside_kind(entry: Entry) -> str:
    """Its word in the kind column."""
    return _KINDS.get(type(entry), "other")


def aside_words(entry: Entry) -> tuple[str, str]:
    """What it says, in a line, and the style of that."""
    match entry:
        case RequestRecord(error=str() as error):
            return f"failed: {first_words(error)}", "alert"
        case NoticeRecord(text=text, level=level):
            return first_words(text), "alert" if level == "error" else "muted"
        case _:
            return first_words(aside_text(entry)), "muted"


def aside_text(entry: Entry) -> str:
    """All that it says."""
    match entry:
        case RequestRecord():
            return _request(entry)
        case NoticeRecord(text=text):
            return text
        case Approval():
            return approval_words(entry)
        case Edit():
            return f"{entry.action} of {entry.target}"
        case Checkpoint():
            files = f": {', '.join(image.path for image in entry.files)}" if entry.files else ""
            return f"checkpoint {entry.id}{files}"
        case Title():
            return entry.title
        case ModelChange():
            return entry.model if entry.provider is None else f"{entry.model} of {entry.provider}"
        case _:
            return f"{entry.type}: not known to this version"


def _request(entry: RequestRecord) -> str:
    parts = [entry.model]
    if entry.usage is not None:
        cached = f", {numbers.tokens(entry.usage.cached)} from cache" if entry.usage.cached else ""
        parts.append(f"in {numbers.tokens(entry.usage.input)}{cached}")
        parts.append(f"out {numbers.tokens(entry.usage.output)}")
    elif entry.estimated:
        parts.append(f"in {numbers.tokens(entry.estimated, estimated=True)}")
    if entry.error is not None:
        parts.append(f"failed: {entry.error}")
    if entry.said:
        parts.append(f"given up with it:\n{entry.said}")
    return " · ".join(part for part in parts if part)
