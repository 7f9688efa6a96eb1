"""Formats that are known and cannot be read: whose they are, how they are told, and what to do instead."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from foldline.protocol import Entry, Unknown

from .base import Counted, Json, JsonObject, as_list, as_object, as_text
from .known import Head

_Test = Callable[[JsonObject], bool]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A format without a reader."""

    name: str
    """What the file is, for a sentence."""
    instead: str = ""
    """The command that exports such a session, or that there is none; the end of a sentence."""
    line: _Test = lambda record: False
    """Tells one of its lines."""
    document: _Test = lambda document: False
    """Tells it as one JSON object."""
    message: _Test = lambda message: False
    """Tells the first object of a list, or of the list `messages`."""
    tables: tuple[frozenset[str], ...] = ()
    """Tables that its databases have, all of one set."""


def _is_copilot(record: JsonObject) -> bool:
    kinds = ("session.", "user.message", "assistant.", "tool.execution", "hook.", "system.message")
    return "parentId" in record and "data" in record and as_text(record.get("type")).startswith(kinds)


def _is_cursor(record: JsonObject) -> bool:
    spoken = record.get("role") in ("user", "assistant") and "type" not in record and "uuid" not in record
    return spoken and isinstance(as_object(record.get("message")).get("content"), list)


def _is_droid(record: JsonObject) -> bool:
    match record.get("type"):
        case "session_start":
            return "id" in record and not {"title", "owner", "cwd"}.isdisjoint(record)
        case "message":
            return {"role", "text"} <= record.keys()
        case "tool_call":
            return {"toolName", "parameters"} <= record.keys()
        case "completion":
            return "finalText" in record
        case _:
            return False


def _is_grok(record: JsonObject) -> bool:
    spoken = record.get("type") in ("system", "user", "assistant", "tool_result") and "content" in record
    return spoken and {"id", "uuid", "role", "message", "timestamp"}.isdisjoint(record)


def _is_openhands(record: JsonObject) -> bool:
    return {"instance_id", "history"} <= record.keys() or {"source", "kind", "timestamp"} <= record.keys()


REFUSALS = (
    Refusal("a mistral-vibe session", line=lambda record: {"message_id", "role"} <= record.keys()),
    Refusal("OpenHands output", line=_is_openhands),
    Refusal(
        "a session of Copilot CLI",
        "`/share file FILE` in it, or `copilot --share=FILE`, exports it as Markdown, for people",
        line=_is_copilot,
    ),
    Refusal(
        "a session of Cursor",
        "its files leave out most results of tools, and `cursor-agent` has no command that exports more; "
        "`Export Chat` in the editor writes Markdown, for people",
        line=_is_cursor,
        tables=(frozenset({"cursorDiskKV"}), frozenset({"ItemTable"}), frozenset({"blobs", "meta"})),
    ),
    Refusal("a session of Droid", "Droid has no command that exports one", line=_is_droid),
    Refusal(
        "a session of Antigravity",
        "Antigravity has no command that exports one",
        line=lambda record: {"step_index", "source", "type"} <= record.keys(),
        tables=(frozenset({"steps", "trajectory_meta"}),),
    ),
    Refusal(
        "a session of Grok",
        "`grok export ID FILE` exports it as Markdown, for people",
        line=_is_grok,
        document=lambda document: {"chat_format_version", "info"} <= document.keys(),
    ),
    Refusal(
        "a session of Crush",
        "`crush session show ID --json` exports one, for other programs",
        document=lambda document: {"id", "prompt_tokens"} <= as_object(document.get("meta")).keys(),
        tables=(frozenset({"sessions", "messages", "files"}),),
    ),
    Refusal(
        "the database of Goose",
        "`goose session export --format json` writes a session that Foldline reads",
        tables=(frozenset({"sessions", "messages", "schema_version"}),),
    ),
    Refusal("a SWE-agent trajectory", document=lambda document: "trajectory" in document),
    Refusal("tau-bench output", message=lambda message: {"task_id", "traj"} <= message.keys()),
    Refusal(
        "an OpenHands conversation",
        document=lambda document: {"source", "timestamp"} <= document.keys(),
        message=lambda message: "source" in message,
    ),
)


def refusal_of(head: Head) -> Refusal | None:
    """The format without a reader that a file with this head has."""
    listed = head.items or [as_object(message) for message in as_list(head.document.get("messages"))]
    by_line = (refusal for record in head.lines for refusal in REFUSALS if refusal.line(record))
    whole = (
        refusal
        for refusal in REFUSALS
        if (head.document and refusal.document(head.document)) or (listed and refusal.message(listed[0]))
    )
    return next(by_line, next(whole, None))


def refused_database(tables: set[str]) -> Refusal | None:
    """The format without a reader that a database with these tables has."""
    return next((one for one in REFUSALS if any(names <= tables for names in one.tables)), None)


_NAMED_KINDS = 8
"""How many kinds a note names one by one."""
_LONGEST_KIND = 40


@dataclass(frozen=True, slots=True)
class Noted:
    """Entries in index order, what a reader should know about them, and the folder where known."""

    entries: Sequence[Entry]
    notes: tuple[str, ...] = ()
    cwd: str = ""
    counted: tuple[Counted, ...] = ()


def kind_of(piece: Json) -> str:
    """What a piece of a message, or a record, calls itself."""
    return as_text(as_object(piece).get("type")).strip()[:_LONGEST_KIND] or "without a type"


def left_out_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """A sentence on pieces of messages that are left out, with their kinds; none where there are none."""
    named = by_kind(kinds)
    return (f"Left out, pieces of messages of a kind that cannot be shown here: {named}.",) if named else ()


def unknown_records_note(entries: Iterable[Entry], known: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence on records of unknown kinds: kept, but in no view.

    `known` is how the kinds begin that say nothing to a model.
    """
    return unknown_note(kind for kind in map(_record_kind, entries) if kind and not kind.startswith(known))


def unknown_note(kinds: Iterable[str]) -> tuple[str, ...]:
    named = by_kind(kinds)
    return (f"Not in the view, records of kinds unknown here: {named}.",) if named else ()


def _record_kind(entry: Entry) -> str:
    """What the record of an unknown entry is called, without the name of the agent; empty for others."""
    return entry.type.partition(".")[2][:_LONGEST_KIND] if isinstance(entry, Unknown) else ""


def by_kind(kinds: Iterable[str]) -> str:
    """`audio (2), document (1)`, the most frequent first."""
    counts = Counter(kinds).most_common()
    named = [f"{kind} ({count})" for kind, count in counts[:_NAMED_KINDS]]
    rest = counts[_NAMED_KINDS:]
    if rest:
        named.append(f"{len(rest)} more kinds ({sum(count for _, count in rest)})")
    return ", ".join(named)
