"""The setup screen: provider, key and model in three steps. What is slow is asked beside the event loop."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input

from foldline.llm import LLMError
from foldline.llm.listing import ListedModel
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Span
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import bindings, works
from foldline.tui.setup.fields import Field, KeyField, Secret, cleaned_key
from foldline.tui.setup.keys import KEYS
from foldline.tui.setup.rows import COUNT_CELLS, FIELD_LEFT, field_line, screen_lines, too_small_for
from foldline.tui.setup.state import OFFLINE, OTHER, Choice, SetupState, Source, Trouble
from foldline.tui.widgets.leaving import LeftOnce
from foldline.tui.widgets.lines import Lines
from foldline.tui.widgets.question import DEAF_SECONDS
from foldline.tui.widgets.status import TICKS

if TYPE_CHECKING:
    from foldline.llm.listing import ListedModel
    from foldline.tui.setup.state import Choice


class Servers(Protocol):
    """Providers, the servers behind them, and where a choice is kept."""

    async def answers(self, source: Source) -> bool:
        """Whether a local server is there right now; asked for a moment only, never an error."""
        ...

    async def models(self, source: Source, key: Secret | None) -> Sequence[ListedModel]:
        """What a server has to offer; also the cheap call that checks a key.

        Raises:
            LLMError: it refused the key, did not answer, or has no such list.
        """
        ...

    def known(self, source: Source, names: Sequence[str]) -> Sequence[ListedModel]:
        """What is known of these models of a server, and of those set for it, before it is asked."""
        ...

    @property
    def summariser(self) -> str:
        """The model that writes the summaries, as settings name it; empty: the session's own."""
        ...

    async def summarise_with(self, choice: Choice | None) -> str:
        """Let this model write the summaries, or, without one, the session's own again; what became of it.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
        ...

    def other(self, address: str) -> Source:
        """The server at an address somebody typed.

        Raises:
            FoldlineError: no server can be there.
        """
        ...

    def folds(self, offer: ListedModel) -> bool:
        """Whether the conversation has to be folded before this model can go on with it."""
        ...

    async def keep(self, choice: Choice) -> None:
        """Write down the key that was typed, and the choice.

        Raises:
            FoldlineError: the disk refused.
        """
        ...


_HEIGHT: Final = 30
"""Rows it takes where there are as many: the same in every step, so that nothing jumps."""
_STEPS: Final = {
    "up": -1,
    "down": 1,
    "page-up": -10,
    "page-down": 10,
    "first": -1_000_000,
    "last": 1_000_000,
}
"""How many rows further a key moves the mark."""
_REFUSED: Final = (401, 403)
"""Answers of a server that does not take the key."""


class _Box(Lines, can_focus=True):
    DEFAULT_CSS: ClassVar[str] = "_Box { height: 1fr; }"

    def __init__(self, state: SetupState, clock: Callable[[], float]) -> None:
        super().__init__()
        self.state = state
        self._clock = clock
        self.address = Field("address", "http://localhost:8000/v1")
        self.key = KeyField()
        self.model = Field("model", "type to find, or a name")

    @property
    def field(self) -> Field | None:
        """The field of this step."""
        match self.state.step:
            case "address":
                return self.address
            case "key" if self.state.has_key_field:
                return self.key
            case "model":
                return self.model
            case _:
                return None

    def compose(self) -> ComposeResult:
        yield self.address
        yield self.key
        yield self.model

    def place_field(self) -> None:
        """Show the field of this step where its line is, and give it the focus."""
        shown, small = self.field, too_small_for(*self.size)
        for field in (self.address, self.key, self.model):
            field.display = field is shown and not small
        if shown is not None:
            right = COUNT_CELLS if shown is self.key else 2
            shown.styles.margin = (field_line(self.state, self.size.height), right, 0, FIELD_LEFT)
        wanted = self if shown is None or small else shown
        if not wanted.has_focus:
            wanted.focus()

    def lines(self, width: int) -> list[list[Span]]:
        return screen_lines(self.state, width, self.size.height, self._clock())


class SetupScreen(LeftOnce[Choice | None], ModalScreen[Choice | None]):
    """Gives back what was chosen, once it is written down; or None, and nothing has changed."""

    DEFAULT_CSS: ClassVar[str] = """
    SetupScreen { align: center middle; background: transparent; }
    SetupScreen > Vertical { width: 100; max-width: 100%; max-height: 100%; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "setup")
    AUTO_FOCUS: ClassVar[str | None] = None

    def __init__(
        self,
        state: SetupState,
        servers: Servers,
        *,
        clock: Callable[[], float] = time.monotonic,
        by_itself: bool = False,
    ) -> None:
        """`by_itself`: nobody asked for it. Enter does nothing for a second: it was meant for what was there
        before."""
        super().__init__()
        self._servers = servers
        self._clock = clock
        self._box = _Box(state, clock)
        self._spinner: Timer | None = None
        self._deaf_until = clock() + DEAF_SECONDS if by_itself else None

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._box

    def on_mount(self) -> None:
        self.query_one(Vertical).styles.height = _HEIGHT
        self._box.place_field()
        for source in self.state.sources:
            if source.local:
                self.run_worker(self._look_for(source), group="look")
        if self.state.step == "model" and self.state.source is not None:
            self._ask(self.state.source, None)

    def on_resize(self) -> None:
        self.call_after_refresh(self._redraw)

    @property
    def state(self) -> SetupState:
        """What is shown."""
        return self._box.state

    def tell(self, words: str) -> None:
        """Say something where the step's own words stand, until the next key."""
        self._show(replace(self.state, told=words))

    def _show(self, state: SetupState) -> None:
        before, self._box.state = self.state, state
        if (before.step, before.trouble, before.source) != (state.step, state.trouble, state.source):
            self._box.place_field()
        self._turn_spinner(state.is_checking)
        self._box.update()

    def _redraw(self) -> None:
        self._box.place_field()
        self._box.update()

    def _turn_spinner(self, turning: bool) -> None:
        if turning and self._spinner is None:
            self._spinner = self.set_interval(1 / TICKS, self._box.update)
        elif not turning and self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    # --- keys -----------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.state)

    def action_setup(self, command: str) -> None:
        """What a key of the table does."""
        state = replace(self.state, told="")
        if not works(KEYS, command, state):
            return
        match command:
            case "on" if self._deaf_until is not None and self._clock() < self._deaf_until:
                self.tell("This screen has only just appeared: press again to go on.")
            case "on":
                self._go_on()
            case "back":
                self._go_back()
            case "providers":
                self._show(state.to_provider())
            case "anyway":
                self._show(state.to_model(listed=False))
            case "key":
                self._to_key(replace(state.pointed, key_in=""))
            case "summaries":
                self.run_worker(self._summarise(), group="ask", exclusive=True)
            case "help":
                open_help(self.app)
            case _:
                self._show(state.moved(_STEPS[command]))

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        self.action_setup("on")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        state = replace(self.state, told="")
        if event.input is self._box.key and state.step == "key":
            self._show(state.typed_key(len(cleaned_key(event.value))))
        elif event.input is self._box.model and state.step == "model" and event.value != state.query:
            self._show(state.filtered(event.value))
        elif event.input is self._box.address and state.step == "address":
            self._show(replace(state, trouble=None))

    def _go_on(self) -> None:
        state = self.state
        match state.step:
            case "provider" if state.pointed is OFFLINE:
                self._take(Choice(OFFLINE, OFFLINE.name))
            case "provider" if state.pointed is OTHER:
                self._show(state.to_address())
            case "provider":
                self._to_key(state.pointed)
            case "address":
                self._to_other(self._box.address.value)
            case "key":
                self._check_key()
            case "model":
                choice = state.choice()
                if choice is not None:
                    self._take(choice)

    def _go_back(self) -> None:
        state = self.state
        if state.is_checking:
            self.workers.cancel_group(self, "ask")
            if state.step == "key" and not state.has_key_field:
                self._show(state.to_provider())
            else:
                self._show(state.stopped())
        elif state.step == state.first:
            self.dismiss(None)
        elif state.step == "model" and state.source is not None and state.source.asks_key:
            self._show(replace(state, step="key", trouble=None))
        elif state.step == "key" and state.source is not None and not self._is_listed(state.source):
            self._show(state.to_address())
        else:
            self._show(state.to_provider())

    def _is_listed(self, source: Source) -> bool:
        return any(source.name == listed.name for listed in self.state.sources)

    # --- from step to step ----------------------------------------------------------------------------

    def _to_key(self, source: Source) -> None:
        """The second step. A server that needs nothing typed is asked at once."""
        self._box.key.value = self._box.model.value = ""
        self._show(self.state.to_key(source))
        if not source.asks_key:
            self._ask(source, None)

    def _to_other(self, address: str) -> None:
        try:
            source = self._servers.other(address)
        except FoldlineError as failure:
            self._show(self.state.failed(Trouble("wrong", str(failure))))
        else:
            self._to_key(source)

    def _check_key(self) -> None:
        """Ask the server with the key that stands in the field, where there is one."""
        state, source = self.state, self.state.source
        if source is None:
            return
        key = Secret(cleaned_key(self._box.key.value)) if state.has_key_field else None
        if key is not None and len(key) == 0:
            if source.key == "needed":
                self._show(state.failed(Trouble("wrong", f"{source.title} answers nobody without a key.")))
                return
            key = None
        if key is not None and key.fault:
            self._show(state.failed(Trouble("wrong", key.fault)))
            return
        self._ask(source, key)

    def _ask(self, source: Source, key: Secret | None) -> None:
        state = self.state
        names = (state.current[1] if state.current[0] == source.name else "", source.default_model)
        known = tuple(self._servers.known(source, names))
        state = replace(state, known=known, summariser=self._servers.summariser)
        # While the server is asked, and where it does not answer, this is what there is to choose from.
        state = state.filtered(state.query) if state.step == "model" else state
        self._show(state.checking(self._clock(), key))
        self.run_worker(self._asked(source, key), group="ask", exclusive=True)

    async def _asked(self, source: Source, key: Secret | None) -> None:
        try:
            offers = await self._servers.models(source, key)
        except FoldlineError as failure:
            self._show(_failed(self.state, _trouble(failure)))
            return
        folding = {offer.id for offer in offers if self._servers.folds(offer)}
        self._show(self.state.to_model(offers, folding=folding))

    async def _look_for(self, source: Source) -> None:
        if await self._servers.answers(source):
            self._show(self.state.saw_running(source.name))

    def _take(self, choice: Choice) -> None:
        self.run_worker(self._kept(choice), group="ask", exclusive=True)

    async def _summarise(self) -> None:
        """Let the marked model write the summaries; the one that does, no longer."""
        state, choice = self.state, self.state.choice()
        if choice is None or state.row is None:
            return
        wanted = None if state.writes_summaries(state.row) else choice
        try:
            told = await self._servers.summarise_with(wanted)
        except FoldlineError as failure:
            self._show(self.state.failed(Trouble("wrong", str(failure))))
        else:
            self._show(replace(self.state, summariser=self._servers.summariser, told=told))

    async def _kept(self, choice: Choice) -> None:
        try:
            await self._servers.keep(choice)
        except FoldlineError as failure:
            self._show(self.state.failed(Trouble("wrong", str(failure))))
        else:
            self.dismiss(choice)


def _trouble(failure: FoldlineError) -> Trouble:
    if not isinstance(failure, LLMError):
        return Trouble("wrong", str(failure))
    refused = failure.status in _REFUSED
    return Trouble("refused" if refused else "unreachable", str(failure), failure.status)


def _failed(state: SetupState, trouble: Trouble) -> SetupState:
    """A server that was thought to want no key, or to take the kept one, and refuses, is given one."""
    source = state.source
    if (
        trouble.kind == "refused"
        and source is not None
        and not source.from_environment
        and state.step == "key"
    ):
        wants = "optional" if source.key == "none" else source.key
        state = replace(state, source=replace(source, key=wants, key_in=""))
    return state.failed(trouble)
