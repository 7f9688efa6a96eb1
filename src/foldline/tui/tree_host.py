"""Connects the tree of branches to the session: going there, comparing, copying an answer, opening a fork."""

from functools import partial
from typing import TYPE_CHECKING

from foldline.agent.rewind import foresee
from foldline.context.budget import Size
from foldline.context.moments import Moment
from foldline.context.projection import Projection
from foldline.history import data_home
from foldline.history.catalog import forks_of
from foldline.protocol import operations
from foldline.tui.inspector.compare import CompareScreen
from foldline.tui.inspector.past import Comparison, Past
from foldline.tui.runner import Runner
from foldline.tui.screens.tree import TreeRow, TreeScreen

if TYPE_CHECKING:
    from foldline.tui.open_session import OpenSession


def open_tree(chat: "OpenSession", runner: Runner) -> None:
    """Show the branches; forks come as soon as they are found."""
    state = runner.agent.state
    projection = state.projection

    def size_of(moment: Moment | None, then: Projection) -> Size:
        """Both estimated, in the measure of now, so that they can be compared."""
        return Size(round(projection.weighed(then.counted + state.overhead, then.scripts)), estimated=True)

    def compare(place: TreeRow) -> None:
        last = place.branch.turn.moment
        moment = Moment("branch", last, projection.count_up_to(last))
        pair = Comparison(moment, None, f"{moment.name} → now")
        shown = CompareScreen(projection, Past(projection), [pair], size_of, state.session.cwd)
        chat.push_screen(shown, lambda index: None if index is None else chat.show_entry(index))

    screen = TreeScreen(
        projection,
        partial(foresee, state),
        compare=compare,
        copy=lambda answer: runner.submit(operations.CopyAnswer(answer=answer.index)),
        open_fork=lambda fork: chat.program.open_session(str(fork.path)),
    )

    def find_forks() -> None:
        found = forks_of(data_home(), state.session.header.id)
        chat.app.call_from_thread(screen.show_forks, found)

    chat.push_screen(screen, lambda asked: None if asked is None else runner.submit(asked))
    screen.run_worker(find_forks, thread=True, group="forks", exit_on_error=False)
