"""`foldline export`: a session of any format written in another one, for other agents and for people."""

import re
import shutil
import sys
from pathlib import Path

from foldline.context.harmless import with_signs
from foldline.formats.writing import Exported, ExportFormat, Original, export_format, only_view, unfolded
from foldline.history import EVENTS, typed_path
from foldline.protocol import FoldlineError, system_words

from .arguments import UsageError
from .copying import check_new, write_new
from .output import entries_of, note, say, say_json
from .sources import Source, read_source
from .streams import write_data, write_out


def run(
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
    to_stdout = out is None and form.kind != "folder" and not as_json
    if to_stdout and form.kind == "binary" and sys.stdout.isatty():
        raise UsageError(f"{form.title}, is no text for a terminal: name a new file with --out.")
    found = read_source(source, format_name)
    path = None if to_stdout else _destination(out, form, found)
    original = _original(found)
    if redact:
        from foldline.formats.redaction import redacted  # its detectors cost time

        original = redacted(original)
    original = only_view(original) if view else unfolded(original) if whole else original
    exported = form.write(original)
    notes = [*([str(original.redactor)] if original.redactor else []), *exported.notes]
    for sentence in notes:
        note(sentence)
    if path is None:
        _say_data(exported.data)
        return 0
    _write(exported, form, path)
    if as_json:
        say_json(
            {
                "format": form.name,
                "path": str(path),
                "files": _files(exported, form, path),
                "entries": len(original.entries),
                "notes": notes,
            }
        )
    else:
        main = path / exported.main if form.kind == "folder" else path
        say(f"{main}: {entries_of(len(original.entries))} of {found.name}, as {form.title}.")
    return 0


def _destination(out: str | None, form: ExportFormat, found: Source) -> Path:
    """Where to: a path that is free, asked for or named after the session."""
    if out is not None:
        path = typed_path(out)
    else:
        name = re.sub(r"[^\w.-]+", "-", found.header.id).strip("-.")[:100] or "session"
        path = Path(f"{name}-{form.name}" if form.kind == "folder" else f"{name}{form.suffix}")
    check_new(path)
    return path


def _original(found: Source) -> Original:
    folder = found.path.parent if found.ours and found.path.name == EVENTS else None
    return Original(found.header, found.entries, found.project(), folder)


def _say_data(data: bytes) -> None:
    """The export itself, byte for byte; to a terminal without what would act on it."""
    if sys.stdout.isatty():
        write_out(with_signs(data.decode("utf-8", "replace")))
    else:
        write_data(data)


def _write(exported: Exported, form: ExportFormat, path: Path) -> None:
    """The file, or the folder with all of its files, or nothing."""
    if form.kind != "folder":
        write_new(path, exported.data)
        return
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise FoldlineError(f"{path} cannot be made: {system_words(error)}.") from None
    try:
        for name, data in exported.files.items():
            write_new(path / name, data)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _files(exported: Exported, form: ExportFormat, path: Path) -> list[str]:
    return [str(path / name) for name in exported.files] if form.kind == "folder" else [str(path)]
