"""Setup: provider, key and model in three steps. What is slow is asked beside the event loop."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.timer import Timer
from textual.widgets import Input

from foldline.agent.api_keys import KEYS_FILE
from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.llm import LLMError
from foldline.llm.listing import ListedModel
from foldline.protocol import FoldlineError
from foldline.tui.blocks.cells import Piece, crop, piece, row, wrap_spans
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
from foldline.tui.widgets.lines import Line, Rule, boxed, filled, key_words
from foldline.tui.widgets.question import DEAF_SECONDS
from foldline.tui.widgets.status import SPINNER, TICKS

KEYS: Final = table(
    "setup",
    "Steps",
    ScreenKey[None](
        "on",
        ("enter",),
        "Continues: selects the provider, checks the key with one cheap call, selects the model. Where the "
        "server did not answer, asks it again.",
        hint="continue",
    ),
    ScreenKey(
        "back",
        ("escape",),
        "Stops the check, else goes one step back. From the step it opened with, it leaves everything as it "
        "is; when nothing is set up, that is the offline model. /model opens this screen again.",
        hint="back",
    ),
    ScreenKey(
        "providers", ("tab", "shift+tab"), "To the list of providers, from any step.", hint="other providers"
    ),
    ScreenKey(
        "summaries",
        ("alt+s",),
        "Lets the marked model write the summaries, in this session and in new ones; once more, no longer.",
        hint="summaries",
    ),
    ScreenKey(
        "anyway",
        ("ctrl+s",),
        "Continues without a check, where the server did not answer: the model is then named by hand.",
        hint="continue anyway",
    ),
    ScreenKey("key", ("k",), "Asks for another key than the one in the key file.", hint="another key"),
    *moves("row", letters=False, home=("ctrl+home",), end=("ctrl+end",)),
    replace(HELP, shown="F1"),
    title="Choose a model",
)

Step = Literal["provider", "address", "key", "model"]
"""`address` belongs to the first of the three steps: the URL of a server that is in no list."""
_NUMBERS: Final = {"provider": 1, "address": 1, "key": 2, "model": 3}
_HEAD: Final = 3
"""Lines above the step's own: edge, steps, rule."""
_COUNT_CELLS: Final = 16
"""Right of the field of a key: how long it is."""
_PRICES_FROM: Final = 64
"""Columns from which prices are shown."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is to be read before the step's own words."""

    kind: Literal["refused", "unreachable", "wrong", "note"]
    """The key was refused; the server did not answer as it should; what was typed can be no such thing; or
    nothing is wrong."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list of models."""

    model: str
    offer: ListedModel | None = None
    typed: bool = False
    """The name is the reader's own, and on no list."""


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


class SetupScreen(ListScreen[Choice | None, Source | Row]):
    """Gives back what was chosen, once it is written down; or None, and nothing has changed."""

    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(
        self,
        servers: KnownServers,
        *,
        current: tuple[str, str] = ("", ""),
        size: int = 0,
        step: Step = "provider",
        clock: Callable[[], float] = time.monotonic,
        by_itself: bool = False,
    ) -> None:
        """
        Args:
            current: (name of the source, model) in use; empty at a first start.
            size: tokens of the conversation as it is.
            step: the last one shows the models of the source in use, where there is one.
            by_itself: nobody asked for it. Enter does nothing for a second: it was meant for what was there
                before.
        """
        self._address = Field("address", "http://localhost:8000/v1")
        self._key = KeyField()
        self._model = Field("model", "type to find, or a name")
        super().__init__((), (self._address, self._key, self._model))
        self._servers, self.sources = servers, tuple(servers.sources)
        self._clock = clock
        self._spinner: Timer | None = None
        self._deaf_until = clock() + DEAF_SECONDS if by_itself else None
        self._current, self._held = current, size
        self.step: Step = "provider"
        self.first: Step = "provider"
        """The step that Esc leaves the screen from."""
        self.source: Source | None = None
        """The one that was taken."""
        self.asked: float | None = None
        """When the server was asked; None while it is not."""
        self.trouble: Trouble | None = None
        self.to_provider()
        pointed = self.pointed
        if step == "model" and current[0] == pointed.name != OFFLINE.name:
            self.to_key(pointed)
            self.step = self.first = "model"
            self.filter("")
        if servers.trouble:
            self.fail("note", servers.trouble)

    def on_mount(self) -> None:
        if self.step == "model" and self.source is not None:
            self._ask(self.source, None)

    def field(self) -> Field | None:
        key = self._key if self.has_key_field else None
        return {"address": self._address, "key": key, "model": self._model}.get(self.step)

    def field_place(self, height: int) -> tuple[int, int]:
        return _HEAD, _COUNT_CELLS if self.step == "key" else 2

    # --- the three steps and how far they are -----------------------------------------------------------

    @property
    def pointed(self) -> Source:
        """The source under the mark, in the first step; else the one that was taken."""
        each = self.row
        return each if isinstance(each, Source) else self.source or OTHER

    @property
    def has_key_field(self) -> bool:
        """A key is typed here, and not only used."""
        return self.step == "key" and self.source is not None and self.source.asks_key

    def _to(self, step: Step, rows: Sequence[Source | Row] = (), at: int = 0) -> None:
        self.step, self.asked, self.trouble = step, None, None
        self.rows, self.at = rows, at
        self.update()

    def to_provider(self) -> None:
        """The mark is at the source that was taken, else at the one in use, else at the first a key was found
        for."""
        names = [each.name for each in self.sources]
        wanted = self._current[0] if self.source is None else self.source.name
        if wanted in names and (wanted or self.source):
            at = names.index(wanted)
        else:
            with_key = (at for at, each in enumerate(self.sources) if each.key_in)
            at = next(with_key, 0) if self.source is None else len(names) - 1
        self.first = "provider"
        self._to("provider", self.sources, at)

    def to_address(self) -> None:
        self.source = OTHER
        self._to("address")

    def to_key(self, source: Source) -> None:
        """The second step, with nothing of another server's left over."""
        self._key.value = self._model.value = self.typed = ""
        self.source = source
        self.key: Secret | None = None
        self.offers: Sequence[ListedModel] = ()
        self.listed = False
        """Whether the server has said which models it has."""
        self.known: dict[str, ListedModel] = {}
        """What is known of models of this source without its server."""
        self.compacting: set[str] = set()
        """Models whose windows are too small for the conversation as it is."""
        self._to("key")

    def to_model(self, offers: Sequence[ListedModel] = (), *, listed: bool = True) -> None:
        """The last step, with what the server has to offer; `listed` is False where it did not say."""
        # The list comes when it comes: who has moved on a row meanwhile stays on it.
        marked = self.row if self.step == "model" and self.asked is not None else None
        self.offers, self.listed = sorted(offers, key=lambda offer: offer.id.lower()), listed
        self.compacting = {offer.id for offer in offers if self._servers.compacts_first(offer)}
        self._to("model")
        self.filter(self.typed)
        if isinstance(marked, Row):
            self.at = next(
                (at for at, each in enumerate(self._models) if each.model == marked.model), self.at
            )

    @property
    def _models(self) -> list[Row]:
        return [each for each in self.rows if isinstance(each, Row)]

    def filter(self, query: str) -> None:
        """List the models that hold every word of it, and last the words themselves as a name. Without a
        query also what no list names: the model in use, and, as long as there is no list, those known.

        The mark goes to the model of this very name, else the one in use, else the usual one. A name that is
        on no list is marked only where nothing else holds it."""
        self.typed, words, named = query, query.lower().split(), query.strip()
        source = self.source or OTHER
        in_use = self._current[1] if self._current[0] == source.name else ""
        rows = [Row(each.id, each) for each in self.offers if all(word in each.id.lower() for word in words)]
        there = {each.model for each in rows}
        if not words:
            unlisted = (source.default_model, *self.known) if not (self.listed and self.offers) else ()
            expected = [name for name in dict.fromkeys((in_use, *unlisted)) if name and name not in there]
            rows = [*(Row(name, self.known.get(name)) for name in expected), *rows]
        elif named not in there and len(words) == 1:
            rows.append(Row(named, typed=True))
        places = {each.model: at for at, each in enumerate(rows) if not each.typed}
        wanted = (name for name in (named, in_use, source.default_model) if name in places)
        self.rows, self.at, self.trouble = rows, places.get(next(wanted, ""), 0), None
        self.update()

    def choice(self) -> Choice | None:
        """What Enter takes in the last step."""
        if self.source is None or not isinstance(self.row, Row):
            return None
        return Choice(self.source, self.row.model, self.key)

    def writes_summaries(self, each: Row) -> bool:
        """Whether this model writes the summaries, although the session is held with another."""
        named = Choice(self.source or OTHER, each.model).named
        return bool(self._servers.summariser) and self._servers.summariser in (each.model, named)

    def fail(self, kind: Literal["refused", "unreachable", "wrong", "note"], sentence: str) -> None:
        """Nothing is asked any more, and this is why."""
        self.asked, self.trouble = None, Trouble(kind, sentence)
        self.update()

    # --- keys -------------------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        is_checking, in_models = self.asked is not None, self.step == "model"
        match command:
            case "on":  # a known model may be taken while its server is still asked
                return not is_checking or (in_models and self.row is not None)
            case "back" | "help":
                return True
            case "providers":
                return in_models and not is_checking
            case "summaries":
                return in_models and bool(self._current[0]) and self.row is not None
            case "anyway":
                return self.step == "key" and self.trouble is not None and self.trouble.kind == "unreachable"
            case "key":
                return self.step == "provider" and self.pointed.key_in == KEYS_FILE
            case _:
                return self.step in ("provider", "model")

    def word(self, key: ScreenKey[Any]) -> str:
        match key.id:
            case "on" if self.step == "model":
                return "select"
            case "on" if self.trouble is not None and self.trouble.kind == "unreachable":
                return "ask again"
            case "on" if self.has_key_field:
                return "check the key"
            case "back" if self.asked is not None:
                return "stop"
            case "back" if self.step == self.first:
                return "cancel" if self._current[0] else "skip"
            case _:
                return key.hint

    def act(self, command: str) -> None:
        match command:
            case "on" if self._deaf_until is not None and self._clock() < self._deaf_until:
                self.tell("This screen has only just appeared: press again to continue.")
            case "on":
                self._continue()
            case "back":
                self._back()
            case "providers":
                self.to_provider()
            case "anyway":
                self.to_model(listed=False)
            case "key":
                self.to_key(replace(self.pointed, key_in=""))
            case "summaries":
                self.run_worker(self._summarise(), group="ask", exclusive=True)

    def moved(self) -> None:
        self.trouble = None

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        self.action_list("on")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self._model and self.step == "model" and event.value != self.typed:
            self.filter(event.value)
        elif event.input is self.field() and event.input is not self._model:
            self.trouble = None
            self.update()

    def _continue(self) -> None:
        pointed, choice = self.pointed, self.choice()
        match self.step:
            case "provider" if pointed is OFFLINE:
                self._take(Choice(OFFLINE, OFFLINE.name))
            case "provider" if pointed is OTHER:
                self.to_address()
            case "provider":
                self._ask_or_type(pointed)
            case "address":
                try:
                    self._ask_or_type(self._servers.other(self._address.value))
                except FoldlineError as failure:
                    self.fail("wrong", str(failure))
            case "key":
                self._check_key(pointed)
            case "model" if choice is not None:
                self._take(choice)

    def _back(self) -> None:
        if self.asked is not None:
            self.workers.cancel_group(self, "ask")
            self.asked = None
            if self.step == "key" and not self.has_key_field:
                self.to_provider()
        elif self.step == self.first:
            self.dismiss(None)
        elif self.step == "model" and self.pointed.asks_key:
            self._to("key")
        elif self.step == "key" and self.pointed.name not in {each.name for each in self.sources}:
            self.to_address()
        else:
            self.to_provider()
        self.update()

    def _ask_or_type(self, source: Source) -> None:
        """A server that needs nothing typed is asked at once."""
        self.to_key(source)
        if not source.asks_key:
            self._ask(source, None)

    def _check_key(self, source: Source) -> None:
        """Ask the server with the key that stands in the field, where there is one."""
        key = Secret(cleaned_key(self._key.value)) if self.has_key_field else Secret("")
        if self.has_key_field and not len(key) and source.key == "needed":
            self.fail("wrong", f"{source.title} needs a key.")
        elif key.fault:
            self.fail("wrong", key.fault)
        else:
            self._ask(source, key if len(key) else None)

    # --- what is asked of servers and the disk ----------------------------------------------------------

    def _ask(self, source: Source, key: Secret | None) -> None:
        names = (self._current[1] if self._current[0] == source.name else "", source.default_model)
        # While the server is asked, and where it does not answer, this is what there is to choose from.
        self.known = {each.id: each for each in self._servers.known(source, names)}
        if self.step == "model":
            self.filter(self.typed)
        self.key, self.asked, self.trouble = key, self._clock(), None
        self.update()
        self.run_worker(self._asked(source, key), group="ask", exclusive=True)

    async def _asked(self, source: Source, key: Secret | None) -> None:
        try:
            self.to_model(await self._servers.models(source, key))
        except LLMError as failure:
            self._not_listed(source, key, failure)
        except FoldlineError as failure:
            self.fail("wrong", str(failure))

    def _not_listed(self, source: Source, key: Secret | None, failure: LLMError) -> None:
        """A server that was thought to want no key, or to take the kept one, and refuses, is given one."""
        sentence = str(failure)
        if failure.status not in (401, 403):
            self.fail("unreachable", sentence)
            return
        if source.from_environment:
            sentence += f" Correct {source.key_in} where it is set: it goes before any key here."
        elif self.step == "key":
            if failure.status == 401 and key is not None:
                # Of a key that was typed here, the client would say in which file to correct it.
                sentence = f"{source.host} does not take this key (401)."
            sentence += " Correct the key; Enter checks it again."
            self.source = replace(source, key="needed" if source.key == "needed" else "optional", key_in="")
        self.fail("refused", sentence)

    async def _summarise(self) -> None:
        """Let the marked model write the summaries; the one that does, no longer."""
        if isinstance(self.row, Row):
            wanted = None if self.writes_summaries(self.row) else self.choice()
            try:
                self.fail("note", await self._servers.summarise_with(wanted))
            except FoldlineError as failure:
                self.fail("wrong", str(failure))

    def _take(self, choice: Choice) -> None:
        self.run_worker(self._kept(choice), group="ask", exclusive=True)

    async def _kept(self, choice: Choice) -> None:
        try:
            await self._servers.keep(choice)
        except FoldlineError as failure:
            self.fail("wrong", str(failure))
        else:
            self.dismiss(choice)

    # --- drawing ----------------------------------------------------------------------------------------

    def update(self) -> None:
        if self.asked is not None and self._spinner is None and self.is_mounted:
            self._spinner = self.set_interval(1 / TICKS, self.box.update)
        elif self.asked is None and self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        super().update()

    def draw(self, width: int, height: int) -> list[Line]:
        inner, below = width - 2, 3 if height >= 20 else 2
        room = height - _HEAD - below - 2
        known = [[(" ", ""), *line] for spans in self._below() for line in wrap_spans(spans, width - 4)]
        body: list[Line | Rule] = [
            crop(self._steps(), inner),
            Rule(((self._heading(), "muted"),)),
            *filled(self._step_lines(inner, room), room),
            Rule(),
            *filled(known, below),
        ]
        title = (("Switch the model" if self._current[0] else "Choose a model", "text bold"),)
        *shown, aid = self.hints()
        foot = key_words(shown), key_words((aid,), "muted")
        return boxed(width, title, f"step {_NUMBERS[self.step]} of 3", body, *foot)

    def _steps(self) -> Line:
        """`1 Provider OpenAI ▸ 2 Key ▸ 3 Model`: what is done in its words, where one is in bold."""
        number, source = _NUMBERS[self.step], self.pointed
        key = f"in {source.key_in}" if source.key_in else "none needed" if source.key == "none" else ""
        if self.step == "model" and not key:
            key = "as typed" if self.key is not None else "none"
        spans: Line = [(" ", "")]
        for at, (name, done) in enumerate((("Provider", source.title), ("Key", key), ("Model", "")), start=1):
            spans += [("  ▸  ", "muted")] if at > 1 else []
            spans.append((f"{at} {name}", "text bold" if at == number else "muted"))
            if number > 1 and done:
                spans.append((f" {clean_line(done)}", "text" if at < number else "muted"))
        return spans

    def _heading(self) -> str:
        """What is asked for."""
        name = clean_line(self.pointed.title)
        match self.step:
            case "provider":
                return "Provider"
            case "address":
                return "Where is the server?"
            case "model":
                return "Model" if self.listed or self.asked is not None else "Name the model"
            case _ if not self.has_key_field:
                return f"Asking {name}"
            case _:
                return (
                    f"Your key for {name}"
                    if self.pointed.key == "needed"
                    else f"A key for {name}, if it wants one"
                )

    def _step_lines(self, width: int, room: int) -> list[Line]:
        """The list of this step; or a field, and what becomes of what is typed there."""
        self.seen.clear()
        prompt: Line = [(" ❯ ", "accent")]
        if self.step == "provider":
            return self.row_lines(room, _HEAD, lambda each, marked: self._row_line(each, marked, width))
        if self.step == "model":
            place = f"{self.at + 1:,} of {len(self.rows):,}" if len(self.rows) > room - 2 else ""
            heads = row([piece(place, "muted")], [piece(_figures(None, width), "muted")], width)
            rows = self.row_lines(
                max(room - 2, 1),
                _HEAD + 2,
                lambda each, marked: self._row_line(each, marked, width),
                [[("  " + self._no_models(), "muted")]],
            )
            return [prompt, heads if self.rows else [], *rows]
        source = self.pointed
        explained = [
            "The address its API begins with, such as http://localhost:8000/v1: of any server that speaks "
            "OpenAI's chat completions."
        ]
        if self.step == "key":
            kept = f"It is kept in {KEYS_FILE}, which only you can read, and sent to {source.host} alone."
            before = (
                f"{source.key_env} in the environment goes before it, when set." if source.key_env else ""
            )
            page = f"You get one at {source.key_page}." if source.key_page else ""
            length = len(cleaned_key(self._key.value))
            count = numbers.many(length, "character") if length else ""
            prompt = [*crop(prompt, max(width - _COUNT_CELLS, 0)), (f"{count:>{_COUNT_CELLS - 2}}", "muted")]
            explained = [kept, before, page]
        if self.step == "key" and not self.has_key_field:
            return []
        texts = [wrap_spans([(clean_line(each), "muted")], width - 4) for each in explained if each]
        return [prompt, [], *([("  ", ""), *line] for text in texts for line in text)]

    def _row_line(self, each: Source | Row, marked: bool, width: int) -> Line:
        """A provider, or a model of one."""
        name = clean_line(each.title if isinstance(each, Source) else each.model)
        if isinstance(each, Source):
            column = max(cell_len(clean_line(source.title)) for source in self.sources if source is not OTHER)
            place = "built in: no key, no network" if each is OFFLINE else clean_line(each.host)
            notes = [(place, "muted")]
            known = "in use" if each.name and each.name == self._current[0] else ""
            end = piece(known or (f"key in {each.key_in}" if each.key_in else ""), "live")
        else:
            column, name = 0, f"use “{name}” as it stands" if each.typed else name
            notes = self._notes(each)
            end = piece(_figures(each, width), "text" if marked else "muted")
        left = [
            piece("▶" if marked else " ", "accent", gap=0),
            Piece(
                ((name, f"text{' reverse' if marked else ''}"),),
                gap=0,
                cut="left" if "/" in name else "right",
                least=None if isinstance(each, Source) else 8,
            ),
            piece(" " * (column - cell_len(name)), gap=0),
            *(piece(text, style, gap=2, rank=1 if style == "muted" else 0) for text, style in notes if text),
        ]
        return row(left, [end], width + 1)[1:]

    def _notes(self, each: Row) -> Line:
        """What is said of a model beside its name."""
        is_used = (self.pointed.name, each.model) == self._current
        found = (
            (is_used, "in use", "live"),
            (not is_used and each.model == self.pointed.default_model, "default", "muted"),
            (self.writes_summaries(each), "writes summaries", "live"),
            (each.model in self.compacting, "compacts first", "altered"),
        )
        return [(text, style) for holds, text, style in found if holds]

    def _no_models(self) -> str:
        """Why the list of models is empty."""
        if self.typed.strip() or self.asked is not None:
            return "" if self.asked is not None else "No model's name holds all of these words."
        why = (
            "It says of no model that it has it"
            if self.listed
            else "It could not be asked which models it has"
        )
        return f"{why}: type a name."

    def _below(self) -> list[Line]:
        """Progress, or what went wrong; else what Enter would do at the mark."""
        if self.asked is not None:
            spin = SPINNER[int(self._clock() * TICKS) % len(SPINNER)]
            since = f" · {numbers.elapsed(self._clock() - self.asked)}"
            asking = f"Asking {clean_line(self.pointed.host)} for its models"
            return [[(f"{spin} ", "accent"), (asking, "text"), (since, "muted")]]
        if self.trouble is not None:
            signs = {"unreachable": ("! ", "altered"), "note": ("", "text")}
            return [
                [signs.get(self.trouble.kind, ("✗ ", "alert")), (clean_line(self.trouble.sentence), "text")]
            ]
        if isinstance(self.row, Row):
            return [*self._about_model(self.row), [(self._kept_where(), "muted")]]
        about = (
            "The check asks the server which models it has, and costs nothing." if self.has_key_field else ""
        )
        return [[(_about(self.row) if isinstance(self.row, Source) else about, "muted")]]

    def _about_model(self, each: Row) -> list[Line]:
        offer = each.offer
        if offer is None:
            return [[("What its server does not say of it is guessed from its name.", "muted")]]
        if each.model in self.compacting and offer.window:
            window, held = numbers.short_tokens(offer.window), numbers.tokens(self._held)
            sentence = f"Its window of {window} is too small for the {held} in use: they are compacted first."
            return [[("! ", "altered"), (sentence, "text")]]
        parts = []
        if offer.max_output:
            parts.append(f"answers of up to {numbers.short_tokens(offer.max_output)} tokens")
        if offer.price is not None and offer.price.cached != offer.price.input:
            parts.append(f"input from the cache {_price(offer.price.cached)} per million")
        if offer.pictures is not None:
            parts.append("takes pictures" if offer.pictures else "takes no pictures")
        sentence = ", ".join(parts)
        return [[(f"{sentence[:1].upper()}{sentence[1:]}.", "muted")]] if sentence else []

    def _kept_where(self) -> str:
        """For which sessions a choice holds."""
        if not self.pointed.named:
            return "In this session: the environment decides for new ones."
        if self._servers.overruled_by:
            return f"Kept in config.toml, before which {self._servers.overruled_by} goes in new sessions."
        return "In this session and in new ones; kept in config.toml."


def _figures(each: Row | None, width: int) -> str:
    """Window and prices of a model in columns, as far as they are known; of no row their names."""
    window, first, second = "window", "$/M in", "$/M out"
    if each is not None:
        offer = each.offer
        window = "" if offer is None else numbers.short_tokens(offer.window) if offer.window else "?"
        price = offer.price if offer is not None else None
        first, second = (_price(price.input), _price(price.output)) if price is not None else ("", "")
    return f"{window:>8}" + (f"{first:>9}{second:>9}" if width >= _PRICES_FROM else "")


def _price(dollars: float) -> str:
    """USD per million tokens, in a column that says so."""
    return "free" if dollars == 0 else numbers.price(dollars)


def _about(source: Source) -> str:
    """What Enter would do with it."""
    if source is OFFLINE:
        return "Answers at once, reads and edits files by simple rules, cannot think: to try Foldline out."
    if source is OTHER:
        return "SGLang, LiteLLM, a company's gateway: you type its address, and a key if it wants one."
    url = clean_line(source.url)
    if source.asks_key:
        return f"At {url}. Enter asks for your key; {source.key_env or 'the key file'} holds none."
    if source.key_in:
        return f"At {url}. Enter checks the key in {source.key_in} and shows the models."
    return f"At {url}, without a key. Enter asks it for its models."
