"""The choice of a model: first a provider, then its key if it needs one, then a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from foldline.agent.settings.api_keys import KEYS_FILE
from foldline.llm import LLMError
from foldline.llm.listing import ListedModel
from foldline.protocol import FoldlineError
from foldline.text import numbers
from foldline.tui.lists.line import LineDialog
from foldline.tui.lists.picker import Picker, PickerItem
from foldline.tui.lists.screen import Field
from foldline.tui.overlays.dialogs import result_of
from foldline.tui.overlays.setup_servers import (
    OFFLINE,
    OTHER,
    KnownServers,
    ModelServer,
    Secret,
    SetupResult,
    cleaned_key,
)
from foldline.tui.session_window import SessionWindow

KEY_PLACEHOLDER: Final = "paste or type your key"
NEEDS_KEY: Final = "{server} needs a key."
TYPE_MODEL: Final = "Enter a model name to continue anyway."
KEY_OF_ENVIRONMENT: Final = (
    "Correct {variable} in the environment: it overrides a key entered here."
)
KEY_REFUSED: Final = "{host} does not accept this key (401)."
CORRECT_KEY: Final = "Correct the key, and press Enter to check it again."
ADDRESS: Final = "Server address"
KEY: Final = "Your key for {server}"
OPTIONAL_KEY: Final = "Key for {server}, if it needs one"
ADDRESS_HELP: Final = (
    "The base URL of a server that offers OpenAI's chat completions API."
)
KEY_HELP: Final = (
    "The key is saved in {file}, which only you can read, and is sent only to {host}."
)
KEY_PAGE: Final = "Get a key at {page}."
NO_MODELS: Final = "No models found. Enter a model name."
ASKING: Final = "Requesting the list of models from {host} …"
MODEL_HINT: Final = "Used for this session and new ones. Saved to config.toml."
ENVIRONMENT_HINT: Final = (
    "Used for this session. New sessions use the model set in the environment."
)
CHECK_HINT: Final = (
    "Enter checks the key with a request for the list of models. It costs nothing."
)
OFFLINE_HINT: Final = "Lets you try Foldline without a server. It answers and edits files by simple rules."
OTHER_HINT: Final = "For SGLang, LiteLLM or a company gateway. Enter its address, and a key if it needs one."
KEY_NEXT: Final = "Server: {url}. Press Enter to enter your key."
MODELS_NEXT: Final = "Server: {url}. Press Enter to list its models."
SWITCH_MODEL: Final = "Switch the model"
CHOOSE_MODEL: Final = "Choose a model"
OTHER_PROVIDERS: Final = "Other providers …"
PRICE: Final = "Dollars per million tokens: {input} in, {output} out."


class KeyField(Field):
    """A password field whose text cannot be copied."""

    def __init__(self) -> None:
        super().__init__("key", KEY_PLACEHOLDER, password=True)

    def pasted(self, text: str) -> str:
        return cleaned_key(text)

    def action_copy(self) -> None:
        """Do nothing, so that the key is not copied."""

    def action_cut(self) -> None:
        self.delete_selection()


class CheckedKey(NamedTuple):
    """A key that the server did not reject."""

    key: Secret | None
    """The typed key, if there is one."""
    models: Sequence[ListedModel]
    failure: str
    """Why the models could not be requested; empty if they could."""


class ModelPicker(Picker):
    """The models of a server. The choice is saved before the picker closes.

    If the models were not requested yet, they are requested while the known models are listed.
    """

    def __init__(
        self, setup: "ModelDialog", source: ModelServer, checked: CheckedKey | None
    ) -> None:
        models = setup.known(source) if checked is None else checked.models
        title = setup.title(source.title)
        super().__init__(
            title,
            setup.model_items(source, models),
            marked=setup.model_in_use(source) or source.default_model,
            on_take=lambda model: self.run_worker(self._save(model), exclusive=True),
            empty=NO_MODELS,
            takes_typed=True,
            hint=MODEL_HINT if source.named else ENVIRONMENT_HINT,
        )
        self._setup = setup
        self._source = source
        self._checked = checked
        self.choice: SetupResult | None = None
        """The saved choice."""
        self.refusal = ""
        """Why the server rejected the stored key, if it did."""

    def on_mount(self) -> None:
        if self._checked is None:
            self.say(ASKING.format(host=self._source.host))
            self.run_worker(self._request())
        elif self._checked.failure:
            self.say(self._checked.failure)

    async def _request(self) -> None:
        source = self._source
        try:
            models = await self._setup.servers.models(source, None)
        except LLMError as failure:
            if failure.status not in (401, 403):
                self.say(f"! {failure} {TYPE_MODEL}")
            elif source.from_environment:
                correct = KEY_OF_ENVIRONMENT.format(variable=source.key_in)
                self.say(f"✗ {failure} {correct}")
            else:
                self.refusal = f"{failure} {CORRECT_KEY}"
                self.dismiss(None)
        except FoldlineError as failure:
            self.say(f"✗ {failure}")
        else:
            self.say("")
            self.offer(self._setup.model_items(source, models))

    async def _save(self, model: str) -> None:
        if model != OTHER_PROVIDERS:
            key = None if self._checked is None else self._checked.key
            choice = SetupResult(self._source, model, key)
            try:
                await self._setup.servers.keep(choice)
            except FoldlineError as failure:
                self.say(f"✗ {failure}")
                return
            self.choice = choice
        self.dismiss(model)


@dataclass(frozen=True, slots=True)
class ModelDialog:
    """Lets the user choose a model, and saves the choice."""

    chat: SessionWindow
    servers: KnownServers
    current: tuple[str, str] = ("", "")
    """Server name and model in use. Both are empty at the first start."""
    deaf_until: float = 0.0
    """Time until which Enter is ignored, if the dialog opens without a key press."""

    async def choose(self, *, at_models: bool = False) -> SetupResult | None:
        """Let the user choose, and return the choice. None if the user cancelled.

        With `at_models`, begin with the models of the server in use.
        """
        marked, note = self._first_marked(), self.servers.trouble
        source = self._source(self.current[0])
        if at_models and source is not None and source is not OFFLINE:
            picker = ModelPicker(self, source, None)
            answer = await result_of(self.chat, picker)
            if picker.choice is not None:
                return picker.choice
            if answer is None and not picker.refusal:
                return None
            note = picker.refusal
        while True:
            picked = await result_of(self.chat, self._server_picker(marked, note))
            if picked is None:
                return None
            marked = picked
            source = self._source(picked) or OTHER
            choice, note = await self._use(source)
            if choice is not None:
                return choice

    def title(self, name: str) -> str:
        return f"{SWITCH_MODEL if self.current[0] else CHOOSE_MODEL} ▸ {name}"

    # --- servers ----------------------------------------------------------------------------------------

    def _source(self, name: str) -> ModelServer | None:
        return next(
            (source for source in self.servers.sources if name and source.name == name),
            None,
        )

    def _first_marked(self) -> str:
        """Return the name of the server in use, or else of the first one with a key."""
        if self._source(self.current[0]) is not None:
            return self.current[0]
        with_key = (source.name for source in self.servers.sources if source.key_in)
        return next(with_key, OFFLINE.name)

    def _server_picker(self, marked: str, note: str) -> Picker:
        picker = Picker(
            self.title("Provider"),
            map(self._server_item, self.servers.sources),
            marked=marked,
            take_word="continue",
            hint=note,
            deaf_until=self.deaf_until,
        )
        picker.clock = self.chat.clock
        return picker

    def _server_item(self, source: ModelServer) -> PickerItem:
        detail = KEY_NEXT if source.asks_key else MODELS_NEXT
        if source is OFFLINE:
            detail = OFFLINE_HINT
        elif source is OTHER:
            detail = OTHER_HINT
        state = f"key in {source.key_in}" if source.key_in else ""
        if source.name and source.name == self.current[0]:
            state = "in use"
        return PickerItem(
            source.name,
            source.title,
            source.host,
            state,
            detail.format(url=source.url),
        )

    async def _use(self, source: ModelServer) -> tuple[SetupResult | None, str]:
        """Let the user choose a model of this server. Also returns a message for the list of servers."""
        if source is OFFLINE:
            choice = SetupResult(OFFLINE, OFFLINE.name)
            try:
                await self.servers.keep(choice)
            except FoldlineError as failure:
                return None, f"✗ {failure}"
            return choice, ""
        if source is OTHER:
            field = Field("address", "http://localhost:8000/v1")
            dialog = LineDialog(
                self.title(ADDRESS), ADDRESS_HELP, self._other, field=field
            )
            other = await result_of(self.chat, dialog)
            if other is None:
                return None, ""
            source = other
        return await self._choose_model(source), ""

    async def _other(self, address: str) -> ModelServer:
        return self.servers.other(address)

    # --- keys and models --------------------------------------------------------------------------------

    async def _choose_model(self, source: ModelServer) -> SetupResult | None:
        """Ask for the key if it is needed, and let the user choose a model."""
        fault, typed = "", ""
        while True:
            checked = None
            if source.asks_key:
                checked = await result_of(
                    self.chat, self._key_dialog(source, typed, fault)
                )
                if checked is None:
                    return None
                typed = "" if checked.key is None else checked.key.reveal()
            picker = ModelPicker(self, source, checked)
            await result_of(self.chat, picker)
            fault = picker.refusal
            if picker.choice is not None or not (typed or fault):
                return picker.choice
            if fault:
                source = replace(source, key_in="")
                if source.key == "none":
                    source = replace(source, key="optional")

    def _key_dialog(
        self, source: ModelServer, typed: str, fault: str
    ) -> LineDialog[CheckedKey]:
        async def check(text: str) -> CheckedKey:
            return await self._check_key(source, Secret(cleaned_key(text)))

        title = KEY if source.key == "needed" else OPTIONAL_KEY
        notes = [KEY_HELP.format(file=KEYS_FILE, host=source.host)]
        if source.key_page:
            notes.append(KEY_PAGE.format(page=source.key_page))
        return LineDialog(
            self.title(title.format(server=source.title)),
            "\n".join((*notes, CHECK_HINT)),
            check,
            text=typed,
            field=KeyField(),
            working=ASKING.format(host=source.host),
            fault=fault,
        )

    async def _check_key(self, source: ModelServer, key: Secret) -> CheckedKey:
        """Request the models with a typed key.

        Raises:
            FoldlineError: the key is missing or invalid, or the server rejected it.
        """
        if not len(key) and source.key == "needed":
            raise FoldlineError(NEEDS_KEY, server=source.title)
        if key.fault:
            raise FoldlineError(key.fault)
        typed_key = key if len(key) else None
        try:
            models = await self.servers.models(source, typed_key)
            return CheckedKey(typed_key, models, "")
        except LLMError as failure:
            if failure.status not in (401, 403):
                message = f"! {failure} {TYPE_MODEL}"
                return CheckedKey(typed_key, self.known(source), message)
            sentence = str(failure)
            if failure.status == 401 and typed_key is not None:
                # The client's error message names a file, but this key was typed here.
                sentence = KEY_REFUSED.format(host=source.host)
            raise FoldlineError(f"{sentence} {CORRECT_KEY}") from None

    def known(self, source: ModelServer) -> Sequence[ListedModel]:
        """Return the models that are known without a request."""
        names = (self.model_in_use(source), source.default_model)
        return self.servers.known(source, names)

    def model_in_use(self, source: ModelServer) -> str:
        """Return the current model, if it is on this server. Otherwise an empty string."""
        server, model = self.current
        return model if server == source.name else ""

    def model_items(
        self, source: ModelServer, models: Sequence[ListedModel]
    ) -> Iterator[PickerItem]:
        """Yield the models by name, and a way to the other providers."""
        in_use = self.model_in_use(source)
        listed = {model.id: model for model in models}
        if in_use:
            listed.setdefault(in_use, ListedModel(in_use))
        for model in sorted(listed.values(), key=lambda model: model.id.lower()):
            states = []
            if model.id == in_use:
                states.append("in use")
            elif model.id == source.default_model:
                states.append("default")
            if self.servers.compacts_first(model):
                states.append("compacts first")
            window = numbers.short_tokens(model.window) if model.window else "?"
            price = ""
            if model.price is not None:
                price = PRICE.format(
                    input=numbers.price(model.price.input),
                    output=numbers.price(model.price.output),
                )
            yield PickerItem(model.id, model.id, ", ".join(states), window, price)
        if self.current[0]:
            yield PickerItem(OTHER_PROVIDERS, OTHER_PROVIDERS)
