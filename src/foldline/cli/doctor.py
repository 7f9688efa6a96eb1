"""`foldline doctor`: what is wrong with a session or this installation, and, asked to, setting it right."""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from foldline.context.harmless import with_signs
from foldline.data import real_path
from foldline.files import is_file, is_folder, read_regular
from foldline.formats import FORMATS, file_of, read_foreign, session_file
from foldline.formats.detection import Unreadable, detect
from foldline.history import EVENTS, data_home, events_file, short_id, typed_path, utc_now
from foldline.history.children import tree_of
from foldline.history.doctor import (
    Finding,
    InspectedSession,
    Mark,
    examine,
    history_findings,
    inspect_session,
    is_newer,
)
from foldline.history.meta import cells
from foldline.history.repair import repair, repair_plan
from foldline.protocol import FoldlineError, Unknown

from .output import Json, Style, note, paint, say, say_heading, say_json
from .sources import path_of
from .streams import write_out

_SIGNS: dict[Mark, str] = {"ok": "✓ ok", "warn": "! warn", "bad": "✗ bad"}
_STYLES: dict[Mark, Style | None] = {"ok": "muted", "warn": "altered", "bad": "alert"}
_LEAST_WIDTH = 40


def doctor(sources: Sequence[str], repairs: bool, network: bool, as_json: bool) -> int:
    if sources:
        reports = [report for source in sources for report in tree_reports(source, repairs)]
    else:
        from .doctor_checks import examine_here, tidy  # slow, and of no use to a session

        done = tidy(data_home()) if repairs else ()
        reports = [Report("this installation", str(data_home()), "", examine_here(network), done)]
    if as_json:
        say_json(
            {"ok": all(report.ok for report in reports), "reports": [report_json(each) for each in reports]}
        )
    else:
        for number, report in enumerate(reports):
            if number:
                say()
            say_report(report)
    return 0 if all(report.ok for report in reports) else 1


@dataclass(frozen=True, slots=True)
class Report:
    """What was found about one session, or about the installation."""

    name: str
    path: str
    format: str
    """`foldline`, the name of another agent's format, or empty where it is none."""
    findings: Sequence[Finding]
    done: tuple[str, ...] = ()
    """What was repaired."""
    possible: tuple[str, ...] = ()
    """What a repair would do."""

    @property
    def ok(self) -> bool:
        return all(finding.mark != "bad" for finding in self.findings)


# --- sessions ----------------------------------------------------------------------------------------


def tree_reports(ref: str, repairs: bool) -> Iterator[Report]:
    """Of a session, and of those of its subagents."""
    first = session_report(ref, repairs)
    yield first
    if first.format == "foldline":
        root, *below = tree_of(Path(first.path))
        for events in below:
            names = events.parent.relative_to(root.parent).parts[1::2]
            yield replace(session_report(str(events), repairs), name="/".join((first.name, *names)))


def session_report(ref: str, repairs: bool) -> Report:
    """One of several that cannot be read fails by itself."""
    try:
        events = _file_of(ref)
        patient = _ours(events)
        return _of_other(ref, events, repairs) if patient is None else _of_ours(ref, patient, repairs)
    except FoldlineError as error:
        return Report(ref, ref, "", [Finding("bad", "file", str(error).removesuffix("."))])


def _file_of(ref: str) -> Path:
    path = typed_path(ref)
    if not ref or not is_folder(path):
        return path_of(ref)
    with suppress(FoldlineError):  # the folder of another agent's session
        return session_file(path)
    return events_file(path)


def _ours(events: Path) -> InspectedSession | None:
    """The session of ours that this file is, without its header, too; None where it is something else."""
    if file_of(events) != events:
        return None
    if not is_file(events):
        raise FoldlineError(f"There is no session file {events}.")
    patient = inspect_session(events)
    if patient.scan.header is not None or _is_kept_here(events):
        return patient
    known = sum(not isinstance(entry, Unknown) for entry in patient.scan.entries)
    left = events.name == EVENTS and known > 0 and isinstance(detect(read_regular(events)), Unreadable)
    return patient if left else None


def _is_kept_here(events: Path) -> bool:
    """Whether it lies where only sessions of ours do."""
    home = Path(real_path(data_home()))
    below = Path(real_path(events))
    return events.name == EVENTS and any(
        below.is_relative_to(home / name) for name in ("sessions", "archive")
    )


def _of_ours(ref: str, patient: InspectedSession, repairs: bool) -> Report:
    name = short_id(patient.folder.name) if patient.in_folder else ref
    path = str(patient.events)
    if is_newer(patient):
        return Report(name, path, "foldline", examine(patient)[:1])
    if not repairs:
        possible = repair_plan(patient, utc_now()).steps
        return Report(name, path, "foldline", examine(patient), possible=possible)
    try:
        done = repair(patient.events, utc_now())
    except FoldlineError as refusal:
        why = Finding("bad", "repair", f"nothing was done: {str(refusal).removesuffix('.')}")
        return Report(name, path, "foldline", [*examine(patient), why])
    return Report(name, path, "foldline", examine(inspect_session(patient.events)), done=done.steps)


def _of_other(ref: str, path: Path, repairs: bool) -> Report:
    """What the reader of another agent's file says of it."""
    found = read_foreign(path)
    damage = str(found.damage)
    findings = [
        Finding("ok", "format", f"{found.format}, {found.header.cwd or 'of an unknown folder'}"),
        Finding(
            "warn" if damage else "ok", "records", damage or f"{len(found.entries):,} entries, all readable"
        ),
        *(Finding("ok", "note", sentence.removesuffix(".")) for sentence in found.notes),
        *history_findings(found.entries),
    ]
    if repairs:
        note(
            f"{ref} was left as it is: other agents' files are never written to; `foldline import` copies it."
        )
    return Report(ref, str(path), found.format if found.format in FORMATS else "", findings)


# --- for people --------------------------------------------------------------------------------------


def say_report(report: Report) -> None:
    worst = sum(finding.mark == "bad" for finding in report.findings)
    warnings = sum(finding.mark == "warn" for finding in report.findings)
    counted = [f"{worst} bad"] if worst else []
    counted += [f"{warnings} to look at"] if warnings else []
    say_heading(f"{report.name}: {', '.join(counted) or 'all is well'}")
    _say_steps("repaired:", report.done)
    names = max((cells(finding.name) for finding in report.findings), default=0)
    for finding in report.findings:
        text = finding.found + (f" → {finding.advice}" if finding.advice else "")
        sign = paint(_SIGNS[finding.mark].ljust(6), _STYLES[finding.mark])
        _say_line(f"{sign}  {finding.name.ljust(names)}  ", 10 + names, text)
    _say_steps("With `--repair`, this would be done:", report.possible)


def _say_steps(title: str, steps: Sequence[str]) -> None:
    if steps:
        say(title)
    for step in steps:
        _say_line("  · ", 4, step)


def _say_line(head: str, indent: int, text: str) -> None:
    """One line a check; on a narrow terminal, what does not fit continues below its beginning."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    width = max(_LEAST_WIDTH, columns - indent)
    text = with_signs(text)
    pieces = textwrap.wrap(text, width, break_on_hyphens=False) if width < cells(text) else [text]
    write_out(head + pieces[0] + "\n")
    for piece in pieces[1:]:
        say(" " * indent + piece)


def report_json(report: Report) -> Json:
    return {
        "name": report.name,
        "path": report.path,
        "format": report.format,
        "ok": report.ok,
        "checks": [asdict(finding) for finding in report.findings],
        "done": list(report.done),
        "repairs": list(report.possible),
    }
