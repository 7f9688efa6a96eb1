"""A progress bar on stderr, for people: where nobody watches, there is none."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """Counts up to `total`, with what is being done beside it. Goes away when it is done."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
            )
            text = TextColumn("{task.description}", markup=False)
            self._bar = Progress(*columns, text, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, description: str, count: int = 1) -> None:
        self._done += count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, description=description)
