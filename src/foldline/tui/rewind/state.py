"""What the Rewind screen shows, and what may be chosen there. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from foldline.context.file_states import FileChange
from foldline.context.places import Place
from foldline.protocol import operations

What = Literal["both", "context", "files"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What going back to the marked place would do."""

    before: int
    """Tokens of the next request now, as screens show them."""
    after: int
    items: int
    """Items that would leave the view."""
    prompts: int = 0
    """Typed prompts among them."""
    files: Sequence[FileChange] = ()

    @property
    def changing(self) -> Sequence[FileChange]:
        """Files that would be put back without a further word."""
        return [change for change in self.files if change.kind in ("write", "remove")]

    @property
    def conflicts(self) -> Sequence[FileChange]:
        return [change for change in self.files if change.kind == "conflict"]


@dataclass(frozen=True, slots=True)
class RewindState:
    """The places, newest first, the mark among them, and what is known of it."""

    places: tuple[Place, ...]
    marked: int | None = None
    """Id of the place the cursor is at; None where there is no place at all."""
    steps: bool = False
    """Whether the steps within the turns are listed, too."""
    outcome: Outcome | None = None
    """None until the files were looked at."""
    overwrite: bool = False
    """Whether what others changed is put back as well."""
    asked: What | None = None
    """What the reader wants to go back with: it is done at their second word, once they know what changes."""

    @property
    def shown(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if self.steps or place.kind == "turn")

    @property
    def place(self) -> Place | None:
        return next((place for place in self.places if place.id == self.marked), None)

    def moved(self, step: int) -> "RewindState":
        """The mark so many rows further, within the list."""
        ids = [place.id for place in self.shown]
        if not ids:
            return self
        at = ids.index(self.marked) if self.marked in ids else 0
        return self._at(ids[min(max(at + step, 0), len(ids) - 1)])

    def toggled_steps(self) -> "RewindState":
        """Steps listed or not; a mark on a step goes to the place of its turn."""
        state = replace(self, steps=not self.steps)
        if any(place.id == self.marked for place in state.shown):
            return state
        earlier = (place.id for place in state.shown if self.place and place.index < self.place.index)
        return state._at(next(earlier, state.shown[0].id if state.shown else None))

    def _at(self, marked: int | None) -> "RewindState":
        return self if marked == self.marked else RewindState(self.places, marked, self.steps)

    def can(self, what: What) -> bool:
        """Whether going back with this would change anything."""
        known = self.outcome
        if known is None or self.place is None:
            return False
        files = bool(known.changing or (self.overwrite and known.conflicts))
        return {"context": True, "files": files, "both": files}[what]

    def ask(self, what: What | None) -> "RewindState":
        """With this as what is asked about; with nothing, where it would change nothing."""
        return replace(self, asked=what if what is not None and self.can(what) else None)

    @property
    def operation(self) -> operations.Rewind | None:
        """What the reader was asked about, and the agent is to do; None where nothing is asked."""
        what = self.asked
        if what is None or self.marked is None or self.outcome is None:
            return None
        conflicts = tuple(change.path for change in self.outcome.conflicts) if self.overwrite else ()
        return operations.Rewind(
            checkpoint=self.marked, context=what != "files", files=what != "context", overwrite=conflicts
        )


def begin(places: Sequence[Place]) -> RewindState:
    """With the mark at the newest turn."""
    state = RewindState(tuple(places))
    first = state.shown[0] if state.shown else None
    return replace(state, marked=first.id if first else None)
