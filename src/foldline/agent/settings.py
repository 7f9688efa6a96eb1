"""Settings: what a user may choose, where each choice came from, and the model clients they lead to.

Files first (the user's, then the project's), then the environment, then options: the last one wins. What is
set for one model wins over what is set for all, in files; the environment and options speak for this run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
)
from pydantic.fields import FieldInfo

from foldline.context.budget import SMALLEST_WINDOW, BudgetSettings
from foldline.protocol import FoldlineError

from .amounts import ALLOWED, Amount, parse_amount, parse_tokens
from .approvals import Mode
from .checking import ANY_MODEL, allowed, checked, fields_of
from .layers import MODELS, Given, config_file, dotted, from_environment, from_file, project_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from foldline.compaction import CompactionStrategy
    from foldline.llm import LLM, Embedder

DEFAULT = "default"
"""The origin of a value nobody set."""


def _amount(value: object) -> Amount:
    if isinstance(value, Amount):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(ALLOWED)
    return parse_amount(str(value))


def _tokens(value: object) -> object:
    return parse_tokens(value) if isinstance(value, str) else value


Tokens = Annotated[int, BeforeValidator(_tokens), Field(strict=True)]
TokensOrShare = Annotated[
    Amount, PlainValidator(_amount), PlainSerializer(str, return_type=str), Field(description=ALLOWED)
]

Window = Annotated[Tokens, Field(ge=SMALLEST_WINDOW)]
SoftRatio = Annotated[float, Field(gt=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ContextSettings(_Section):
    """`[context]`: the model's window."""

    window: Window | None = None
    """The context window in tokens, where what is known of the model is wrong."""
    dmail: bool = False
    """Whether the model may go back to an earlier step with a message to itself: the tool `send_dmail`."""


class CompactionSettings(_Section):
    """`[compaction]`: when and how the history is folded. Sizes left out scale with the window."""

    mode: Literal["auto", "ask", "off"] = "auto"
    """auto: a full window is folded by itself; ask: you see the proposal first; off: never unasked."""
    strategy: Annotated[str, Field(min_length=1)] = "adaptive"
    """How a view is rewritten: adaptive, summary, simple, hide, hide-then-summary, ladder, importance,
    semantic, hierarchical, digest, or `module:ClassName`."""
    model: str = ""
    """The model that writes the summaries. Empty: the one the session is held with."""
    embedding_model: str = ""
    """The provider's model for embeddings, by which `semantic` chooses. Empty: the one known for the
    provider; where none is, texts are compared by the words they share."""
    threshold: TokensOrShare | None = None
    """A request of this size is folded first. Goes before `reserve_tokens`; left out, window less reserve."""
    reserve_tokens: TokensOrShare | None = None
    """Kept free for the answer; the window counts as full where less is left."""
    keep_recent_tokens: TokensOrShare | None = None
    """How much of the newest work stays verbatim."""
    max_summary_tokens: TokensOrShare | None = None
    """The longest a summary may get."""
    soft_ratio: SoftRatio = 0.75
    """Share of the threshold from which on the meter shows the cut, and a task done is a moment to fold."""


class ModelSettings(_Section):
    """`[models."NAME"]`: what holds for one model only, whatever the sections above say for all."""

    window: Window | None = None
    """Its context window in tokens, for `context.window`."""
    threshold: TokensOrShare | None = None
    """For `compaction.threshold`."""
    reserve_tokens: TokensOrShare | None = None
    """For `compaction.reserve_tokens`."""
    keep_recent_tokens: TokensOrShare | None = None
    """For `compaction.keep_recent_tokens`."""
    max_summary_tokens: TokensOrShare | None = None
    """For `compaction.max_summary_tokens`."""
    soft_ratio: SoftRatio | None = None
    """For `compaction.soft_ratio`."""


class ApprovalSettings(_Section):
    """`[approvals]`: which tool calls run without a question."""

    mode: Mode = "ask"
    """ask: only reads run unasked; edits: edits inside the folder, too; all: everything."""


class OfflineSettings(_Section):
    """`[offline]`: the built-in model."""

    window: Window = 16_384
    """Its context window in tokens: small, so that folding is seen soon."""
    pace: Annotated[float, Field(ge=0, le=10)] = 0.008
    """Seconds between two words of its answers."""


class Settings(_Section):
    """All settings, as they are in force."""

    model: str = ""
    """`offline`, or a name the server knows. Empty: the server's choice; `offline` where none is set up."""
    theme: str = "foldline-dark"
    """The colour theme, by name."""
    context: ContextSettings = ContextSettings()
    compaction: CompactionSettings = CompactionSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    offline: OfflineSettings = OfflineSettings()
    models: dict[str, ModelSettings] = {}
    """By the name the server knows, in small letters."""
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    def origin(self, key: str) -> str:
        """Who set a value, by its dotted key: a file, an environment variable, an option, or `default`."""
        return self._origins.get(key, DEFAULT)

    def values(self) -> dict[str, object]:
        """Every setting by its dotted key, as plain JSON values; of models, what was set."""
        sections = self.model_dump(mode="json")
        found = {key: _lookup(sections, key) for key in KEYS}
        for model, table in sections[MODELS].items():
            found |= {
                dotted((MODELS, model, key)): value for key, value in table.items() if value is not None
            }
        return found

    def of_model(self, model: str) -> ModelSettings:
        """What was set for this model alone."""
        return self.models.get(model.lower(), ModelSettings())

    def window_of(self, model: str) -> int | None:
        """The window that was set for this model, or for all; in tokens."""
        return self.of_model(model).window or self.context.window

    def budget_settings(self, window: int, model: str = "") -> BudgetSettings:
        """The sizes that were set for this model, or for all, in tokens of this window."""
        own, fold = self.of_model(model), self.compaction

        def tokens(first: Amount | None, second: Amount | None) -> int | None:
            amount = second if first is None else first
            return None if amount is None else amount.of(window)

        return BudgetSettings(
            threshold=tokens(own.threshold, fold.threshold),
            reserve_tokens=tokens(own.reserve_tokens, fold.reserve_tokens),
            keep_recent_tokens=tokens(own.keep_recent_tokens, fold.keep_recent_tokens),
            max_summary_tokens=tokens(own.max_summary_tokens, fold.max_summary_tokens),
            soft_ratio=own.soft_ratio or fold.soft_ratio,
        )

    def strategy(self, dependencies: "Mapping[type, object] | None" = None) -> "CompactionStrategy":
        """The strategy that was set; `dependencies` are what its constructor may ask for, by type.

        Raises:
            FoldlineError: it cannot be loaded.
        """
        from foldline.compaction import load_strategy

        return load_strategy(self.compaction.strategy, dependencies)


KEYS: Mapping[str, FieldInfo] = dict(fields_of(Settings))
"""Every setting there is, by its dotted key; those of one model apart."""

MODEL_KEYS: Mapping[str, FieldInfo] = dict(fields_of(ModelSettings))
"""What may be set below `[models."NAME"]`."""


def load_settings(
    cwd: Path | str, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings in force in a folder. `overrides`, by dotted key, come from options and win.

    Raises:
        FoldlineError: an unknown key or a value that is not allowed; the sentence says where and what is.
    """
    given = from_file(config_file(environ))
    project = project_file(Path(cwd))
    if project is not None:
        given += from_file(project, by_project=True)
    given += from_environment(environ, (key for key in KEYS if "." not in key))
    given += [
        Given(tuple(key.split(".")), value, "command line", for_this_run=True)
        for key, value in (overrides or {}).items()
    ]
    values: dict[tuple[str, ...], object] = {}
    origins: dict[str, str] = {}
    for item in given:
        value = checked(item, KEYS, MODEL_KEYS)
        names = _same_for_all_spellings(item.names)
        if item.for_this_run:
            values = {key: kept for key, kept in values.items() if not _for_one_model(key, names)}
        values[names] = value
        origins[dotted(names)] = item.origin
    settings = Settings.model_validate(_nested(values))
    settings._origins.update(origins)
    return settings


def connect_llm(settings: Settings, environ: Mapping[str, str]) -> "LLM":
    """The model client in force. Offline unless a model is named or the environment names a server or key.

    Raises:
        FoldlineError: the model needs a server or a key, and there is none.
    """
    return _client(settings.model, settings, environ, settings.window_of)


def connect_summariser(settings: Settings, environ: Mapping[str, str]) -> "LLM | None":
    """The client of the model that writes the summaries; None where it is the session's own.

    Raises:
        FoldlineError: it needs a server or a key, and there is none.
    """
    name = settings.compaction.model
    if not name or name == connect_llm(settings, environ).info.id:
        return None
    try:
        # `context.window` is about the session's model: it says nothing of this one.
        return _client(name, settings, environ, lambda model: settings.of_model(model).window)
    except FoldlineError as failure:
        raise FoldlineError(f"compaction.model, {name}, cannot be used: {failure}") from None


def connect_embedder(settings: Settings, environ: Mapping[str, str]) -> "Embedder | None":
    """What compares texts by what they mean; None offline, and where no model for it is known."""
    from foldline.llm.catalog import connect_embeddings

    if settings.model == "offline":
        return None
    return connect_embeddings(settings.compaction.embedding_model, environ)


def _client(
    name: str, settings: Settings, environ: Mapping[str, str], window_of: "Callable[[str], int | None]"
) -> "LLM":
    from foldline.llm.catalog import connect, is_configured

    if name == "offline" or not (name or is_configured(environ)):
        from foldline.llm.offline import OFFLINE, OfflineLLM

        return OfflineLLM(window_of(OFFLINE) or settings.offline.window, pace=settings.offline.pace)
    return connect(name or None, environ, window_of)


async def known_window(llm: "LLM") -> int:
    """The window in tokens; where only the server knows it, the server is asked.

    Raises:
        LLMError: no model was named, and the server does not list any.
    """
    from foldline.llm.catalog import ask_window
    from foldline.llm.openai_client import OpenAIChat

    return await ask_window(llm) if isinstance(llm, OpenAIChat) else llm.info.window


def settings_table() -> str:
    """The settings as a Markdown table, for the documentation; those of one model apart."""
    return _table(KEYS, "by window")


def model_settings_table() -> str:
    """What may be set for one model, as a Markdown table."""
    return _table({f"{ANY_MODEL}.{key}": field for key, field in MODEL_KEYS.items()}, "as for all")


def _table(keys: Mapping[str, FieldInfo], left_out: str) -> str:
    rows = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key, field in keys.items():
        default = left_out if field.default is None else _shown(field.default)
        meaning = (field.description or "").replace("\n", " ")
        rows.append(f"| `{key}` | {default} | {allowed(field)} | {meaning} |")
    return "\n".join(rows) + "\n"


def _shown(default: object) -> str:
    """A default as TOML says it."""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if default else "empty"


def _same_for_all_spellings(names: tuple[str, ...]) -> tuple[str, ...]:
    """Servers do not tell models apart by upper and lower case; variables of the environment cannot."""
    return (MODELS, names[1].lower(), *names[2:]) if names[0] == MODELS else names


def _for_one_model(names: tuple[str, ...], shared: tuple[str, ...]) -> bool:
    """Whether the one key sets for one model what the other sets for all."""
    section = "context" if names[-1] in ContextSettings.model_fields else "compaction"
    return names[0] == MODELS and shared == (section, names[-1])


def _nested(values: Mapping[tuple[str, ...], object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for names, value in values.items():
        table = nested
        for name in names[:-1]:
            table = table.setdefault(name, {})
        table[names[-1]] = value
    return nested


def _lookup(sections: Mapping[str, Any], key: str) -> object:
    value: Any = sections
    for name in key.split("."):
        value = value[name]
    return value
