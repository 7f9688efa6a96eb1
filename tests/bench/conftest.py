"""Prints the tables of the benchmarks at the end of the run, and makes once what several of them need."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from bench.sessions import events_of, placed, prepare
from bench.tables import TABLES
from support.job import Job, Report

Reports = Callable[[Job], Report]


@pytest.fixture(scope="session")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """What a job came to. It is run when it is first asked for."""

    @cache
    def run(job: Job) -> Report:
        return asyncio.run(job.run(tmp_path_factory.mktemp("job")))

    return run


@pytest.fixture(scope="session")
def large() -> Iterator[Path]:
    """A working folder whose last session has 100,000 entries and 1 GB, as the process that wrote it left
    it. Who changes it makes a copy first."""
    with placed() as folder:
        prepare(events_of(folder))
        yield folder


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in TABLES.values():
        terminalreporter.write_line("")
        for line in table.lines():
            terminalreporter.write_line(line)
