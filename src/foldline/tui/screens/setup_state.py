"""What Setup knows: where models come from, keys, the three steps and how far they are. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from urllib.parse import urlsplit

from foldline.agent.api_keys import KEYS_FILE
from foldline.llm.listing import ListedModel
from foldline.llm.providers import ENVIRONMENT

_SET: Final = re.compile(r"(?:export\s+|set\s+|\$env:)?[A-Za-z_][A-Za-z0-9_]*\s*=\s*(?=[^\s=])")
"""What stands before a key that was copied with its variable: `export OPENAI_API_KEY=`."""
_BEARER: Final = re.compile(r"(?:authorization:\s*)?bearer\s+", re.IGNORECASE)
_QUOTES: Final = "\"'`“”‘’«»"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A key. Only `reveal` gives it away."""

    _text: str

    def reveal(self) -> str:
        return self._text

    def __len__(self) -> int:
        return len(self._text)

    def __repr__(self) -> str:
        return f"Secret({len(self._text)} characters)"

    @property
    def fault(self) -> str:
        """Why this can be no key, as a sentence; empty where it may be one."""
        if not self._text.isascii() or not self._text.isprintable() or " " in self._text:
            return "A key has no blanks and no other than plain characters: copy it again."
        return ""


def cleaned_key(pasted: str) -> str:
    """The key alone: without blanks and line ends around it, quotes, and the words it was copied with."""
    text = pasted.strip().rstrip(";")
    for words in (_SET, _BEARER):
        match = words.match(text)
        if match:
            text = text[match.end() :]
    return text.strip().strip(_QUOTES).strip()


Step = Literal["provider", "address", "key", "model"]
"""`address` belongs to the first of the three steps: the URL of a server that is in no list."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where models come from: the built-in one, a provider, or a server still to be named."""

    name: str
    title: str
    url: str = ""
    key_env: str = ""
    """Variable of the environment that holds its key; empty where none is needed."""
    key_in: str = ""
    """Where a key for it was found; empty where nowhere."""
    default_model: str = ""
    key_page: str = ""
    """Where a person gets a key."""
    key: Literal["needed", "optional", "none"] = "none"
    """Whether it wants one."""
    local: bool = False
    """It runs on this computer or near it, or would."""
    named: bool = True
    """Whether models are named with its name. The built-in one needs none, and the server of the environment
    is whatever that says."""

    @property
    def host(self) -> str:
        parts = urlsplit(self.url)
        return parts.netloc.rsplit("@", 1)[-1]

    @property
    def from_environment(self) -> bool:
        """Its key comes from the environment, which goes before any that is typed."""
        return self.key_in not in ("", KEYS_FILE)

    @property
    def asks_key(self) -> bool:
        """A key is typed before it is asked anything."""
        return self.key != "none" and not self.key_in


OFFLINE: Final = Source("offline", "offline", named=False)
OTHER: Final = Source("", "Another OpenAI-compatible server")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the reader settled on."""

    source: Source
    model: str
    """As its server knows it."""
    key: Secret | None = None
    """The key that was typed; None where none was."""

    @property
    def named(self) -> str:
        """The model with its provider, as settings and operations name it."""
        if self.source == OFFLINE:
            return self.model
        return f"{self.model}@{self.source.name if self.source.named else ENVIRONMENT}"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the last step failed."""

    kind: Literal["refused", "unreachable", "wrong"]
    """The key was refused; the server did not answer as it should; what was typed can be no such thing."""
    sentence: str
    status: int | None = None
    """The answer of the server, as HTTP counts them; None where it gave none."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list of models."""

    model: str
    offer: ListedModel | None = None
    typed: bool = False
    """The name is the reader's own, and on no list."""


@dataclass(frozen=True, slots=True)
class SetupState:
    """The three steps and how far they are."""

    sources: tuple[Source, ...]
    step: Step = "provider"
    first: Step = "provider"
    """The step that Esc leaves the screen from."""
    at: int = 0
    """The marked source."""
    running: frozenset[str] = frozenset()
    """Names of the local servers that answered."""
    source: Source | None = None
    """The one that was taken."""
    key: Secret | None = None
    key_length: int = 0
    """Characters in the field of the key."""
    asked: float | None = None
    """When the server was asked; None while it is not."""
    trouble: Trouble | None = None
    told: str = ""
    """Something to be read before the step's own words."""
    offers: tuple[ListedModel, ...] = ()
    known: tuple[ListedModel, ...] = ()
    """What is known of models of this source without its server."""
    summariser: str = ""
    """The model that writes the summaries, as settings name it; empty: the session's own."""
    listed: bool = False
    """Whether the server has said which models it has."""
    query: str = ""
    rows: tuple[Row, ...] = ()
    marked: int = 0
    """The marked row of `rows`."""
    current: tuple[str, str] = ("", "")
    """(name of the source, model) in use, where the screen was opened in a session; empty at first start."""
    compacting: frozenset[str] = frozenset()
    """Models whose windows are too small for the conversation as it is."""
    size: int = 0
    """Tokens of the conversation as it is."""
    kept_in: tuple[str, str] = field(default=("keys.toml", "config.toml"))
    """Files of keys and settings, as people are told of them."""
    overruled_by: str = ""
    """What says who is asked in new sessions, whatever is kept; empty where nothing does."""

    @property
    def pointed(self) -> Source:
        """The source under the mark."""
        return self.sources[self.at]

    @property
    def row(self) -> Row | None:
        """The model under the mark."""
        return self.rows[self.marked] if self.rows else None

    @property
    def number(self) -> int:
        """Which of the three steps this is."""
        return {"provider": 1, "address": 1, "key": 2, "model": 3}[self.step]

    @property
    def is_checking(self) -> bool:
        return self.asked is not None

    @property
    def may_go_on(self) -> bool:
        """The server could not be asked: its models can be named all the same."""
        return self.step == "key" and self.trouble is not None and self.trouble.kind == "unreachable"

    @property
    def has_key_field(self) -> bool:
        """A key is typed here, and not only used."""
        return self.step == "key" and self.source is not None and self.source.asks_key

    @property
    def listed_rows(self) -> "Sequence[Source | Row]":
        """What this step lists."""
        return self.sources if self.step == "provider" else self.rows if self.step == "model" else ()

    @property
    def mark(self) -> int:
        """The place of the mark in that list."""
        return self.at if self.step == "provider" else self.marked

    def marking(self, at: int) -> "SetupState":
        """With the mark at this place."""
        return replace(self, at=at) if self.step == "provider" else replace(self, marked=at)

    def to_provider(self) -> "SetupState":
        return replace(self, step="provider", first="provider", trouble=None, asked=None)

    def to_address(self) -> "SetupState":
        return replace(self, step="address", trouble=None, asked=None)

    def to_key(self, source: Source) -> "SetupState":
        """The second step, with nothing of another server's left over."""
        empty = SetupState(self.sources, "key", self.first, self.at, self.running, source)
        return replace(
            empty,
            summariser=self.summariser,
            current=self.current,
            size=self.size,
            kept_in=self.kept_in,
            overruled_by=self.overruled_by,
        )

    def to_model(
        self, offers: Sequence[ListedModel] = (), *, listed: bool = True, compacting: Iterable[str] = ()
    ) -> "SetupState":
        """The last step, with what the server has to offer; `listed` is False where it did not say."""
        ordered = tuple(sorted(offers, key=lambda offer: offer.id.lower()))
        marked = self.row if self.step == "model" and self.is_checking else None
        state = replace(
            self, step="model", offers=ordered, listed=listed, compacting=frozenset(compacting), asked=None
        )
        fresh = replace(state, trouble=None).filtered(state.query)
        # The list comes when it comes: who has moved on a row meanwhile stays on it.
        at = next((at for at, row in enumerate(fresh.rows) if marked and row.model == marked.model), None)
        return fresh if at is None else replace(fresh, marked=at)

    def checking(self, now: float, key: Secret | None = None) -> "SetupState":
        return replace(self, asked=now, key=key, trouble=None)

    def failed(self, trouble: Trouble | None) -> "SetupState":
        """Nothing is asked any more; without a trouble it was stopped."""
        return replace(self, asked=None, trouble=trouble)

    def filtered(self, query: str) -> "SetupState":
        """The models that hold every word of it, and last the words themselves as a name."""
        words = query.lower().split()
        rows = [
            Row(offer.id, offer) for offer in self.offers if all(word in offer.id.lower() for word in words)
        ]
        named = query.strip()
        known = {row.model for row in rows}
        if not words:
            rows = [*(self._known_row(name) for name in self._expected() if name not in known), *rows]
        elif named not in known and len(words) == 1:
            rows.append(Row(named, typed=True))
        state = replace(self, query=query, rows=tuple(rows), marked=0, trouble=None)
        return replace(state, marked=state._best(named))

    def _expected(self) -> Sequence[str]:
        """Models that are offered although no list names them: the one in use, and, as long as there is no
        list, the usual one and those that are known."""
        if self.source is None:
            return ()
        unlisted = not (self.listed and self.offers)
        others = (self.source.default_model, *(offer.id for offer in self.known)) if unlisted else ()
        return [name for name in dict.fromkeys((self._in_use, *others)) if name]

    def _known_row(self, name: str) -> Row:
        return Row(name, next((offer for offer in self.known if offer.id == name), None))

    def writes_summaries(self, row: Row) -> bool:
        """Whether this model writes the summaries, although the session is held with another."""
        if not self.summariser or self.source is None:
            return False
        return self.summariser in (row.model, Choice(self.source, row.model).named)

    @property
    def _in_use(self) -> str:
        """The model in use, where it is one of this source's."""
        return self.current[1] if self.source is not None and self.current[0] == self.source.name else ""

    def _best(self, named: str) -> int:
        """The row to mark: the model of this very name, else the one in use, else the usual one, else the
        first. A name that is on no list is marked only where nothing else holds it."""
        wanted = (named, self._in_use, self.source.default_model if self.source is not None else "")
        places = {row.model: at for at, row in enumerate(self.rows) if not row.typed}
        return next((places[name] for name in wanted if name and name in places), 0)

    def choice(self) -> Choice | None:
        """What Enter takes in the last step."""
        if self.source is None or self.row is None:
            return None
        return Choice(self.source, self.row.model, self.key)


def begin(
    sources: Sequence[Source],
    *,
    current: tuple[str, str] = ("", ""),
    size: int = 0,
    step: Step = "provider",
    kept_in: tuple[str, str] = ("keys.toml", "config.toml"),
) -> SetupState:
    """With the mark at the source in use, else at the first a key was found for. Opened at the last step, it
    shows the models of the source in use."""
    state = SetupState(tuple(sources), current=current, size=size, kept_in=kept_in)
    usable = [
        *(at for at, source in enumerate(sources) if current[0] and source.name == current[0]),
        *(at for at, source in enumerate(sources) if source.key_in),
        0,
    ]
    state = replace(state, at=usable[0])
    if step == "model" and current[0] == state.pointed.name != OFFLINE.name:
        state = replace(state.to_key(state.pointed), step="model", first="model")
        return state.filtered("")
    return state
