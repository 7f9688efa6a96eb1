"""Settings: what a user may choose, where each choice came from, and the model client they lead to.

Files first (the user's, then the project's), then the environment, then options: the last one wins.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from foldline.context.budget import SMALLEST_WINDOW, BudgetSettings
from foldline.protocol import FoldlineError

from .amounts import ALLOWED, ALLOWED_TOKENS, Amount, parse_amount, parse_tokens
from .approvals import Mode
from .layers import Given, config_file, from_environment, from_file, project_file

if TYPE_CHECKING:
    from foldline.compaction import CompactionStrategy
    from foldline.llm import LLM

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


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ContextSettings(_Section):
    """`[context]`: the model's window."""

    window: Annotated[Tokens, Field(ge=SMALLEST_WINDOW)] | None = None
    """The context window in tokens, where what is known of the model is wrong."""


class CompactionSettings(_Section):
    """`[compaction]`: when and how the history is folded. Sizes left out scale with the window."""

    mode: Literal["auto", "off"] = "auto"
    """Whether a full window is folded by itself. Off changes nothing unasked."""
    strategy: Literal["summary", "digest"] = "summary"
    """Who writes the summary: the model, or an extract of the history without a model call."""
    reserve_tokens: TokensOrShare | None = None
    """Kept free for the answer; the window counts as full where less is left."""
    keep_recent_tokens: TokensOrShare | None = None
    """How much of the newest work stays verbatim."""
    max_summary_tokens: TokensOrShare | None = None
    """The longest a summary may get."""
    soft_ratio: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Share of the threshold from which on the meter shows where a fold would cut."""


class ApprovalSettings(_Section):
    """`[approvals]`: which tool calls run without a question."""

    mode: Mode = "ask"
    """ask: only reads run unasked; edits: edits inside the folder, too; all: everything."""


class OfflineSettings(_Section):
    """`[offline]`: the built-in model."""

    window: Annotated[Tokens, Field(ge=SMALLEST_WINDOW)] = 16_384
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
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    def origin(self, key: str) -> str:
        """Who set a value, by its dotted key: a file, an environment variable, an option, or `default`."""
        return self._origins.get(key, DEFAULT)

    def values(self) -> dict[str, object]:
        """Every setting by its dotted key, as plain JSON values."""
        sections = self.model_dump(mode="json")
        return {key: _lookup(sections, key) for key in KEYS}

    def budget_settings(self, window: int) -> BudgetSettings:
        """The sizes that were set, in tokens of this window."""
        fold = self.compaction
        return BudgetSettings(
            reserve_tokens=fold.reserve_tokens.of(window) if fold.reserve_tokens else None,
            keep_recent_tokens=fold.keep_recent_tokens.of(window) if fold.keep_recent_tokens else None,
            max_summary_tokens=fold.max_summary_tokens.of(window) if fold.max_summary_tokens else None,
            soft_ratio=fold.soft_ratio,
        )

    def strategy(self) -> "CompactionStrategy":
        from foldline.compaction import DigestCompaction, SummaryCompaction

        return DigestCompaction() if self.compaction.strategy == "digest" else SummaryCompaction()


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
    given += [Given(key, value, "command line") for key, value in (overrides or {}).items()]
    values: dict[str, object] = {}
    for item in given:
        values[item.key] = _checked(item)
    settings = Settings.model_validate(_nested(values))
    settings._origins.update({item.key: item.origin for item in given})
    return settings


def connect_llm(settings: Settings, environ: Mapping[str, str]) -> "LLM":
    """The model client in force. Offline unless a model is named or the environment names a server or key.

    Raises:
        FoldlineError: the model needs a server or a key, and there is none.
    """
    from foldline.llm.catalog import connect, is_configured

    if settings.model == "offline" or not (settings.model or is_configured(environ)):
        from foldline.llm.offline import OfflineLLM

        window = settings.context.window or settings.offline.window
        return OfflineLLM(window, pace=settings.offline.pace)
    return connect(settings.model or None, environ, settings.context.window)


async def known_window(llm: "LLM") -> int:
    """The window in tokens; where only the server knows it, the server is asked.

    Raises:
        LLMError: no model was named, and the server does not list any.
    """
    from foldline.llm.catalog import ask_window
    from foldline.llm.openai_client import OpenAIChat

    return await ask_window(llm) if isinstance(llm, OpenAIChat) else llm.info.window


def settings_table() -> str:
    """All settings as a Markdown table, for the documentation."""
    rows = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key, field in KEYS.items():
        default = "by window" if field.default is None else f"`{field.default}`" if field.default else "empty"
        meaning = (field.description or "").replace("\n", " ")
        rows.append(f"| `{key}` | {default} | {_allowed(field)} | {meaning} |")
    return "\n".join(rows) + "\n"


# --- keys and values ------------------------------------------------------------------------------


def _fields(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _fields(section, f"{before}{name}.")
        else:
            yield f"{before}{name}", field


KEYS: Mapping[str, FieldInfo] = dict(_fields(Settings))
"""Every setting there is, by its dotted key."""


def _checked(given: Given) -> object:
    """The value, if its key exists and it is one of those allowed."""
    field = KEYS.get(given.key)
    if field is None:
        raise FoldlineError(f"{given.origin}: {_unknown(given.key)}.")
    kind: Any = Annotated[field.annotation, field]
    try:
        value: object = TypeAdapter(kind).validate_python(given.value)
    except ValidationError:
        raise FoldlineError(
            f"{given.origin}: {given.key} cannot be {given.value!r}; allowed: {_allowed(field)}."
        ) from None
    if given.by_project and given.key == "approvals.mode" and value != "ask":
        # Whoever clones a project must not thereby agree to what its authors want run unasked.
        raise FoldlineError(
            f"{given.origin}: a project may set approvals.mode only to 'ask'; "
            "what runs unasked is set in your own settings, FOLDLINE_APPROVALS__MODE or --yes."
        )
    return value


def _unknown(key: str) -> str:
    section, dot, _ = key.rpartition(".")
    beside = [name for name in KEYS if name.rpartition(".")[0] == section] if dot else []
    close = get_close_matches(key, KEYS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    where = f"[{section}] has" if beside else "there are"
    names = [name.rpartition(".")[2] for name in beside] if beside else list(KEYS)
    return f"there is no setting {key}; {hint}{where} {_listed(names, 'and')}"


def _allowed(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    kinds = [field.annotation]
    if get_origin(field.annotation) in (UnionType, Union):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    kind = kinds[0]
    limits = [*field.metadata]
    if get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        for item in inner:
            limits += item.metadata if isinstance(item, FieldInfo) else [item]
    if get_origin(kind) is Literal:
        return _listed([str(value) for value in get_args(kind)], "or")
    if kind is Amount:
        return ALLOWED
    if kind is str:
        return "a name"
    what = ALLOWED_TOKENS if kind is int else "a number"
    return f"{what}{_limits(limits)}"


def _limits(limits: list[object]) -> str:
    least = next((limit.ge for limit in limits if hasattr(limit, "ge")), None)
    above = next((limit.gt for limit in limits if hasattr(limit, "gt")), None)
    most = next((limit.le for limit in limits if hasattr(limit, "le")), None)
    words = [
        f"from {least:,}" if least is not None else f"above {above:,}" if above is not None else "",
        f"to {most:,}" if most is not None else "",
    ]
    return "".join(f" {word}" for word in words if word)


def _listed(names: list[str], joint: str) -> str:
    return f"{', '.join(names[:-1])} {joint} {names[-1]}" if len(names) > 1 else names[0]


def _nested(values: Mapping[str, object]) -> dict[str, object]:
    nested: dict[str, object] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        if dot:
            inner = nested.setdefault(section, {})
            assert isinstance(inner, dict)
            inner[name] = value
        else:
            nested[section] = value
    return nested


def _lookup(sections: Mapping[str, Any], key: str) -> object:
    value: Any = sections
    for name in key.split("."):
        value = value[name]
    return value
