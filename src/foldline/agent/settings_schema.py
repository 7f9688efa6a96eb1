"""Every setting with its meaning, default and allowed values, and the check of what somebody set."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo

from foldline.context.budget import SMALLEST_WINDOW
from foldline.protocol import ApprovalMode, FoldlineError

from .layers import BY_NAME, KEY_SETTINGS, MCP, MODELS, PROVIDERS, Given, dotted, on_or_off

ALLOWED = "a number of tokens (32768, 32k, 1M) or a share of the window (20%)"
ALLOWED_TOKENS = "a number of tokens (32768, 32k, 1M)"

_NUMBER = re.compile(r"(\d{1,3}(?:[_,]\d{3})+|\d+)(\.\d+)?\s*([kKmM%]?)")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_LARGEST = 1_000_000_000


class Amount(NamedTuple):
    """Tokens, or a share of a window that is not known yet."""

    tokens: int | None = None
    percent: float | None = None

    def of(self, window: int) -> int:
        """The amount in tokens, at least 1; `window` in tokens."""
        return max(1, self.tokens if self.tokens is not None else int(window * (self.percent or 0) / 100))

    def __str__(self) -> str:
        return str(self.tokens) if self.tokens is not None else f"{self.percent or 0:g}%"


def parse_amount(text: str) -> Amount:
    """The amount this says. `k` is a thousand, as on the screens.

    Raises:
        ValueError: it says none; the text is what is allowed.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ValueError(ALLOWED)
    value = float(re.sub("[_,]", "", found[1]) + (found[2] or ""))
    unit = found[3].lower()
    if unit == "%":
        if not 0 < value <= 100:
            raise ValueError(ALLOWED)
        return Amount(percent=value)
    tokens = value * _FACTORS[unit]
    if not 1 <= tokens <= _LARGEST or tokens != int(tokens):
        raise ValueError(ALLOWED)
    return Amount(tokens=int(tokens))


def parse_tokens(text: str) -> int:
    """Like `parse_amount`, without shares.

    Raises:
        ValueError: it says no number of tokens; the text is what is allowed.
    """
    with suppress(ValueError):
        if (tokens := parse_amount(text).tokens) is not None:
            return tokens
    raise ValueError(ALLOWED_TOKENS)


def _amount(value: object) -> Amount:
    if isinstance(value, Amount):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(ALLOWED)
    return parse_amount(str(value))


def _tokens(value: object) -> object:
    return parse_tokens(value) if isinstance(value, str) else value


_NUMBER_OR_TEXT = WithJsonSchema({"type": ["integer", "string"]})
Tokens = Annotated[int, BeforeValidator(_tokens), Field(strict=True), _NUMBER_OR_TEXT]
TokensOrShare = Annotated[
    Amount,
    PlainValidator(_amount),
    PlainSerializer(str, return_type=str),
    Field(description=ALLOWED),
    _NUMBER_OR_TEXT,
]


def _names(value: object) -> object:
    """The environment and the Settings screen write a list with commas."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_names)]

OnOff = Annotated[
    Literal["on", "off"], BeforeValidator(on_or_off), WithJsonSchema({"enum": ["on", "off", True, False]})
]
OnOffAuto = Annotated[
    Literal["auto", "on", "off"],
    BeforeValidator(on_or_off),
    WithJsonSchema({"enum": ["auto", "on", "off", True, False]}),
]

BoundTokens = Annotated[
    int, BeforeValidator(lambda value: value if str(value) == "0" else _tokens(value)), _NUMBER_OR_TEXT
]
Window = Annotated[Tokens, Field(ge=SMALLEST_WINDOW)]
SoftRatio = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A table of the settings: unknown keys are refused, and what stands below a key is its meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ContextSettings(Section):
    """`[context]`: the model's window."""

    window: Window | None = None
    """The context window in tokens, where what is known of the model is wrong."""
    cache_life: Literal["5m", "1h"] = "5m"
    """How long Claude's cache keeps what is not used. 1h: for whoever pauses; writing costs 2 times the input
    instead of 1.25 times."""
    dmail: bool = False
    """Whether the model may go back to an earlier step with a message to itself: the tool `send_dmail`."""
    branch_note: bool = False
    """Whether the model gets a short note on the branch that a rewind, an edited prompt or `/tree` leaves."""


class CompactionSettings(Section):
    """`[compaction]`: when and how the history is compacted. Sizes left out scale with the window."""

    mode: Literal["auto", "ask", "off"] = "auto"
    """auto: a full window is compacted automatically; ask: you see the proposal first; off: only by hand."""
    strategy: Annotated[str, Field(min_length=1)] = "adaptive"
    """How a view is rewritten: adaptive, summary, simple, hide, hide-then-summary, ladder, importance,
    semantic, hierarchical, digest, or `module:ClassName`."""
    model: str = ""
    """The model that writes the summaries, also as `MODEL@PROVIDER`. Empty: the one of the session."""
    embedding_model: str = ""
    """The provider's model for embeddings, by which `semantic` chooses. Empty: the one known for the
    provider; where none is, texts are compared by the words they share."""
    threshold: TokensOrShare | None = None
    """A request of this size is compacted first. Goes before `reserve_tokens`; left out, window less
    reserve."""
    reserve_tokens: TokensOrShare | None = None
    """Kept free for the answer; the window counts as full where less is left."""
    keep_recent_tokens: TokensOrShare | None = None
    """How much of the newest work stays verbatim."""
    max_summary_tokens: TokensOrShare | None = None
    """The longest a summary may get."""
    soft_ratio: SoftRatio = 0.75
    """Share of the threshold from which on the meter shows the cut, and a task done is a moment to
    compact."""
    draft_ahead: OnOff = "on"
    """Whether the next compaction is drafted in the background from there on: a full window then waits for
    nothing. off: no model is asked before a compaction is due."""
    idle: Literal["ask", "auto", "off"] = "off"
    """Whether to compact at rest, shortly before the provider's cache ends, where that pays: ask offers it in
    the status row, auto does it unless something was typed. Only with a screen."""


class ModelSettings(Section):
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


class ProviderSettings(Section):
    """`[providers.NAME]`: a provider of your own, or what is different about one that Foldline knows."""

    base_url: str | None = None
    """Where its API begins: `https://host/v1`. Needed for one of your own."""
    key_env: str | None = None
    """The variable of the environment its key is in. Empty: it needs none, or it is in `keys.toml`."""
    key_command: str | None = None
    """A program that prints its key on the first line, such as `pass show box`: run once, without a shell,
    where the variable is not set. Goes before `keys.toml`."""
    api: Literal["chat", "responses", "messages"] | None = None
    """chat: `/chat/completions`; responses: `/responses`; messages: Anthropic's `/messages`."""
    dialect: Literal["openai", "strict", "strict-thinking", "mistral", "gemini", "openrouter"] | None = None
    """How messages are rendered for it: see [Providers](providers.md)."""
    models: list[str] | None = None
    """Models to choose from, where the server lists none. The first is asked where none is named."""


class McpSettings(Section):
    """`[mcp.NAME]`: a tool server, a program that is started or an address that is asked."""

    command: str = ""
    """The program."""
    args: list[str] = []
    """What it is started with."""
    env: dict[str, str] = {}
    """Variables of its environment."""
    cwd: str = ""
    """Where it runs. Empty: the folder of the session."""
    url: str = ""
    """The address, for a server that is not started but asked over HTTP."""
    headers: dict[str, str] = {}
    """Sent with every request to the address."""
    sandbox: OnOff = "on"
    """Whether the program runs in the sandbox, in the modes that have one: `sandboxed` and `read-only`."""
    writable: Names = []
    """Folders it may write there, beside those of `[sandbox]`."""
    hosts: Names = []
    """Hosts it may reach there, beside those of `[sandbox]`."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 120
    """Seconds a call may take."""
    enabled: bool = True
    """Whether it is used."""


class ApprovalSettings(Section):
    """`[approvals]`: which tool calls run without a question."""

    mode: ApprovalMode = "ask"
    """ask: only reads run without asking; edits: edits inside the folder, too; sandboxed: commands that stay
    in the sandbox as well, where one holds; read-only: nothing is changed; all: everything; plan: reads, and
    nothing is changed until a plan was accepted."""


class SandboxSettings(Section):
    """`[sandbox]`: what commands may do in the modes `sandboxed` and `read-only`, beside their folder."""

    writable: Names = []
    """Folders they may see and write, too (a cache of packages); `~` is your home."""
    hidden: Names = []
    """Files and folders they may not read, beside what is private of your home: see security.md."""
    hosts: Names = []
    """Hosts they may reach without a question; `*.example.org` stands for all below it."""
    memory: Annotated[float, Field(ge=0, le=100)] = 50
    """Percent of this machine's memory that one program of theirs may fill. 0: as much as there is."""
    shell: OnOff = "on"
    """Whether your own `!` commands run in it, too."""


Steps = Annotated[int, Field(ge=0)]
Cost = Annotated[float, Field(ge=0)]


class LimitSettings(Section):
    """`[limits]`: where a turn, or a session, ends before its work is done. 0: no bound."""

    turn_steps: Steps | None = None
    """Requests of one turn, those for summaries included. Left out: 200 in `run`, none in the chat."""
    turn_tokens: BoundTokens | None = None
    """Tokens of one turn, input (cached, too) and output, as reported. Left out: 20M in `run`."""
    turn_cost: Cost | None = None
    """USD of one turn, by the table of prices. A model that is not in it costs nothing; where this is set,
    that is said. Left out: 10 in `run`."""
    session_steps: Steps = 0
    """Requests of one session."""
    session_tokens: BoundTokens = 0
    """Tokens of one session."""
    session_cost: Cost = 0
    """USD of one session."""
    subagent_steps: Steps = 100
    """Requests of one subagent, those for summaries included."""
    subagent_tokens: BoundTokens = 5_000_000
    """Tokens of one subagent. What it spends counts for the turn and the session, too."""
    equal_steps: Steps = 5
    """So many steps of the same calls and results are a loop: you are asked, and `run` stops. 0: never."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds in force on one turn and one session; 0 means no bound."""

    turn_steps: int = 0
    turn_tokens: int = 0
    """Input and output, as reported."""
    turn_cost: float = 0.0
    """In USD."""
    session_steps: int = 0
    session_tokens: int = 0
    session_cost: float = 0.0
    subagent_steps: int = 100
    subagent_tokens: int = 5_000_000
    equal_steps: int = 0
    """How often the same calls with the same results may follow each other."""
    cost_is_usual: bool = False
    """Whether `turn_cost` is the default: then no warning if the model's price is unknown."""


UNWATCHED = Limits(turn_steps=200, turn_tokens=20_000_000, turn_cost=10.0, cost_is_usual=True)
"""Defaults without a user watching: a turn this long is more likely lost than busy."""


class OfflineSettings(Section):
    """`[offline]`: the built-in model."""

    window: Window = 16_384
    """Its context window in tokens: small, so that compaction is seen soon."""
    pace: Annotated[float, Field(ge=0, le=10)] = 0.008
    """Seconds between two words of its answers."""


class AllSettings(Section):
    """Every setting, by its section."""

    model: str = ""
    """`offline`, or a name the provider knows, also as `MODEL@PROVIDER`. Empty: the provider's choice;
    `offline` where none is set up."""
    provider: str = ""
    """Who is asked, by name; `env` is the server of OPENAI_BASE_URL. Empty: that one, if it is set; else
    OpenAI, if OPENAI_API_KEY is."""
    fallback: Names = []
    """Models that take over where one fails for good, as `["MODEL@PROVIDER", …]`, in this order. You are
    asked first; `run` and pipes say so on stderr."""
    effort: Literal["default", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = "default"
    """How much the model thinks, where its API takes that: which of these, its maker's documentation says.
    default: nothing is sent."""
    theme: str = "auto"
    """The colour theme, by name; `auto` follows the terminal, dark or light."""
    theme_background: Literal["terminal", "theme"] = "terminal"
    """What is behind the text: the background of the terminal, or the one that the theme was made for. A
    light theme in a dark terminal paints its own, and the other way round."""
    ascii: OnOffAuto = "auto"
    """Whether marks, frames and meters are drawn in ASCII: on, off, or auto, which goes by the terminal. For
    those that have no other signs, or draw them two cells wide."""
    notify: Literal["off", "bell", "desktop"] = "off"
    """How to notify you of the end of a turn, or of a question, while the window has no focus: by the bell
    of the terminal, or by a desktop notification, and by progress in its tab while something runs."""
    vim: OnOff = "off"
    """Whether the prompt has Vim's modes and keys: Esc leads from insert to normal mode."""
    context: ContextSettings = ContextSettings()
    compaction: CompactionSettings = CompactionSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    limits: LimitSettings = LimitSettings()
    sandbox: SandboxSettings = SandboxSettings()
    offline: OfflineSettings = OfflineSettings()
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """By the name the server knows, in small letters."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """By name, in small letters."""
    mcp: dict[str, McpSettings] = Field(default_factory=dict)
    keys: dict[str, dict[str, str | list[str]]] = Field(default_factory=dict)
    """The keys on the screens that were chosen, by screen and command."""


def _fields_of(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting of these sections, by its dotted key; what is keyed by free names is left out."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _fields_of(section, f"{before}{name}.")
        elif get_origin(section) is not dict:
            yield f"{before}{name}", field


KEYS: Mapping[str, FieldInfo] = dict(_fields_of(AllSettings))
"""Every setting there is, by its dotted key; those of one model, provider or tool server apart."""
LABELS: Mapping[str, str] = {
    "model": "Model",
    "provider": "Provider",
    "fallback": "Fallback models",
    "effort": "Reasoning effort",
    "theme": "Theme",
    "theme_background": "Background",
    "ascii": "ASCII marks",
    "notify": "Notifications",
    "vim": "Vim keys",
    "context.window": "Context window",
    "context.cache_life": "Cache lifetime",
    "context.dmail": "D-Mail",
    "context.branch_note": "Note on a branch left",
    "compaction.mode": "Compaction",
    "compaction.strategy": "Compaction strategy",
    "compaction.model": "Summary model",
    "compaction.embedding_model": "Embedding model",
    "compaction.threshold": "Compact at",
    "compaction.reserve_tokens": "Kept for the answer",
    "compaction.keep_recent_tokens": "Recent work kept",
    "compaction.max_summary_tokens": "Longest summary",
    "compaction.soft_ratio": "Soft mark",
    "compaction.draft_ahead": "Draft ahead",
    "compaction.idle": "Compact at rest",
    "approvals.mode": "Permissions",
    "limits.turn_steps": "Requests of a turn",
    "limits.turn_tokens": "Tokens of a turn",
    "limits.turn_cost": "Cost of a turn",
    "limits.session_steps": "Requests of a session",
    "limits.session_tokens": "Tokens of a session",
    "limits.session_cost": "Cost of a session",
    "limits.subagent_steps": "Requests of a subagent",
    "limits.subagent_tokens": "Tokens of a subagent",
    "limits.equal_steps": "Equal steps are a loop",
    "sandbox.writable": "Sandbox: folders",
    "sandbox.hidden": "Sandbox: hidden files",
    "sandbox.hosts": "Sandbox: hosts",
    "sandbox.memory": "Sandbox: memory",
    "sandbox.shell": "Sandbox: ! commands",
    "offline.window": "Offline model: window",
    "offline.pace": "Offline model: pace",
}
"""What each is called on the screen."""
TABLES: Mapping[str, Mapping[str, FieldInfo]] = {
    MODELS: ModelSettings.model_fields,
    PROVIDERS: ProviderSettings.model_fields,
    MCP: McpSettings.model_fields,
}
"""What may be set in the tables of each section whose tables have names, by section and key."""

_OF_WHAT = {MODELS: "model", PROVIDERS: "provider", MCP: "tool server"}
_WITH_SECRETS = frozenset({"args", "env", "headers", "key_command"})
"""Keys of tool servers and providers whose values are nobody's business."""


def any_of(section: str) -> str:
    """Stands for one of the tables of a section in what people read."""
    return f'{section}."NAME"' if section == MODELS else f"{section}.NAME"


def is_secret(names: Sequence[str]) -> bool:
    """Whether a setting may hold a password, so that its value is not shown."""
    return len(names) > 2 and names[0] in (MCP, PROVIDERS) and names[2] in _WITH_SECRETS


def field_of(names: Sequence[str]) -> FieldInfo:
    """What is declared of a setting, by its key, name by name.

    Raises:
        KeyError: there is no such setting.
    """
    match names:
        case (section, name, key) if section in BY_NAME and name.strip():
            return TABLES[section][key]
        case (section, name, key, _) if section in BY_NAME and name.strip():
            # What a table inside the table says: `[mcp.NAME.env]`. Everything in it is text.
            if get_origin(TABLES[section][key].annotation) is dict:
                return _TEXT
        case (section, _, _) if section == KEY_SETTINGS:
            return _PRESSED  # which screens and commands there are, only the screens know
    return KEYS[dotted(names)]


_TEXT = FieldInfo(annotation=str)
_PRESSED = FieldInfo(annotation=str | list[str])


def kind_of(field: FieldInfo) -> Any:
    """The type a setting has where it is set: without `None` and limits."""
    return _kind_and_limits(field)[0]


def _kind_and_limits(field: FieldInfo) -> tuple[Any, list[object]]:
    kind: Any = field.annotation
    limits: list[object] = [*field.metadata]
    if get_origin(kind) in (UnionType, Union):
        kind = next(each for each in get_args(kind) if each is not type(None))
    while get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        for item in inner:
            limits += item.metadata if isinstance(item, FieldInfo) else [item]
    return kind, limits


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """The values to choose from, where the declaration lists them."""
    kind = kind_of(field)
    if kind is bool:
        return ("true", "false")
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def checked(given: Given) -> object:
    """The value, if its key exists and it is one of those allowed.

    Raises:
        FoldlineError: there is no such key, or its value is not allowed.
    """
    if given.by_project and (why := _not_of_a_project(given.names)):
        raise FoldlineError(f"{given.origin}: a project may not set {given.key}: {why}.")
    try:
        field = field_of(given.names)
    except KeyError:
        raise FoldlineError(f"{given.origin}: {_unknown(given.names)}.") from None
    kind: Any = Annotated[field.annotation, field]
    try:
        value: object = TypeAdapter(kind).validate_python(given.value)
    except ValidationError:
        what = "that" if is_secret(given.names) else repr(given.value)
        raise FoldlineError(
            f"{given.origin}: {given.key} cannot be {what}; allowed: {allowed(field)}."
        ) from None
    if given.by_project and given.key == "approvals.mode" and value != "ask":
        # Whoever clones a project must not thereby agree to what its authors want run without asking.
        raise FoldlineError(
            f"{given.origin}: a project may set approvals.mode only to 'ask'; "
            "what runs without asking is set in your own settings, FOLDLINE_APPROVALS__MODE or --yes."
        )
    if given.by_project and given.key == "compaction.strategy" and ":" in str(value):
        # It is code that runs in the agent's own process.
        raise FoldlineError(
            f"{given.origin}: a project may set compaction.strategy only to one that comes with Foldline; "
            "a class of your own is set in your own settings, FOLDLINE_COMPACTION__STRATEGY or --strategy."
        )
    if given.key == "compaction.strategy" and ":" not in str(value):
        from foldline.compaction.registry import strategy_class

        try:
            strategy_class(str(value))
        except FoldlineError as unknown:
            raise FoldlineError(f"{given.origin}: {given.key}: {unknown}") from None
    return value


def _not_of_a_project(names: Sequence[str]) -> str:
    """Why a project may not set this; empty where it may."""
    match names:
        case ("model" | "fallback",) | ("compaction", "model" | "embedding_model" | "idle"):
            return "whoever clones it would pay for what its authors want; your own settings and -m may"
        case ("provider" | "providers", *_):
            return "whoever clones it would send code and keys where its authors want; your own settings may"
        case ("mcp", *_):
            return "whoever clones it would run the programs its authors want; your own settings may"
        case ("sandbox", *_):
            return "commands would reach what its authors want; your own settings may"
        case ("limits", *_):
            return "whoever clones it would pay for what its authors allow; your own settings may"
        case ("keys", *_):
            return "what you press would do what its authors want; your own settings may"
    return ""


def _unknown(names: Sequence[str]) -> str:
    key, section = dotted(names), dotted(names[:-1])
    sentence = f"there is no setting {key}"
    if names[0] == KEY_SETTINGS:
        return f'{sentence}; each screen has a table of its own: [keys.SCREEN] with COMMAND = "KEY"'
    if names[0] in BY_NAME:
        return f"{sentence}; {_unknown_of_a_table(names, TABLES[names[0]])}"
    beside = [name.rpartition(".")[2] for name in KEYS if section and name.rpartition(".")[0] == section]
    where = f"[{section}] has" if beside else "there are"
    top = dict.fromkeys(f"[{name.partition('.')[0]}]" if "." in name else name for name in KEYS)
    listed = _listed(beside or [*top, *(f"[{any_of(name)}]" for name in BY_NAME)], "and")
    return f"{sentence}; {_close(key, KEYS)}{where} {listed}"


def _unknown_of_a_table(names: Sequence[str], keys: Mapping[str, FieldInfo]) -> str:
    section = names[0]
    what, table = _OF_WHAT[section], any_of(section)
    if len(names) > 3 and names[-1] in keys:
        whole = dotted((section, ".".join(names[1:-1])))
        return f"the name of a {what} goes in quotes where it holds dots: [{whole}]"
    if len(names) < 3:
        return f"each {what} has a table of its own: [{table}] with {_listed([*keys], 'or')}"
    return f"{_close(names[-1], keys)}[{table}] has {_listed([*keys], 'and')}"


def _close(key: str, keys: Iterable[str]) -> str:
    close = get_close_matches(key, keys, n=1)
    return f"did you mean {close[0]}? " if close else ""


def allowed(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    if field is _PRESSED:
        return "a key or a list of keys"
    if choices := choices_of(field):
        return _listed(choices, "or")
    kind, limits = _kind_and_limits(field)
    words = {Amount: ALLOWED, str: "a name", list: "a list of texts", dict: "a table of texts"}
    if (plain := get_origin(kind) or kind) in words:
        return words[plain]
    if kind is int:
        is_tokens = any(isinstance(each, BeforeValidator) for each in limits)
        return f"{ALLOWED_TOKENS if is_tokens else 'a whole number'}{_limits(limits)}"
    return f"a number{_limits(limits)}"


def _limits(limits: Sequence[object]) -> str:
    words = {"ge": "from", "gt": "above", "le": "to"}
    found = ((word, getattr(limit, name, None)) for name, word in words.items() for limit in limits)
    return "".join(f" {word} {limit:,}" for word, limit in found if limit is not None)


def _listed(names: Sequence[str], joint: str) -> str:
    return f"{', '.join(names[:-1])} {joint} {names[-1]}" if len(names) > 1 else names[0]
