"""The commands that change what the model is sent: compact, preview, undo, clear, retry, strategy."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from foldline.compaction import BUILT_IN
from foldline.protocol import operations

if TYPE_CHECKING:
    from foldline.tui.runner import Runner


def folding_commands(
    preview: Callable[[str], None], remark: Callable[[str], None]
) -> dict[str, Callable[["Runner", str], None]]:
    """`preview` shows the compaction with this focus before it is made; `remark` answers in the status
    row."""

    def compact(runner: "Runner", argument: str) -> None:
        flag, _, focus = argument.strip().partition(" ")
        if flag == "--preview":
            preview(focus.strip())
        elif runner.agent.state.mode == "ask":
            preview(argument)
        else:
            runner.submit(operations.CompactSession(reason="manual", focus=argument or None))

    def strategy(runner: "Runner", name: str) -> None:
        if name:
            runner.submit(operations.SwitchStrategy(strategy=name))
        else:
            now = type(runner.agent.state.strategy).__name__
            remark(f"Now: {now}. There are {', '.join(BUILT_IN)}, and your own as module:ClassName")

    return {
        "compact": compact,
        "preview": lambda _, focus: preview(focus),
        "undo": lambda runner, _: runner.submit(operations.UndoCompaction()),
        "retry": lambda runner, _: runner.retry(),
        "clear": lambda runner, _: runner.submit(operations.ClearView()),
        "strategy": strategy,
    }
