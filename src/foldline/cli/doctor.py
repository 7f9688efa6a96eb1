"""`foldline doctor`: checks and repairs sessions, or checks the installation."""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from foldline.data import is_kept
from foldline.files import is_file, is_folder, read_regular
from foldline.formats import FORMATS, file_of, read_foreign, session_file
from foldline.formats.detection import UnreadableFile, detect
from foldline.history import (
    EVENTS,
    data_home,
    events_file,
    short_id,
    typed_path,
    utc_now,
)
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
from foldline.history.repair import repair, repair_plan
from foldline.protocol import FoldlineError, Unknown
from foldline.text.harmless import with_signs
from foldline.text.numbers import many
from foldline.text.shorten import cells

from .output import Json, Style, note, paint, say, say_heading, say_json
from .sources import path_of
from .streams import write_out

_SIGNS: dict[Mark, str] = {"ok": "✓ ok", "warn": "! warn", "bad": "✗ bad"}
_STYLES: dict[Mark, Style | None] = {"ok": "muted", "warn": "altered", "bad": "alert"}
_LEAST_WIDTH = 40
NO_PROBLEMS = "no problems"
POSSIBLE_REPAIR = "`--repair` would do this:"
FOREIGN_FILE = "{ref} belongs to another agent and was not changed. Use `foldline import` to copy it."


def doctor(sources: Sequence[str], repairs: bool, network: bool, as_json: bool) -> int:
    if sources:
        reports = [
            report for source in sources for report in tree_reports(source, repairs)
        ]
    else:
        from .doctor_checks import examine_here, tidy  # slow to import

        repaired = tidy(data_home()) if repairs else ()
        reports = [
            DoctorReport(
                "this installation",
                str(data_home()),
                "",
                examine_here(network),
                repaired,
            )
        ]
    ok = all(report.ok for report in reports)
    if as_json:
        say_json({"ok": ok, "reports": [report_json(report) for report in reports]})
    else:
        for number, report in enumerate(reports):
            if number:
                say()
            say_report(report)
    return 0 if ok else 1


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The findings about a session or the installation."""

    name: str
    path: str
    format: str
    """`foldline` or another agent's format.

    Empty for the installation and for unreadable files.
    """
    findings: Sequence[Finding]
    repaired: tuple[str, ...] = ()
    """Steps that the repair has taken."""
    possible: tuple[str, ...] = ()
    """Steps that a repair would take."""

    @property
    def ok(self) -> bool:
        return all(finding.mark != "bad" for finding in self.findings)


# --- sessions ----------------------------------------------------------------------------------------


def tree_reports(ref: str, repairs: bool) -> Iterator[DoctorReport]:
    """Yield reports on a session and its subagents."""
    parent = session_report(ref, repairs)
    yield parent
    if parent.format == "foldline":
        root, *children = tree_of(Path(parent.path))
        for events in children:
            ids = events.parent.relative_to(root.parent).parts[1::2]
            yield replace(
                session_report(str(events), repairs), name="/".join((parent.name, *ids))
            )


def session_report(ref: str, repairs: bool) -> DoctorReport:
    """Return a report on a session, even if the session cannot be read."""
    try:
        events = _file_of(ref)
        inspected = _own_session(events)
        if inspected is None:
            return _foreign_report(ref, events, repairs)
        return _own_report(ref, inspected, repairs)
    except FoldlineError as error:
        return DoctorReport(
            ref, ref, "", [Finding("bad", "file", str(error).removesuffix("."))]
        )


def _file_of(ref: str) -> Path:
    path = typed_path(ref)
    if not ref or not is_folder(path):
        return path_of(ref)
    with suppress(FoldlineError):  # not every folder contains another agent's session
        return session_file(path)
    return events_file(path)


def _own_session(events: Path) -> InspectedSession | None:
    """Inspect a Foldline session, even one without a header.

    Returns None for other files.
    """
    if file_of(events) != events:
        return None
    if not is_file(events):
        raise FoldlineError(f"There is no session file {events}.")
    inspected = inspect_session(events)
    if inspected.scan.header is not None:
        return inspected
    if events.name != EVENTS:
        return None
    if is_kept(data_home(), events):
        return inspected
    has_entries = any(
        not isinstance(entry, Unknown) for entry in inspected.scan.entries
    )
    if has_entries and isinstance(detect(read_regular(events)), UnreadableFile):
        return inspected
    return None


def _own_report(ref: str, inspected: InspectedSession, repairs: bool) -> DoctorReport:
    name = short_id(inspected.folder.name) if inspected.in_folder else ref
    report = DoctorReport(name, str(inspected.events), "foldline", examine(inspected))
    if is_newer(inspected):
        return replace(report, findings=report.findings[:1])
    if not repairs:
        return replace(report, possible=repair_plan(inspected, utc_now()).steps)
    try:
        repaired = repair(inspected.events, utc_now()).steps
    except FoldlineError as refusal:
        problem = f"nothing was done: {str(refusal).removesuffix('.')}"
        failure = Finding("bad", "repair", problem)
        return replace(report, findings=[*report.findings, failure])
    findings = examine(inspect_session(inspected.events))
    return replace(report, findings=findings, repaired=repaired)


def _foreign_report(ref: str, path: Path, repairs: bool) -> DoctorReport:
    session = read_foreign(path)
    records = Finding(
        "ok", "records", f"{len(session.entries):,} entries, all readable"
    )
    if damage := str(session.damage):
        records = Finding("warn", "records", damage)
    findings = [
        Finding(
            "ok",
            "format",
            f"{session.format}, {session.header.cwd or 'unknown folder'}",
        ),
        records,
        *(
            Finding("ok", "note", sentence.removesuffix("."))
            for sentence in session.notes
        ),
        *history_findings(session.entries),
    ]
    if repairs:
        note(FOREIGN_FILE.format(ref=ref))
    return DoctorReport(
        ref, str(path), session.format if session.format in FORMATS else "", findings
    )


# --- output ------------------------------------------------------------------------------------------


def say_report(report: DoctorReport) -> None:
    bad = sum(finding.mark == "bad" for finding in report.findings)
    warnings = sum(finding.mark == "warn" for finding in report.findings)
    counts = []
    if bad:
        counts.append(f"{bad} bad")
    if warnings:
        counts.append(many(warnings, "warning"))
    say_heading(f"{report.name}: {', '.join(counts) or NO_PROBLEMS}")
    _say_steps("repaired:", report.repaired)
    name_cells = max((cells(finding.name) for finding in report.findings), default=0)
    for finding in report.findings:
        text = (
            f"{finding.found} → {finding.advice}" if finding.advice else finding.found
        )
        sign = paint(_SIGNS[finding.mark].ljust(6), _STYLES[finding.mark])
        _say_line(f"{sign}  {finding.name.ljust(name_cells)}  ", 10 + name_cells, text)
    _say_steps(POSSIBLE_REPAIR, report.possible)


def _say_steps(title: str, steps: Sequence[str]) -> None:
    if steps:
        say(title)
    for step in steps:
        _say_line("  · ", 4, step)


def _say_line(head: str, indent: int, text: str) -> None:
    """Print `head`, followed by `text`.

    On a terminal, the text is wrapped, and its further lines are indented.
    """
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    width = max(_LEAST_WIDTH, columns - indent)
    text = with_signs(text)
    pieces = (
        textwrap.wrap(text, width, break_on_hyphens=False)
        if width < cells(text)
        else [text]
    )
    write_out(head + pieces[0] + "\n")
    for piece in pieces[1:]:
        say(" " * indent + piece)


def report_json(report: DoctorReport) -> Json:
    return {
        "name": report.name,
        "path": report.path,
        "format": report.format,
        "ok": report.ok,
        "checks": [asdict(finding) for finding in report.findings],
        "done": report.repaired,
        "repairs": report.possible,
    }
