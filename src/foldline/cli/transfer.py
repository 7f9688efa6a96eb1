"""`foldline import` and `foldline export`: sessions of other agents brought in, ours written for others."""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from .arguments import Handler, UsageError, add_json, add_source

# --- foldline import ---------------------------------------------------------------------------------


def import_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    add_json(parser)
    return import_session


def import_session(source: str, as_json: bool, format_name: str | None) -> int:
    """Copies another agent's session, or ours as one file, into one that can be continued."""
    from foldline.agent.api_keys import mask_of
    from foldline.data import real_path
    from foldline.history import short_id
    from foldline.history.paths import holds_home
    from foldline.termination import run_async

    from .output import entries_of, note, say, say_json
    from .sources import read_source
    from .transfer_files import bring_along, folder_held

    found = read_source(source, format_name)
    recorded = found.header.cwd
    folder = folder_held(recorded)
    session = found.session()
    session.mask = mask_of(os.environ)
    copy = run_async(session.copy(cwd=folder, named=real_path(folder) != real_path(Path.cwd())))
    try:
        bring_along(found, copy)
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


# --- foldline export ---------------------------------------------------------------------------------


EXPORTS: Final = ("openai", "kimi-cli", "pi", "markdown", "html", "foldline")
"""The names of `formats.export.WRITTEN`, in the order of the help."""


def export_command(parser: ArgumentParser) -> Handler:
    parser.description = (
        "Write a session for another agent or for people. What is written shows the next model what this "
        "session's model sees now, and as much of the history before it as the format can hold."
    )
    add_source(parser)
    parser.add_argument("--to", required=True, choices=EXPORTS, metavar="FORMAT", help=", ".join(EXPORTS))
    parser.add_argument(
        "--out",
        metavar="PATH",
        help="the new file, or the new folder for kimi-cli; without it, a single file goes to stdout",
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--view", action="store_true", help="only what the model sees now, and no history")
    extent.add_argument(
        "--whole", action="store_true", help="every message as it was said, as if nothing was ever compacted"
    )
    parser.add_argument("--redact", action="store_true", help="replace what looks like a credential")
    add_json(parser, "write to a file, and say what was written as JSON")
    return export


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
    from foldline.formats.export import destination, export_format, only_view, uncompacted, write_exported

    from .output import entries_of, note, say, say_json
    from .sources import read_source
    from .transfer_files import original_of, say_data

    form = export_format(to)
    out = None if out == "-" else out
    to_stdout = out is None and form.kind != "folder" and not as_json
    if to_stdout and form.kind == "binary" and sys.stdout.isatty():
        raise UsageError(f"{form.title}, is no text for a terminal: name a new file with --out.")
    found = read_source(source, format_name)
    path = None if to_stdout else destination(out, form, found.header.id)
    original = original_of(found)
    if redact:
        from foldline.formats.redaction import redacted  # its detectors cost time

        original = redacted(original)
    original = only_view(original) if view else uncompacted(original) if whole else original
    exported = form.write(original)
    notes = [*([str(original.redactor)] if original.redactor else []), *exported.notes]
    for sentence in notes:
        note(sentence)
    if path is None:
        say_data(exported.data)
        return 0
    write_exported(exported, form, path)
    is_folder_form = form.kind == "folder"
    if as_json:
        files = [str(path / name) for name in exported.files] if is_folder_form else [str(path)]
        say_json(
            {"format": form.name, "path": str(path), "files": files, "entries": len(original.entries),
             "notes": notes}
        )  # fmt: skip
    else:
        main = path / exported.main if is_folder_form else path
        say(f"{main}: {entries_of(len(original.entries))} of {found.name}, as {form.title}.")
    return 0
