"""What the Context screen shows, as one immutable value. Sizes in tokens, as decisions use them."""

from dataclasses import dataclass
from typing import Literal

from foldline.context.weight import Category, Usage
from foldline.tui.blocks import Key, Span
from foldline.tui.state import Room

PromptKind = Literal["held", "queued", "written"]


@dataclass(frozen=True, slots=True)
class PromptShare:
    """Prompts that are not in the next request yet: the one a fold is made for, those that are queued, the
    one that is being written."""

    kind: PromptKind
    items: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Item:
    """One of the heaviest things in the next request, and what can be done about it."""

    key: Key
    """(entry, nth); of tool schemas a number below -1."""
    number: str
    """The entry's, as it is shown; empty where it is none."""
    signs: tuple[Span, Span]
    """Letter and rail of its fate."""
    kind: str
    words: str
    is_path: bool
    tokens: int
    estimated: bool
    remedy: str
    """What can be done, in a few words: `z hides −8.5k`."""
    advice: str = ""
    """The same in a sentence, where no key is to be priced."""
    folds: bool = False
    """Whether a fold now would take it."""
    category: Category = "notes"
    """The row of the table it counts in, its pictures apart."""
    server: str = ""
    """Of tool schemas: who lends them; empty for our own."""

    @property
    def entry(self) -> int | None:
        """The entry it is."""
        return self.key[0] if self.key[0] >= 0 else None


@dataclass(frozen=True, slots=True)
class FoldNow:
    """What a fold by hand would give now, by its plan."""

    before: int
    after: int
    entries: int
    """How many would leave the view."""
    clips: int
    """How many large results would be shortened."""
    taken: int
    """What of the request it would take away, its summary not counted."""


@dataclass(frozen=True, slots=True)
class ContextState:
    """Everything the screen is told."""

    usage: Usage
    room: Room
    """As the meter has it; with a fold planned, what that would take."""
    prompts: tuple[PromptShare, ...] = ()
    items: tuple[Item, ...] = ()
    fold: FoldNow | None = None
    planned: bool = False
    """Whether it has been worked out what a fold would give."""
    mode: str = "auto"
    """Who folds a full window: `auto`, `ask`, `off`."""
    stopped: str = ""
    """Why a full window is not folded without a word of the user, as a sentence."""
    trouble: str = ""
    """Why there are no limits, as a sentence: the window is too small."""
    model: str = ""
    doing: str = ""
    """What the agent does just now."""

    @property
    def waiting(self) -> int:
        """What the prompts that wait will add."""
        return sum(share.tokens for share in self.prompts)

    @property
    def reserve(self) -> int | None:
        """What is kept free behind the threshold, for the answer. None where there is no limit."""
        room = self.room
        return None if room.threshold is None else max(0, room.window - max(self._used, room.threshold))

    @property
    def free(self) -> int:
        """What neither the next request takes, nor the prompts that wait, nor the answer. Negative where they
        are larger than the window."""
        return self.room.window - self._used - (self.reserve or 0)

    @property
    def _used(self) -> int:
        return self.room.size + self.waiting
