"""Prints the tables of the benchmarks at the end of the run, and runs each reading job once."""

import asyncio
from collections.abc import Callable
from functools import cache

import pytest

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


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for table in TABLES.values():
        terminalreporter.write_line("")
        for line in table.lines():
            terminalreporter.write_line(line)
