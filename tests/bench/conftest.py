"""Shared fixtures of the benchmarks, and their tables at the end of the run."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.sessions import events_of, large_session, prepare
from bench.tables import TABLES
from support.job import Job, Report

Reports = Callable[[Job], Report]


@pytest.fixture(scope="session")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Return the report of a job; run the job on first use."""

    @cache
    def run(job: Job) -> Report:
        return asyncio.run(job.run(tmp_path_factory.mktemp("job")))

    return run


@pytest.fixture(scope="session")
def large() -> Iterator[Path]:
    """A working folder with a session of 100,000 entries and 1 GB.

    Index and snapshot are up to date. Tests that change it make a copy first.
    """
    with large_session() as folder:
        prepare(events_of(folder))
        yield folder


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in TABLES.values():
        terminalreporter.write_line("")
        for line in table.lines():
            terminalreporter.write_line(line)
