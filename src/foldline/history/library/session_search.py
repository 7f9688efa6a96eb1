"""Search across all sessions: what was ever said on this machine, found again, and in which session.

The index beside the sessions (`search.db`) knows what may match and where it stands in which event file;
whether it does is decided there, on the text. So the index can be thrown away at any time, and any piece of
any text is found, in any script.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from foldline.context.matching import parse_query

from ..search import MessageKind
from .finding import Find, SessionHit, SessionHits, SessionsFound
from .intake import Known, Piece, changed_at, read_piece, session_files
from .shelves import add, all_known, clear_if_mostly_dead, give_up, move, remove
from .store import IndexInUse, IndexLost, Store

__all__ = ["IndexInUse", "Progress", "SessionHit", "SessionHits", "SessionSearch", "SessionsFound"]

SEARCH = "search.db"
_AT_A_TIME = 4 * 2**20
"""Bytes of event files that are taken in before others get their turn."""
_IN_VAIN = 3
"""Times in a row that another process was said to be quicker, and had changed nothing: it is damaged then."""
_MOST_TOGETHER = 100
"""Sessions taken in at once."""


class Progress(NamedTuple):
    """How far the index is."""

    done: int
    """Bytes of event files taken in."""
    total: int
    name: str
    """The session they were of."""


class SessionSearch:
    """The search across the sessions in one data folder.

    Both methods block, for threads; any number of threads and processes may use them at the same time. `find`
    finds what `refresh` has taken in so far, and need not wait for it to end.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._store = Store(home / SEARCH)

    @property
    def trouble(self) -> str:
        """Why the index could not be kept on disk, as a sentence; empty where it is."""
        if not self._store.trouble:
            return ""
        return (
            f"The search index cannot be kept in {self._store.path} ({self._store.trouble}): "
            "it was made in memory, and will be made anew next time."
        )

    def find(
        self,
        query: str,
        *,
        limit: int = 20,
        cwd: Path | str | None = None,
        kind: MessageKind | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> SessionsFound:
        """The sessions with an entry in which every word and "quoted phrase" of the query occurs.

        Best first, at most `limit` of them; only those of the folder `cwd`, if one is given. Of very many
        matches, the newest are looked at. Once `stopped()` is true it gives up: its answer is of no use then.

        Raises:
            IndexInUse: another process keeps the index to itself.
        """
        if not self._home.is_dir():
            return SessionsFound((), complete=True, clipped=0)  # and no folder is made for it
        find = Find(self._home, parse_query(query), limit, cwd, kind, stopped)
        while True:
            try:
                return self._store.run(find)
            except IndexLost:
                self.refresh(stopped=stopped)

    def refresh(
        self,
        progress: Callable[[Progress], None] = lambda _: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Take in what was appended to any session since the last time, the newest first.

        Whether everything is in: not where `stopped()` became true (what was taken in stays), or another
        process keeps the index to itself.

        Raises:
            FoldlineError: the sessions cannot be listed.
        """
        in_vain, before = 0, None
        while not stopped() and self._home.is_dir():
            try:
                is_done, known = self._taken_in(progress, stopped)
                if is_done:
                    return True
                in_vain, before = in_vain + 1 if known == before else 0, known
                if in_vain >= _IN_VAIN:
                    self._store.run(give_up)
            except IndexLost:
                continue
            except IndexInUse:
                return False
        return not stopped()

    def _taken_in(
        self, progress: Callable[[Progress], None], stopped: Callable[[], bool]
    ) -> tuple[bool, dict[str, Known]]:
        """Bring the index up to date; False where that has to be done again, because another process was at
        it, too. And what it knew before."""
        files = session_files(self._home)
        known = self._tidied(files.keys())
        behind = [
            (known.get(folder, Known(folder)), status)
            for folder, status in sorted(files.items(), key=lambda item: item[1].st_mtime_ns, reverse=True)
        ]
        behind = [
            (at, file) for at, file in behind if (at.size, at.mtime) != (file.st_size, changed_at(file))
        ]
        done, total = 0, sum(max(0, file.st_size - at.taken) for at, file in behind)
        refused = 0
        for pieces in _batches(self._pieces(behind, stopped)):
            refused += self._store.run(partial(add, pieces=pieces))
            done += sum(piece.bytes for piece in pieces)
            progress(Progress(min(done, total), total, pieces[-1].after.title or pieces[-1].after.prompt))
        return not refused and not stopped(), known

    def _pieces(
        self, behind: Sequence[tuple[Known, os.stat_result]], stopped: Callable[[], bool]
    ) -> Iterator[Piece]:
        """What these files have got more than the index, up to where they ended when they were listed."""
        for at, file in behind:
            while not stopped() and (piece := read_piece(self._home, at, _AT_A_TIME, stopped)):
                yield piece
                at = piece.after
                if at.size >= 0 or at.taken >= file.st_size:
                    break

    def _tidied(self, there: Collection[str]) -> dict[str, Known]:
        """What the index knows, once it knows what was moved, and has forgotten what was deleted."""
        known = self._store.run(all_known)
        gone = [folder for folder in known if folder not in there]
        if not gone:
            return known
        new = {_tail(folder): folder for folder in there if folder not in known}
        moved = [(folder, new[_tail(folder)]) for folder in gone if _tail(folder) in new]
        deleted = [folder for folder in gone if _tail(folder) not in new]
        self._store.run(partial(move, moved=moved))
        self._store.run(partial(remove, folders=deleted))
        self._store.run(clear_if_mostly_dead)
        return self._store.run(all_known)


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Small sessions together: each batch is one transaction."""
    batch: list[Piece] = []
    for piece in pieces:
        batch.append(piece)
        if sum(one.bytes for one in batch) >= _AT_A_TIME or len(batch) >= _MOST_TOGETHER:
            yield batch
            batch = []
    if batch:
        yield batch


def _tail(folder: str) -> str:
    """Workdir key and id: the same in the archive."""
    return folder.split("/", 1)[1]
