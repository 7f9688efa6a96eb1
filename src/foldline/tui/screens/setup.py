"""Setup: provider, key and model in three steps. What is slow is asked beside the event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.timer import Timer
from textual.widgets import Input

from foldline.agent.api_keys import KEYS_FILE, key_of, keys_file, save_key
from foldline.agent.layers import config_file
from foldline.agent.model_choice import save_choice, server_of_environment
from foldline.agent.settings import DEFAULT, Settings
from foldline.agent.settings_edit import save_server, server_at
from foldline.history.paths import with_tilde
from foldline.llm import LLM, LLMError, providers
from foldline.llm.catalog import completed, list_models, require_sdk
from foldline.llm.client import preload
from foldline.llm.listing import ListedModel
from foldline.llm.providers import PROVIDERS, Provider, is_local
from foldline.llm.responses import RESPONSES
from foldline.protocol import FoldlineError
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, table
from foldline.tui.lists.screen import Field, ListScreen
from foldline.tui.screens import setup_view as view
from foldline.tui.screens.setup_state import (
    OFFLINE,
    OTHER,
    Choice,
    Row,
    Secret,
    SetupState,
    Source,
    Trouble,
    cleaned_key,
)
from foldline.tui.widgets.lines import Line, Rule, boxed, filled, key_words
from foldline.tui.widgets.question import DEAF_SECONDS
from foldline.tui.widgets.status import TICKS

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

_HEAD: Final = 3
"""Lines above the step's own: edge, steps, rule."""
_ROOMY: Final = 16
"""Lines of the box from which a field has an explanation."""
_REFUSED: Final = (401, 403)
"""Answers of a server that does not take the key."""


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
        state: SetupState,
        servers: "KnownServers",
        *,
        clock: Callable[[], float] = time.monotonic,
        by_itself: bool = False,
    ) -> None:
        """`by_itself`: nobody asked for it. Enter does nothing for a second: it was meant for what was there
        before."""
        self._address = Field("address", "http://localhost:8000/v1")
        self._key = KeyField()
        self._model = Field("model", "type to find, or a name")
        super().__init__((), (self._address, self._key, self._model))
        self._servers = servers
        self._clock = clock
        self._spinner: Timer | None = None
        self._deaf_until = clock() + DEAF_SECONDS if by_itself else None
        self.state = state
        self._show(state)

    def field(self) -> Field | None:
        match self.state.step:
            case "address":
                return self._address
            case "key" if self.state.has_key_field:
                return self._key
            case "model":
                return self._model
            case _:
                return None

    def field_place(self, height: int) -> tuple[int, int]:
        line = _HEAD if self.state.step == "model" or height < _ROOMY else _HEAD + 1
        return line, view.COUNT_CELLS if self.state.step == "key" else 2

    def on_mount(self) -> None:
        for source in self.state.sources:
            if source.local:
                self.run_worker(self._look_for(source), group="look")
        if self.state.step == "model" and self.state.source is not None:
            self._ask(self.state.source, None)

    def tell(self, words: str) -> None:
        """Say something where the step's own words stand, until the next key."""
        self._show(replace(self.state, told=words))

    def _show(self, state: SetupState) -> None:
        self.state, self.rows, self.at = state, state.listed_rows, state.mark
        if state.is_checking and self._spinner is None:
            self._spinner = self.set_interval(1 / TICKS, self.box.update)
        elif not state.is_checking and self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        self.update()

    def moved(self) -> None:
        self._show(replace(self.state.marking(self.at), told=""))

    def draw(self, width: int, height: int) -> list[Line]:
        state, inner, below = self.state, width - 2, 3 if height >= 20 else 2
        room = height - _HEAD - below - 2
        known = view.below(state, width - 4, below, self._clock())
        body: list[Line | Rule] = [
            view.steps(state, inner),
            Rule(((view.heading(state), "muted"),)),
            *filled(self._step_lines(inner, room, roomy=height >= _ROOMY), room),
            Rule(),
            *filled([[(" ", ""), *line] for line in known], below),
        ]
        title = (("Switch the model" if state.current[0] else "Choose a model", "text bold"),)
        *shown, aid = self.hints()
        foot = key_words(shown), key_words((aid,), "muted")
        return boxed(width, title, f"step {state.number} of 3", body, *foot)

    def _step_lines(self, width: int, room: int, *, roomy: bool) -> list[Line]:
        state = self.state
        self.seen.clear()
        if state.step in ("address", "key"):
            return view.field_lines(state, width, roomy=roomy)
        head: list[Line] = []
        if state.step == "model":
            shown = max(room - 2, 1)
            head = [[(" ❯ ", "accent")], view.columns_line(state, width, shown) if state.rows else []]
        top, none = 1 + 2 + len(head), [[("  " + view.no_models(state), "muted")]]
        draw = partial(self._row_line, width)
        return [*head, *self.row_lines(max(room - len(head), 1), top, draw, none)]

    def _row_line(self, width: int, each: Source | Row, marked: bool) -> Line:
        return view.row_line(each, marked, self.state, width)

    def word(self, key: ScreenKey[Any]) -> str:
        state = self.state
        match key.id:
            case "on" if state.step == "model":
                return "select"
            case "on" if state.trouble is not None and state.trouble.kind == "unreachable":
                return "ask again"
            case "on" if state.has_key_field:
                return "check the key"
            case "back" if state.is_checking:
                return "stop"
            case "back" if state.step == state.first:
                return "cancel" if state.current[0] else "skip"
            case _:
                return key.hint

    # --- from step to step ------------------------------------------------------------------------------

    def works_now(self, command: str) -> bool:
        state, pointed = self.state, self.state.pointed
        in_models = state.step == "model"
        match command:
            case "on":  # a known model may be taken while its server is still asked
                return not state.is_checking or (in_models and state.row is not None)
            case "back" | "help":
                return True
            case "providers":
                return in_models and not state.is_checking
            case "summaries":
                return in_models and bool(state.current[0]) and state.row is not None
            case "anyway":
                return state.may_go_on
            case "key":
                kept = pointed.key != "none" and pointed.key_in and not pointed.from_environment
                return state.step == "provider" and bool(kept)
            case _:
                return state.step in ("provider", "model")

    def act(self, command: str) -> None:
        self.state = state = replace(self.state, told="")
        match command:
            case "on" if self._deaf_until is not None and self._clock() < self._deaf_until:
                self.tell("This screen has only just appeared: press again to continue.")
            case "on":
                self._continue()
            case "back":
                self._back()
            case "providers":
                self._show(state.to_provider())
            case "anyway":
                self._show(state.to_model(listed=False))
            case "key":
                self._to_key(replace(state.pointed, key_in=""))
            case "summaries":
                self.run_worker(self._summarise(), group="ask", exclusive=True)

    @on(Field.Done)
    def _entered(self, event: Field.Done) -> None:
        event.stop()
        self.action_list("on")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        state = replace(self.state, told="")
        if event.input is self._key and state.step == "key":
            self._show(replace(state, key_length=len(cleaned_key(event.value)), trouble=None))
        elif event.input is self._model and state.step == "model" and event.value != state.query:
            self._show(state.filtered(event.value))
        elif event.input is self._address and state.step == "address":
            self._show(replace(state, trouble=None))

    def _continue(self) -> None:
        state = self.state
        match state.step:
            case "provider" if state.pointed is OFFLINE:
                self._take(Choice(OFFLINE, OFFLINE.name))
            case "provider" if state.pointed is OTHER:
                self._show(state.to_address())
            case "provider":
                self._to_key(state.pointed)
            case "address":
                self._to_other(self._address.value)
            case "key" if state.source is not None:
                self._check_key(state.source)
            case "model" if (choice := state.choice()) is not None:
                self._take(choice)

    def _back(self) -> None:
        state, source = self.state, self.state.source
        names = {each.name for each in state.sources}
        if state.is_checking:
            self.workers.cancel_group(self, "ask")
            typed = state.step != "key" or state.has_key_field
            self._show(state.failed(None) if typed else state.to_provider())
        elif state.step == state.first:
            self.dismiss(None)
        elif state.step == "model" and source is not None and source.asks_key:
            self._show(replace(state, step="key", trouble=None))
        elif state.step == "key" and source is not None and source.name not in names:
            self._show(state.to_address())
        else:
            self._show(state.to_provider())

    def _to_key(self, source: Source) -> None:
        """The second step. A server that needs nothing typed is asked at once."""
        self._key.value = self._model.value = ""
        self._show(self.state.to_key(source))
        if not source.asks_key:
            self._ask(source, None)

    def _to_other(self, address: str) -> None:
        try:
            source = self._servers.other(address)
        except FoldlineError as failure:
            self._fail(failure)
        else:
            self._to_key(source)

    def _fail(self, failure: FoldlineError | str) -> None:
        self._show(self.state.failed(Trouble("wrong", str(failure))))

    def _check_key(self, source: Source) -> None:
        """Ask the server with the key that stands in the field, where there is one."""
        key = Secret(cleaned_key(self._key.value)) if self.state.has_key_field else None
        if key is not None and len(key) == 0:
            if source.key == "needed":
                self._fail(f"{source.title} needs a key.")
                return
            key = None
        if key is not None and key.fault:
            self._fail(key.fault)
            return
        self._ask(source, key)

    # --- what is asked of servers and the disk ----------------------------------------------------------

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
        except LLMError as failure:
            trouble = Trouble("unreachable", str(failure), failure.status)
            if failure.status in _REFUSED:
                trouble = replace(trouble, kind="refused")
            self._show(_failed(self.state, trouble))
        except FoldlineError as failure:
            self._fail(failure)
        else:
            compacting = {offer.id for offer in offers if self._servers.compacts_first(offer)}
            self._show(self.state.to_model(offers, compacting=compacting))

    async def _look_for(self, source: Source) -> None:
        if await self._servers.answers(source):
            self._show(replace(self.state, running=self.state.running | {source.name}))

    async def _summarise(self) -> None:
        """Let the marked model write the summaries; the one that does, no longer."""
        state, choice = self.state, self.state.choice()
        if choice is None or state.row is None:
            return
        wanted = None if state.writes_summaries(state.row) else choice
        try:
            told = await self._servers.summarise_with(wanted)
        except FoldlineError as failure:
            self._fail(failure)
        else:
            self._show(replace(self.state, summariser=self._servers.summariser, told=told))

    def _take(self, choice: Choice) -> None:
        self.run_worker(self._kept(choice), group="ask", exclusive=True)

    async def _kept(self, choice: Choice) -> None:
        try:
            await self._servers.keep(choice)
        except FoldlineError as failure:
            self._fail(failure)
        else:
            self.dismiss(choice)


def _failed(state: SetupState, trouble: Trouble) -> SetupState:
    """A server that was thought to want no key, or to take the kept one, and refuses, is given one."""
    source = state.source
    asks = source is not None and not source.from_environment and state.step == "key"
    if trouble.kind == "refused" and source is not None and asks:
        wants = "optional" if source.key == "none" else source.key
        state = replace(state, source=replace(source, key=wants, key_in=""))
    return state.failed(trouble)


class KnownServers:
    """Everybody who can be asked from here, and where a choice is kept. What fails raises FoldlineError."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        compacts_first: Callable[[ListedModel], bool],
        summarise_with: Callable[[str | None], Awaitable[str]] | None = None,
    ) -> None:
        """
        Args:
            compacts_first: whether the conversation has to be compacted before this model can go on with it.
            summarise_with: lets a model write the summaries from now on, by its name in settings.
        """
        self._environ = environ
        self.compacts_first = compacts_first
        self._summarise_with = summarise_with
        self.summariser = settings.compaction.model
        """The model that writes the summaries, as settings name it; empty: the session's own."""
        own = settings.own_providers()
        self._providers: dict[str, Provider] = {**PROVIDERS, **own}
        self._own = [provider for name, provider in own.items() if name not in PROVIDERS]
        self.of_environment: Provider | None = None
        """The server that OPENAI_BASE_URL names, where that is none of the others; in place of the preset
        whose other address it is."""
        self.overruled_by = ""
        """What goes before the settings of the user in new sessions; empty where nothing does."""
        for key in ("provider", "model"):
            origin = settings.origin(key)
            if origin not in (DEFAULT, str(config_file(environ))):
                self.overruled_by = with_tilde(origin)
        self.trouble = ""
        """Why the file of keys cannot be used; empty where it can."""
        if url := environ.get("OPENAI_BASE_URL", "").strip():
            server = server_of_environment(url)
            if not any(provider.base_url == server.base_url for provider in self._providers.values()):
                self.of_environment = self._providers[server.name] = server
                self.overruled_by = self.overruled_by or "OPENAI_BASE_URL"

    @property
    def sources(self) -> Sequence[Source]:
        """What the first step lists, in this order: the built-in one, what the environment and the user's own
        settings name, the table of providers, and a server still to be named."""
        server = self.of_environment
        first = [server] if server is not None and server.name not in PROVIDERS else []
        presets = [self._providers[name] for name in PROVIDERS]
        return (OFFLINE, *map(self._source, (*first, *self._own, *presets)), OTHER)

    @property
    def kept_in(self) -> tuple[str, str]:
        """The files of keys and of settings, as people are told of them."""
        return with_tilde(str(keys_file(self._environ))), with_tilde(str(config_file(self._environ)))

    def in_use(self, llm: LLM) -> tuple[str, str]:
        """(name of the source, model) of the model a session is held with."""
        info = llm.info
        if info.provider == OFFLINE.name:
            return OFFLINE.name, info.id
        there = [
            each.name for each in self.sources if each.host == info.provider and each.name in self._providers
        ]
        responses = [name for name in there if self._providers[name].api == "responses"]
        named = responses if llm.dialect == RESPONSES else [name for name in there if name not in responses]
        return next(iter((*named, *there)), ""), info.id

    async def answers(self, source: Source) -> bool:
        """Whether a local server is there right now; asked for a moment only, never an error."""
        return await providers.answers(source.url)

    async def models(self, source: Source, key: Secret | None) -> Sequence[ListedModel]:
        """What a server has to offer; also the cheap call that checks a key."""
        provider = self._providers[source.name]
        require_sdk(provider)
        await asyncio.to_thread(preload, provider.api)
        return await list_models(provider, key.reveal() if key else key_of(provider, self._environ).value)

    def known(self, source: Source, names: Sequence[str]) -> Sequence[ListedModel]:
        """What is known of these models of a server, and of those set for it, before it is asked."""
        provider = self._providers.get(source.name)
        if provider is None:
            return ()
        there = dict.fromkeys(name for name in (*names, *provider.models) if name)
        return [completed(ListedModel(name), provider) for name in there]

    async def summarise_with(self, choice: Choice | None) -> str:
        """Let this model write the summaries, or the session's own again; what became of it."""
        if self._summarise_with is None:
            raise FoldlineError("There is no session yet whose summaries it could write.")
        if choice is not None and choice.key is not None:
            await asyncio.to_thread(self._keep_key, choice)
        told = await self._summarise_with(choice.named if choice is not None else None)
        self.summariser = choice.named if choice is not None else ""
        return told

    def other(self, address: str) -> Source:
        """The server at an address somebody typed."""
        provider = server_at(address, self._providers)
        self._providers[provider.name] = provider
        source = self._source(provider)
        return source if source.key != "none" else replace(source, key="optional")

    async def keep(self, choice: Choice) -> None:
        """Write down the key that was typed, and the choice."""
        await asyncio.to_thread(self._keep, choice)

    def _keep(self, choice: Choice) -> None:
        if choice.source is OFFLINE:
            save_choice(self._environ, None, "")
            return
        provider = self._providers[choice.source.name]
        self._keep_key(choice)
        if provider is self.of_environment:
            return  # It is the environment's word who is asked: a file could only contradict it.
        if provider.name not in PROVIDERS and provider not in self._own:
            save_server(self._environ, provider)
        save_choice(self._environ, provider, choice.model)

    def _keep_key(self, choice: Choice) -> None:
        if choice.key is not None:
            save_key(self._environ, self._providers[choice.source.name], choice.key.reveal())

    def _source(self, provider: Provider) -> Source:
        try:
            origin = key_of(provider, self._environ).origin
        except FoldlineError as failure:
            origin, self.trouble = "", str(failure)
        local = is_local(provider.base_url)
        return Source(
            provider.name,
            provider.title,
            provider.base_url,
            key_env=provider.key_env,
            key_in=KEYS_FILE if origin.endswith(KEYS_FILE) else origin,
            default_model=provider.default_model,
            key_page=provider.key_page,
            key="needed" if provider.key_env else "none" if local and not origin else "optional",
            local=local,
            named=provider is not self.of_environment,
        )
