"""The table in `docs/sessions.md`: a row for each agent, of which a run replaces those that it ran."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from .catalogue.base import Agent
from .comparison import Compared
from .runs import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "sessions.md"
BEGIN, END = "<!-- make agents: begin -->", "<!-- make agents: end -->"
HEAD = (
    "| agent | version | run on | job | compacted twice | rewound | handed over | known differences |",
    "|---|---|---|---|---|---|---|---|",
)
NOT_RUN = "—"


def write_rows(agents: Iterable[type[Agent]], outcomes: Iterable[Outcome]) -> None:
    """Write the table, with the rows of these outcomes in place of those that were there."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {_title(line): line for line in table.splitlines() if line.startswith("| ")}
    by_name = {outcome.name: outcome for outcome in outcomes}
    lines = list(HEAD)
    for agent in agents:
        if agent.name in by_name:
            lines.append(_row(agent, by_name[agent.name]))
        elif agent.title in rows:
            lines.append(rows[agent.title])
    text = "\n".join((BEGIN, *lines, END))
    PAGE.write_text(f"{before}{text}{after}", encoding="utf-8")


def _title(row: str) -> str:
    return row.split("|")[1].strip()


def _row(agent: type[Agent], outcome: Outcome) -> str:
    known = [f"not run: {outcome.stopped}."] if outcome.stopped else []
    cells = (
        agent.title,
        agent.version,
        datetime.now().astimezone().date().isoformat(),
        _cell(outcome.job),
        _cell(outcome.compacted),
        _cell(outcome.rewound),
        str(outcome.handed) if outcome.handed else NOT_RUN,
        " ".join((*known, *outcome.known)) or "none",
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _cell(compared: Compared | None) -> str:
    return str(compared) if compared else NOT_RUN
