"""`foldline import`, `export` and `handoff`: convert sessions to and from other formats."""

import sys
from collections.abc import Sequence
from pathlib import Path

from foldline.data import real_path
from foldline.files import is_file
from foldline.formats.bundle import BUNDLED, unpack
from foldline.formats.export import (
    Original,
    destination,
    export_format,
    only_view,
    uncompacted,
)
from foldline.formats.handoff import hand_over
from foldline.formats.subagents import originals_of
from foldline.frontend.session_files import event_file, import_copy, working_folder
from foldline.history import short_id
from foldline.history.children import tree_of
from foldline.history.contents import share_files
from foldline.history.paths import holds_home, with_tilde, write_new
from foldline.text.harmless import with_signs

from .arguments import UsageError
from .output import COPIED, entries_of, note, say, say_json
from .sources import SourceSession, read_source
from .streams import write_data, write_out

# --- foldline import ---------------------------------------------------------------------------------


def import_session(source: str, as_json: bool, format_name: str | None) -> int:
    """Import a session.

    The source is an exported session or another agent's session, which is copied to a new session.
    """
    from foldline.termination import run_async  # slow, as it imports asyncio

    original = read_source(source, format_name)
    recorded = original.header.cwd
    copy = run_async(import_copy(original.session(), original.children(), Path.cwd()))
    copy_kept_files(original, event_file(copy))
    folder = copy.cwd
    if as_json:
        say_json(
            {"id": copy.id, "format": original.format, "entries": len(copy.entries), "cwd": folder,
             "path": str(copy.path)}
        )  # fmt: skip
        return 0
    say(
        f"{copy.id}: {entries_of(len(copy.entries))} of {original.name} ({original.format})."
    )
    if folder != recorded:
        reason = NO_FOLDER
        if recorded:
            reason = CONTAINS_HOME if holds_home(Path(recorded)) else FOLDER_MISSING
        note(f"{reason.format(recorded=recorded)}. {NEW_FOLDER.format(folder=folder)}")
    ref = short_id(copy.id)
    note(COPIED.format(ref=ref, folder=folder, original=source))
    return 0


NO_FOLDER = "The session does not name a folder"
CONTAINS_HOME = "Its folder, {recorded}, contains your home folder"
FOLDER_MISSING = "Its folder, {recorded}, does not exist here"
NEW_FOLDER = "The session now belongs to {folder}."
NOT_FOR_TERMINALS = (
    "A {title} cannot be printed to a terminal. Write it to a new file with --out."
)
HANDED_OVER = "Wrote {path}. {source} is unchanged. To continue the session, run:"


def copy_kept_files(original: SourceSession, events: Path) -> None:
    """Copy the stored outputs and file contents of a session and its subagents."""
    if original.folder is not None:
        for path in tree_of(events):
            share_files(
                original.folder / path.parent.relative_to(events.parent), path.parent
            )
    elif original.format == BUNDLED and is_file(original.path):
        damaged = unpack(original.path, events.parent)
        if damaged:
            note(f"{original.name}: damaged files not imported: {', '.join(damaged)}.")


# --- foldline export ---------------------------------------------------------------------------------


def export(
    source: str,
    to: str,
    out: str | None,
    view: bool,
    whole: bool,
    redact: bool,
    as_json: bool,
    format_name: str | None,
) -> int:
    form = export_format(to)
    out = None if out == "-" else out
    to_stdout = out is None and not as_json
    if to_stdout and not form.is_text and sys.stdout.isatty():
        raise UsageError(NOT_FOR_TERMINALS.format(title=form.title))
    session = read_source(source, format_name)
    path = None if to_stdout else destination(out, form, session.header.id)
    original = original_of(session, redact=redact)
    if view:
        original = only_view(original)
    elif whole:
        original = uncompacted(original)
    exported = form.write(original)
    notes = say_notes(original, exported.notes)
    if path is None:
        say_data(exported.data)
        return 0
    write_new(path, exported.data)
    if as_json:
        say_json(
            {"format": form.name, "path": str(path), "files": [str(path)],
             "entries": len(original.entries), "notes": notes}
        )  # fmt: skip
    else:
        say(
            f"{path}: {entries_of(len(original.entries))} of {session.name} ({form.title})."
        )
    return 0


def original_of(session: SourceSession, *, redact: bool) -> Original:
    children = originals_of(
        session.children(), session.path if session.folder else None
    )
    projection = session.project()
    original = Original(
        session.header, session.entries, projection, session.folder, children=children
    )
    if redact:
        from foldline.formats.redaction import redacted  # slow to import

        original = redacted(original)
    return original


def say_notes(original: Original, notes: Sequence[str]) -> list[str]:
    """Print and return the notes on an export, redactions first."""
    sentences = list(notes)
    if original.redactor:
        sentences.insert(0, str(original.redactor))
    for sentence in sentences:
        note(sentence)
    return sentences


def say_data(data: bytes) -> None:
    """Write the exported bytes to stdout.

    If stdout is a terminal, control characters are replaced.
    """
    if sys.stdout.isatty():
        write_out(with_signs(data.decode("utf-8", "replace")))
    else:
        write_data(data)


# --- foldline handoff --------------------------------------------------------------------------------


def handoff(
    source: str, to: str, redact: bool, as_json: bool, format_name: str | None
) -> int:
    """Write a session in another agent's format, and print the command that resumes it there."""
    session = read_source(source, format_name)
    original = original_of(session, redact=redact)
    result = hand_over(
        original, to, real_path(working_folder(session.header.cwd, Path.cwd()))
    )
    notes = say_notes(original, result.notes)
    if as_json:
        say_json(
            {
                "agent": to,
                "path": str(result.path),
                "command": result.command,
                "notes": notes,
            }
        )
    else:
        path = with_tilde(str(result.path))
        note(HANDED_OVER.format(path=path, source=source))
        say(result.command)
    return 0
