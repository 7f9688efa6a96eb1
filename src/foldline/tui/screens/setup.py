"""Setup: provider, key and model in three steps. What is slow is asked beside the event loop."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from rich.cells import cell_len
from textual import on
from textual.widgets import Input

from foldline.agent.api_keys import KEYS_FILE
from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.llm import LLMError
from foldline.llm.listing import ListedModel
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Piece, Side, Span, piece, row, wrap_spans
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, table
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.screens.setup_servers import (
    OFFLINE,
    OTHER,
    Choice,
    KnownServers,
    Secret,
    Source,
    cleaned_key,
)
from foldline.tui.widgets.lines import Line, Rule, boxed, filled
from foldline.tui.widgets.question import DEAF_SECONDS

KEYS: Final = table(
    "setup",
    "Steps",
    ScreenKey[None](
        "on",
        ("enter",),
        "Continues: selects the provider, checks the key with one cheap call, selects the model. Where the "
        "server does not answer, a model is named by hand.",
        hint="continue",
    ),
    ScreenKey(
        "back",
        ("escape",),
        "Stops the check, else goes one step back. From the step it opened with, it leaves everything as it "
        "is; when nothing is set up, that is the offline model. /model opens this screen again.",
        hint="back",
    ),
    ScreenKey("providers", ("tab", "shift+tab"), "To the list of providers.", hint="other providers"),
    *moves("row", letters=False, home=("ctrl+home",), end=("ctrl+end",)),
    replace(HELP, shown="F1"),
    title="Choose a model",
)

Step = Literal["provider", "address", "key", "model"]
"""`address` belongs to the first of the three steps: the URL of a server that is in no list."""
_NUMBERS: Final = {"provider": 1, "address": 1, "key": 2, "model": 3}
_PRICES_FROM: Final = 64
"""Columns from which prices are shown."""
_TITLE_CELLS: Final = 34
"""Cells that the name of a provider has in the list."""
_PROMPT: Final = [(" ❯ ", "accent")]


class KeyField(Field):
    """Shows that something was typed, and never what: it cannot be copied from it either."""

    def __init__(self) -> None:
        super().__init__("key", "paste or type it", password=True)

    def pasted(self, text: str) -> str:
        return cleaned_key(text)

    def action_copy(self) -> None:
        """A key does not leave by the clipboard."""

    def action_cut(self) -> None:
        self.delete_selection()


class SetupScreen(ListScreen[Choice | None, Source | ListedModel]):
    """Gives back what was chosen, once it is written down; or None, and nothing has changed."""

    KEYS = KEYS
    BINDINGS = bindings(KEYS, "list")

    def __init__(
        self,
        servers: KnownServers,
        *,
        current: tuple[str, str] = ("", ""),
        step: Step = "provider",
        clock: Callable[[], float] = time.monotonic,
        by_itself: bool = False,
    ) -> None:
        """
        Args:
            current: (name of the source, model) in use; empty at a first start.
            step: the last one shows the models of the source in use, where there is one.
            by_itself: nobody asked for it. Enter does nothing for a second: it was meant for what was there
                before.
        """
        self._address = Field("address", "http://localhost:8000/v1")
        self._key = KeyField()
        self._model = Field("model", "type to find, or a name")
        super().__init__((), (self._address, self._key, self._model))
        self._servers, self.sources = servers, tuple(servers.sources)
        self._clock, self._deaf_until = clock, clock() + DEAF_SECONDS if by_itself else 0.0
        self._current = current
        self.step: Step = "provider"
        self.first: Step = "provider"
        """The step that Esc leaves the screen from."""
        self.source: Source | None = None
        """The one that was taken."""
        self.key: Secret | None = None
        """Its key, where one was typed."""
        self.offers: Sequence[ListedModel] = ()
        self.compacting: set[str] = set()
        """Models whose windows are too small for the conversation as it is."""
        self.asking = False
        """Whether a server is being asked."""
        self.said: Span = ("", "")
        """What is to be read before the step's own words."""
        self.to_provider()
        if step == "model" and current[0] == self.pointed.name != OFFLINE.name:
            self.source, self.first = self.pointed, "model"
            self.to_model(self._known(self.source))
        if servers.trouble:
            self.say(servers.trouble, "text")

    def on_mount(self) -> None:
        if self.step == "model" and self.source is not None:
            self._ask(self.source, None)

    def field(self) -> Field | None:
        return {"address": self._address, "key": self._key, "model": self._model}.get(self.step)

    def say(self, words: str, style: str = "alert") -> None:
        """Nothing is asked any more, and this is to be read."""
        self.asking, self.said = False, (words, style)
        self.update()

    # --- the three steps --------------------------------------------------------------------------------

    @property
    def pointed(self) -> Source:
        """The source under the mark, in the first step; else the one that was taken."""
        return self.row if isinstance(self.row, Source) else self.source or OTHER

    def _to(self, step: Step, rows: Sequence[Source | ListedModel] = (), at: int = 0) -> None:
        self.step, self.rows, self.at = step, rows, at
        self.fit()
        self.say("")

    def to_provider(self) -> None:
        """The mark is at the source that was taken, else at the one in use, else at the first a key was found
        for. Nothing of one source is left for another."""
        self._key.value = ""
        wanted = self._current[0] if self.source is None else self.source.name
        places = {each.name: at for at, each in enumerate(self.sources) if each is not OTHER}
        with_key = (at for at, each in enumerate(self.sources) if each.key_in)
        self.first = "provider"
        self._to("provider", self.sources, places[wanted] if wanted in places else next(with_key, 0))

    def to_key(self, source: Source) -> None:
        """The second step, where the source wants a key to be typed."""
        self.source, self.key = source, None
        self._to("key")

    def to_model(self, offers: Sequence[ListedModel]) -> None:
        """The last step, with these models. Who has moved by then stays on that row."""
        marked = self.row.id if isinstance(self.row, ListedModel) else ""
        if self._in_use and self._in_use not in {each.id for each in offers}:
            offers = [ListedModel(self._in_use), *offers]
        self.offers = sorted(offers, key=lambda offer: offer.id.lower())
        self.compacting = {offer.id for offer in offers if self._servers.compacts_first(offer)}
        if self.step != "model":
            self._model.value = ""
        self._to("model")
        self.filter(self._model.value, marked)

    @property
    def _in_use(self) -> str:
        """The model of this source that the session is held with."""
        return self._current[1] if self._current[0] == self.pointed.name else ""

    def filter(self, typed: str, marked: str = "") -> None:
        """List the models that hold every word that is typed, and last the words themselves as a name.

        The mark goes to the model of this very name, else to `marked`, the one in use, the usual one. A name
        that is on no list is marked only where nothing else holds it."""
        typed, words = typed.strip(), typed.lower().split()
        rows = [each for each in self.offers if all(word in each.id.lower() for word in words)]
        places = {each.id: at for at, each in enumerate(rows)}
        wanted = (typed, marked, self._in_use, self.pointed.default_model)
        if len(words) == 1 and typed not in places:
            rows.append(ListedModel(typed))
        self.rows, self.at = rows, next((places[name] for name in wanted if name in places), 0)
        self.update()

    # --- keys -------------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        match command:
            case "back" | "help":
                return True
            case "on":  # a known model may be taken while its server is still asked
                return not self.asking or self.step == "model"
            case "providers":
                return self.step == "model"
            case _:
                return self.step in ("provider", "model")

    def word(self, key: ScreenKey[Any]) -> str:
        match key.id:
            case "on" if self.step == "model":
                return "select"
            case "on" if self.step == "key":
                return "check the key"
            case "back" if self.asking and self.step != "model":
                return "stop"
            case "back" if self.step == self.first:
                return "cancel" if self._current[0] else "skip"
            case _:
                return key.hint

    def act(self, command: str) -> None:
        match command:
            case "on" if self._clock() < self._deaf_until:
                self.tell("This screen has only just appeared: press again to continue.")
            case "on":
                self._continue()
            case "back":
                self._back()
            case "providers":
                self._stop_asking()
                self.to_provider()

    def moved(self) -> None:
        self.said = ("", "")

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        self.action_list("on")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self.field():
            self.said = ("", "")
            if self.step == "model":
                self.filter(event.value)
            self.update()

    def _continue(self) -> None:
        pointed = self.pointed
        match self.step:
            case "provider" if pointed is OFFLINE:
                self._take(Choice(OFFLINE, OFFLINE.name))
            case "provider" if pointed is OTHER:
                self._to("address")
            case "provider":
                self._ask_or_type(pointed)
            case "address":
                try:
                    self._ask_or_type(self._servers.other(self._address.value))
                except FoldlineError as failure:
                    self.say(f"✗ {failure}")
            case "key":
                self._check_key(pointed)
            case "model" if isinstance(self.row, ListedModel):
                self._take(Choice(pointed, self.row.id, self.key))

    def _back(self) -> None:
        if self.asking and self.step != "model":
            self._stop_asking()
        elif self.step == self.first:
            self.dismiss(None)
        elif self.step == "model" and self.key is not None:
            self._to("key")
        else:
            self._stop_asking()
            self.to_provider()

    def _stop_asking(self) -> None:
        self.workers.cancel_group(self, "ask")
        self.say("")

    def _ask_or_type(self, source: Source) -> None:
        """A server that needs nothing typed is asked at once."""
        if source.asks_key:
            self.to_key(source)
        else:
            self._ask(source, None)

    def _check_key(self, source: Source) -> None:
        """Ask the server with the key that stands in the field, where there is one."""
        key = Secret(cleaned_key(self._key.value))
        if not len(key) and source.key == "needed":
            self.say(f"✗ {source.title} needs a key.")
        elif key.fault:
            self.say(f"✗ {key.fault}")
        else:
            self._ask(source, key if len(key) else None)

    # --- what is asked of servers and the disk ----------------------------------------------------------

    def _known(self, source: Source) -> Sequence[ListedModel]:
        """What there is to choose from where the server does not say."""
        return self._servers.known(source, (self._in_use, source.default_model))

    def _ask(self, source: Source, key: Secret | None) -> None:
        self.source, self.key = source, key
        self.asking, self.said = True, ("", "")
        self.update()
        self.run_worker(self._asked(source, key), group="ask", exclusive=True)

    async def _asked(self, source: Source, key: Secret | None) -> None:
        try:
            self.to_model(await self._servers.models(source, key))
        except LLMError as failure:
            if failure.status in (401, 403):
                self._refused(source, key, failure)
            else:
                self.to_model(self._known(source))
                self.say(f"! {failure} Name a model to go on all the same.", "altered")
        except FoldlineError as failure:
            self.say(f"✗ {failure}")

    def _refused(self, source: Source, key: Secret | None, failure: LLMError) -> None:
        """A server that was thought to want no key, or to take the kept one, is given one."""
        if source.from_environment:
            self.say(f"✗ {failure} Correct {source.key_in} where it is set: it goes before any key here.")
            return
        sentence = str(failure)
        if failure.status == 401 and key is not None:
            # Of a key that was typed here, the client would say in which file to correct it.
            sentence = f"{source.host} does not take this key (401)."
        self.source = replace(source, key="needed" if source.key == "needed" else "optional", key_in="")
        self._to("key")
        self.say(f"✗ {sentence} Correct the key; Enter checks it again.")

    def _take(self, choice: Choice) -> None:
        self.run_worker(self._kept(choice), group="ask", exclusive=True)

    async def _kept(self, choice: Choice) -> None:
        try:
            await self._servers.keep(choice)
        except FoldlineError as failure:
            self.say(f"✗ {failure}")
        else:
            self.dismiss(choice)

    # --- drawing ----------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        inner, below = width - 2, 3
        words, style = self.said if self.said[0] else (self._about(), "muted")
        known = [[(" ", ""), *line] for line in wrap_spans([(clean_line(words), style)], width - 4)]
        room = height - below - 3
        lines: list[Line | Rule] = [
            *filled(self._step_lines(inner, room), room),
            Rule(),
            *filled(known, below),
        ]
        title = "Switch the model" if self._current[0] else "Choose a model"
        spans = ((title, "text bold"), (clean_line(f" ▸ {self._heading()}"), "text"))
        return boxed(width, spans, f"step {_NUMBERS[self.step]} of 3", lines, *self.foot(width, ("Esc",)))

    def height_wanted(self) -> int:
        """The same in each step, where the models of a server are no more than the servers."""
        return min(max(len(self.sources), len(self.offers) + 2) + 6, 30)

    def _heading(self) -> str:
        """What is asked for."""
        name, is_needed = self.pointed.title, self.pointed.key == "needed"
        key = f"Your key for {name}" if is_needed else f"A key for {name}, if it wants one"
        return {"provider": "Provider", "address": "Where is the server?", "key": key, "model": name}[
            self.step
        ]

    def _step_lines(self, width: int, room: int) -> list[Line]:
        """The list of this step; or a field, and what becomes of what is typed there."""
        self.seen.clear()
        source = self.pointed
        if self.step == "provider":
            return self.row_lines(room, 1, partial(self._line, width=width))
        if self.step == "model":
            place = f"{min(self.at + 1, len(self.rows)):,} of {len(self.rows):,}"
            heads = row([piece(place, "muted")], [piece(_figures(None, width), "muted")], width)
            none = [("  No model is listed: type a name.", "muted")]
            return [_PROMPT, heads, *self.row_lines(room - 2, 3, partial(self._line, width=width), [none])]
        texts = ["Where its API begins, of any server that speaks OpenAI's chat completions."]
        if self.step == "key":
            page = f"You get one at {source.key_page}." if source.key_page else ""
            texts = [
                f"It is kept in {KEYS_FILE}, which only you can read. {source.host} alone gets it.",
                page,
            ]
        lines = [line for each in texts for line in wrap_spans([(clean_line(each), "muted")], width - 4)]
        return [_PROMPT, [], *([("  ", ""), *line] for line in lines)]

    def _line(self, each: Source | ListedModel, marked: bool, width: int) -> Line:
        """A provider, or a model of one."""
        if isinstance(each, Source):
            name = clean_line(each.title)
            notes: Line = [(" " * (_TITLE_CELLS - cell_len(name)) + clean_line(each.host), "muted")]
            notes = notes if each.host else []
            is_used = bool(each.name) and each.name == self._current[0]
            end = piece("in use" if is_used else f"key in {each.key_in}" if each.key_in else "", "live")
        else:
            name, notes = clean_line(each.id), self._notes(each)
            end = piece(_figures(each, width), "text" if marked else "muted")
        side: Side = "left" if "/" in name else "right"
        left = [
            piece("▶" if marked else " ", "accent", gap=0),
            Piece(((name, "text"),), gap=0, cut=side, least=8),
            *(piece(text, style, gap=2, rank=1) for text, style in notes),
        ]
        return row(left, [end], width + 1)[1:]

    def _notes(self, each: ListedModel) -> Line:
        """What is said of a model beside its name."""
        is_usual = each.id == self.pointed.default_model
        found = (
            (each.id == self._in_use, "in use", "live"),
            (is_usual and each.id != self._in_use, "default", "muted"),
            (each not in self.offers, "as typed", "muted"),
            (each.id in self.compacting, "compacts first", "altered"),
        )
        return [(text, style) for holds, text, style in found if holds]

    def _about(self) -> str:
        """What Enter would do."""
        source = self.pointed
        if self.asking:
            return f"Asking {source.host} for its models …"
        if self.step == "model" and not source.named:
            return "In this session: the environment decides for new ones."
        if self.step == "model":
            return "In this session and in new ones; kept in config.toml."
        if self.step == "key":
            return "The check asks the server which models it has, and costs nothing."
        if source is OFFLINE:
            return (
                "Answers at once, reads and edits files by simple rules, cannot think: to try Foldline out."
            )
        if source is OTHER:
            return "SGLang, LiteLLM, a company's gateway: you type its address, and a key if it wants one."
        asks = "Enter asks for your key." if source.asks_key else "Enter asks it for its models."
        return f"At {source.url}. {asks}"


def _figures(offer: ListedModel | None, width: int) -> str:
    """Window and prices of a model in columns, as far as they are known; of none their names."""
    window, first, second = "window", "$/M in", "$/M out"
    if offer is not None:
        window = numbers.short_tokens(offer.window) if offer.window else "?"
        price = offer.price
        first, second = ("", "") if price is None else map(numbers.price, (price.input, price.output))
    return f"{window:>8}" + (f"{first:>9}{second:>9}" if width >= _PRICES_FROM else "")
