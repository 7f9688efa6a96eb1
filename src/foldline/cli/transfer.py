"""`foldline import`, `export` and `handoff`: sessions of other agents brought in, ours written for others."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from foldline.agent.api_keys import mask_of
from foldline.context.harmless import with_signs
from foldline.data import real_path
from foldline.files import is_file, is_folder
from foldline.formats.bundle import BUNDLED, unpack
from foldline.formats.export import Original, destination, export_format, only_view, uncompacted
from foldline.formats.handoff import hand_over
from foldline.formats.subagents import keep_subagents, originals_of
from foldline.history import short_id
from foldline.history.children import tree_of
from foldline.history.contents import share_files
from foldline.history.paths import holds_home, with_tilde, write_new

from .arguments import UsageError
from .output import entries_of, note, say, say_json
from .sources import Source, read_source
from .streams import write_data, write_out

# --- foldline import ---------------------------------------------------------------------------------


def import_session(source: str, as_json: bool, format_name: str | None) -> int:
    """Copies another agent's session, or ours as one file, into one that can be continued."""
    from foldline.termination import run_async  # brings asyncio along

    found = read_source(source, format_name)
    recorded = found.header.cwd
    folder = folder_held(recorded)
    session = found.session()
    session.mask = mask_of(os.environ)
    copy = run_async(session.copy(cwd=folder, named=real_path(folder) != real_path(Path.cwd())))
    try:
        assert copy.path is not None
        keep_subagents(found.below(), copy.path, str(folder), session.mask)
        bring_along(found, copy.path)
        copy.save_meta()
    finally:
        copy.close()
    if as_json:
        say_json(
            {"id": copy.id, "format": found.format, "entries": len(copy.entries), "cwd": str(folder),
             "path": str(copy.path)}
        )  # fmt: skip
        return 0
    say(f"{copy.id}: {entries_of(len(copy.entries))} of {found.name} ({found.format}).")
    if str(folder) != recorded:
        was = f"{recorded} is not here" if recorded else "It names no folder"
        if recorded and holds_home(Path(recorded)):
            was = f"It names {recorded}, in which nobody should work without being asked"
        note(f"{was}: the session belongs to {folder} now.")
    note(f"`foldline -r {short_id(copy.id)}` in {folder} continues it. {source} stays as it is.")
    return 0


def bring_along(found: Source, events: Path) -> None:
    """Copies the whole outputs and kept contents that lie beside the session, or are packed with it; those of
    its subagents, too."""
    if found.folder is not None:
        for each in tree_of(events):
            share_files(found.folder / each.parent.relative_to(events.parent), each.parent)
    elif found.format == BUNDLED and is_file(found.path):
        damaged = unpack(found.path, events.parent)
        if damaged:
            note(f"{found.name}: damaged, and left out: {', '.join(damaged)}.")


def folder_held(recorded: str) -> Path:
    """Where the session was held, if that is a folder here that is worked in; else the current one."""
    held = Path(recorded)
    is_here = bool(recorded) and held.is_absolute() and is_folder(held)
    return held if is_here and not holds_home(held) else Path.cwd()


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
        raise UsageError(f"{form.title}, is no text for a terminal: name a new file with --out.")
    found = read_source(source, format_name)
    path = None if to_stdout else destination(out, form, found.header.id)
    original = original_of(found, redact=redact)
    original = only_view(original) if view else uncompacted(original) if whole else original
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
        say(f"{path}: {entries_of(len(original.entries))} of {found.name}, as {form.title}.")
    return 0


def original_of(found: Source, *, redact: bool) -> Original:
    children = originals_of(found.below(), found.path if found.folder else None)
    original = Original(found.header, found.entries, found.project(), found.folder, children=children)
    if redact:
        from foldline.formats.redaction import redacted  # its detectors cost time

        original = redacted(original)
    return original


def say_notes(original: Original, notes: Sequence[str]) -> list[str]:
    """Says, and returns, what was masked and what else is to be known of an export."""
    said = [*([str(original.redactor)] if original.redactor else []), *notes]
    for sentence in said:
        note(sentence)
    return said


def say_data(data: bytes) -> None:
    """The export itself, byte for byte; to a terminal without what would act on it."""
    if sys.stdout.isatty():
        write_out(with_signs(data.decode("utf-8", "replace")))
    else:
        write_data(data)


# --- foldline handoff --------------------------------------------------------------------------------


def handoff(source: str, to: str, redact: bool, as_json: bool, format_name: str | None) -> int:
    """Writes a session where another agent looks for its own, and prints the command that resumes it."""
    found = read_source(source, format_name)
    original, folder = original_of(found, redact=redact), folder_held(found.header.cwd)
    handed = hand_over(original, to, real_path(folder))
    notes = say_notes(original, handed.notes)
    if as_json:
        say_json({"agent": to, "path": str(handed.path), "command": handed.command, "notes": notes})
    else:
        note(f"{with_tilde(str(handed.path))} is written; {source} stays as it is. This goes on with it:")
        say(handed.command)
    return 0
