"""Declares every setting with its meaning, default and allowed values, and validates values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from foldline.protocol import ApprovalMode, FoldlineError

from .amounts import (
    ALLOWED,
    ALLOWED_TOKENS,
    Amount,
    BoundTokens,
    Names,
    OnOff,
    OnOffAuto,
    SoftRatio,
    TokensOrShare,
    Window,
)
from .layers import (
    BY_NAME,
    KEY_SETTINGS,
    MCP,
    MODELS,
    PROVIDERS,
    RawSetting,
    dotted,
)

NOT_FOR_PROJECTS = "{origin}: a project cannot set {key}. {reason}"
NOT_ALLOWED = "{origin}: {key} cannot be {value}. Allowed: {allowed}."
PROJECT_MODE = (
    "{origin}: a project can only set approvals.mode to 'ask'. Use your own settings, "
    "FOLDLINE_APPROVALS__MODE or --yes to let more run without asking."
)
PROJECT_STRATEGY = (
    "{origin}: a project can only set compaction.strategy to one of Foldline's own. Use your own settings, "
    "FOLDLINE_COMPACTION__STRATEGY or --strategy to use your own class."
)
PAYS = "Anyone who clones the project would pay for it. Use your own settings or -m."
PAYS_MORE = "Anyone who clones the project might pay more. Use your own settings."
SENDS = "Code and keys of anyone who clones the project would be sent there. Use your own settings."
RUNS = "Anyone who clones the project would run this program. Use your own settings."
REACHES = "Commands could access more than you want. Use your own settings."
REBINDS = "Your keys would do something unexpected. Use your own settings."
UNKNOWN = "there is no setting {key}"
DID_YOU_MEAN = "Did you mean {key}? "
KEYS_TABLE = 'Each screen has its own table, [keys.SCREEN], with lines COMMAND = "KEY"'
OWN_TABLE = (
    "Each {owner} has its own table, [{table}], with {keys}. "
    "A name that contains dots needs quotes"
)
ALL_SETTINGS = "`foldline config` lists all settings"


class SettingsSection(BaseModel):
    """A table of the settings.

    The docstring of a field is its description for users (`descriptions.py`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


class ContextSettings(SettingsSection):
    """`[context]`: the model's window."""

    window: Window | None = None
    """The context window in tokens, if the built-in value for the model is wrong."""
    cache_life: Literal["5m", "1h"] = "5m"
    """How long Claude's cache keeps content. 1h suits long pauses; writing then costs 2 instead of 1.25 times
    the input."""
    dmail: bool = False
    """Let the model rewind itself to an earlier step and leave itself a message, with the `send_dmail`
    tool."""


class CompactionSettings(SettingsSection):
    """`[compaction]`: when and how the conversation is compacted.

    Unset sizes depend on the window.
    """

    mode: Literal["auto", "ask", "off"] = "auto"
    """auto: compact automatically when the window is full; ask: show the proposal first; off: only compact
    when you ask for it."""
    strategy: Annotated[str, Field(min_length=1)] = "adaptive"
    """How the conversation is compacted: adaptive, summary, simple, hide, hide-then-summary, ladder,
    importance, semantic, hierarchical, digest, or `module:ClassName`."""
    model: str = ""
    """The model that writes the summaries, also as `MODEL@PROVIDER`. Empty: the session's model."""
    threshold: TokensOrShare | None = None
    """Request size that triggers a compaction. Takes precedence over `reserve_tokens`. Not set: the window
    minus the reserve."""
    reserve_tokens: TokensOrShare | None = None
    """Tokens reserved for the answer. The window counts as full if fewer are free."""
    keep_recent_tokens: TokensOrShare | None = None
    """How much of the newest work a compaction keeps verbatim."""
    max_summary_tokens: TokensOrShare | None = None
    """The maximum length of a summary."""
    soft_ratio: SoftRatio = 0.75
    """Fraction of the threshold. Above it, the meter shows the planned cut, and a compaction may start when
    the model finishes a task."""
    draft_ahead: OnOff = "on"
    """Prepare the summary in the background once `soft_ratio` is reached, so that you need not wait for it
    when the window is full. off: call no model before a compaction is due."""


class ModelSettings(SettingsSection):
    """`[models."NAME"]`: values for one model."""

    window: Window | None = None
    """Its context window in tokens; overrides `context.window`."""


class ProviderSettings(SettingsSection):
    """`[providers.NAME]`: your own provider, or changes to one that Foldline knows."""

    base_url: str | None = None
    """The base URL of its API: `https://host/v1`. Required for your own provider."""
    key_env: str | None = None
    """The environment variable with its key. Empty: the provider needs no key, or it is in `keys.toml`."""
    key_command: str | None = None
    """A command that prints its key on the first line, such as `pass show box`. It is run once, without a
    shell, if the variable is not set. Takes precedence over `keys.toml`."""
    api: Literal["chat", "responses", "messages"] | None = None
    """chat: `/chat/completions`; responses: `/responses`; messages: Anthropic's `/messages`."""
    dialect: (
        Literal[
            "openai", "strict", "strict-thinking", "mistral", "gemini", "openrouter"
        ]
        | None
    ) = None
    """How messages are formatted for the provider: see [Providers](providers.md)."""
    models: list[str] | None = None
    """Models to choose from, if the server lists none. The first one is the default."""


class McpSettings(SettingsSection):
    """`[mcp.NAME]`: a tool server, either a program or a URL."""

    command: str = ""
    """The program that is started."""
    args: list[str] = []
    """Arguments of the program."""
    env: dict[str, str] = {}
    """Environment variables of the program."""
    cwd: str = ""
    """Working folder of the program. Empty: the folder of the session."""
    url: str = ""
    """The URL of a server that is reached over HTTP."""
    headers: dict[str, str] = {}
    """HTTP headers of every request."""
    sandbox: OnOff = "on"
    """Run the program in the sandbox in the `sandboxed` and `read-only` modes."""
    writable: Names = []
    """Folders it may write in the sandbox, in addition to those of `[sandbox]`."""
    hosts: Names = []
    """Hosts it may reach from the sandbox, in addition to those of `[sandbox]`."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 120
    """Timeout of a call in seconds."""
    enabled: bool = True
    """Whether the server is started."""


class ApprovalSettings(SettingsSection):
    """`[approvals]`: which tool calls run without asking you."""

    mode: ApprovalMode = "ask"
    """Calls that run without asking. ask: reads; edits: reads and edits inside the folder; sandboxed: these,
    and commands in the sandbox, if there is one; read-only: reads, and nothing can be changed; all:
    everything; plan: reads, and nothing can be changed until you accept a plan."""


class SandboxSettings(SettingsSection):
    """`[sandbox]`: what commands may access in `sandboxed` and `read-only` mode, besides their folder."""

    writable: Names = []
    """Additional folders that commands may read and write, such as a package cache. `~` is your home
    folder."""
    hidden: Names = []
    """Additional files and folders that commands may not read. See security.md for those always hidden."""
    hosts: Names = []
    """Hosts that commands may reach without asking you. `*.example.org` means all of its subdomains."""
    memory: Annotated[float, Field(ge=0, le=100)] = 50
    """Memory that one program may use, as a percentage of this machine's. 0: no limit."""


Steps = Annotated[int, Field(ge=0)]
Cost = Annotated[float, Field(ge=0)]


class LimitSettings(SettingsSection):
    """`[limits]`: a turn stops when it, or its session, reaches one of these limits. 0: no limit."""

    turn_steps: Steps | None = None
    """Requests per turn, including those for summaries. Not set: 200 in `run`, no limit in the chat."""
    turn_tokens: BoundTokens | None = None
    """Tokens per turn: reported input (including cached) and output. Not set: 20M in `run`, no limit in the
    chat."""
    turn_cost: Cost | None = None
    """USD per turn, according to the price table. Models without a known price count as free, with a warning.
    Not set: 10 in `run`, no limit in the chat."""
    session_steps: Steps = 0
    """Requests per session."""
    session_tokens: BoundTokens = 0
    """Tokens per session."""
    session_cost: Cost = 0
    """USD per session."""
    subagent_steps: Steps = 100
    """Requests per subagent, including those for summaries. Their tokens also count for the turn and the
    session."""
    equal_steps: Steps = 5
    """How many identical steps, with the same calls and results, count as a loop. The chat then asks you what
    to do, and `run` stops. 0: never."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The active limits of a turn and a session; 0 means no limit."""

    turn_steps: int = 0
    turn_tokens: int = 0
    """Input and output tokens, as reported."""
    turn_cost: float = 0.0
    """Cost in USD."""
    session_steps: int = 0
    session_tokens: int = 0
    session_cost: float = 0.0
    subagent_steps: int = 100
    equal_steps: int = 0
    """Number of identical steps that count as a loop."""
    cost_is_usual: bool = False
    """Whether `turn_cost` is the default. If so, there is no warning about a model with an unknown price."""


UNWATCHED = Limits(
    turn_steps=200, turn_tokens=20_000_000, turn_cost=10.0, cost_is_usual=True
)
"""Default limits without a user watching. A turn that reaches them is probably stuck."""


class OfflineSettings(SettingsSection):
    """`[offline]`: the built-in model, which needs no server."""

    window: Window = 16_384
    """Its context window in tokens. The default is small, so that you soon see a compaction."""
    pace: Annotated[float, Field(ge=0, le=10)] = 0.008
    """Seconds between two words of its answers."""


class AllSettings(SettingsSection):
    """Every setting, by its section."""

    model: str = ""
    """`offline`, or one of the provider's models, also as `MODEL@PROVIDER`. Empty: the provider's default
    model, or `offline` without a provider."""
    provider: str = ""
    """The name of the provider; `env` is the server at OPENAI_BASE_URL. Empty: that server if the variable is
    set, otherwise OpenAI if OPENAI_API_KEY is set."""
    fallback: Names = []
    """Models that take over if the model fails permanently, as `["MODEL@PROVIDER", …]`, in this order. The
    chat asks you first; `run` and pipes report the switch on stderr."""
    effort: Literal[
        "default", "none", "minimal", "low", "medium", "high", "xhigh", "max"
    ] = "default"
    """Reasoning effort of the model. See the provider's documentation for supported values. default: sends
    no value."""
    theme: str = "auto"
    """The name of the colour theme; `auto` follows the terminal, dark or light."""
    theme_background: Literal["terminal", "theme"] = "terminal"
    """Whose background to use, the terminal's or the theme's. A light theme in a dark terminal always uses
    its own, and vice versa."""
    ascii: OnOffAuto = "auto"
    """Draw marks, frames and meters in ASCII, for terminals that lack other characters or draw them two cells
    wide. auto: depends on the terminal."""
    notify: Literal["off", "bell", "desktop"] = "off"
    """How to notify you of a question or the end of a turn while the window has no focus: with the terminal's
    bell, or with a desktop notification and the progress in the terminal's tab."""
    context: ContextSettings = ContextSettings()
    compaction: CompactionSettings = CompactionSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    limits: LimitSettings = LimitSettings()
    sandbox: SandboxSettings = SandboxSettings()
    offline: OfflineSettings = OfflineSettings()
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """Settings for single models, by the model's name on the server in lower case."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """Providers, by name in lower case."""
    mcp: dict[str, McpSettings] = Field(default_factory=dict)
    keys: dict[str, dict[str, str | list[str]]] = Field(default_factory=dict)
    """Your key bindings, by screen and command."""


def _fields_of(
    model: type[BaseModel], before: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Yield all settings by dotted key, except tables with names that the user chooses."""
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _fields_of(section, f"{before}{name}.")
        elif get_origin(section) is not dict:
            yield f"{before}{name}", field


KEYS: Mapping[str, FieldInfo] = dict(_fields_of(AllSettings))
"""All settings by dotted key, except those of one model, provider or tool server."""
LABELS: Mapping[str, str] = {
    "model": "Model",
    "provider": "Provider",
    "fallback": "Fallback models",
    "effort": "Reasoning effort",
    "theme": "Theme",
    "theme_background": "Background",
    "ascii": "ASCII marks",
    "notify": "Notifications",
    "context.window": "Context window",
    "context.cache_life": "Cache lifetime",
    "context.dmail": "Model may rewind itself",
    "compaction.mode": "Compaction",
    "compaction.strategy": "Compaction strategy",
    "compaction.model": "Summary model",
    "compaction.threshold": "Compact at",
    "compaction.reserve_tokens": "Reserved for the answer",
    "compaction.keep_recent_tokens": "Recent work kept",
    "compaction.max_summary_tokens": "Maximum summary size",
    "compaction.soft_ratio": "Early compaction from",
    "compaction.draft_ahead": "Prepare summary early",
    "approvals.mode": "Permissions",
    "limits.turn_steps": "Requests per turn",
    "limits.turn_tokens": "Tokens per turn",
    "limits.turn_cost": "Cost per turn",
    "limits.session_steps": "Requests per session",
    "limits.session_tokens": "Tokens per session",
    "limits.session_cost": "Cost per session",
    "limits.subagent_steps": "Requests per subagent",
    "limits.equal_steps": "Loop: identical steps",
    "sandbox.writable": "Sandbox: folders",
    "sandbox.hidden": "Sandbox: hidden files",
    "sandbox.hosts": "Sandbox: hosts",
    "sandbox.memory": "Sandbox: memory",
    "offline.window": "Offline model: window",
    "offline.pace": "Offline model: pace",
}
"""Labels on the Settings screen."""
ADVANCED = frozenset(
    {
        "theme_background",
        "context.cache_life",
        "context.dmail",
        "compaction.reserve_tokens",
        "compaction.keep_recent_tokens",
        "compaction.max_summary_tokens",
        "compaction.soft_ratio",
        "compaction.draft_ahead",
        "limits.session_steps",
        "limits.session_tokens",
        "limits.subagent_steps",
        "limits.equal_steps",
        "sandbox.hidden",
        "sandbox.memory",
        "offline.window",
        "offline.pace",
    }
)
"""Settings that most users never change. Lists show them last, and folded."""
TABLES: Mapping[str, Mapping[str, FieldInfo]] = {
    MODELS: ModelSettings.model_fields,
    PROVIDERS: ProviderSettings.model_fields,
    MCP: McpSettings.model_fields,
}
"""Settings of sections with named tables, by section and key."""

_OF_WHAT = {MODELS: "model", PROVIDERS: "provider", MCP: "tool server"}
_WITH_SECRETS = frozenset({"args", "env", "headers", "key_command"})
"""Keys of tool servers and providers whose values may contain secrets."""


def any_of(section: str) -> str:
    """Return a placeholder for any table of a section, for messages and docs."""
    return f'{section}."NAME"' if section == MODELS else f"{section}.NAME"


def is_secret(names: Sequence[str]) -> bool:
    """Return whether a setting may contain a secret and must not be shown."""
    return len(names) > 2 and names[0] in (MCP, PROVIDERS) and names[2] in _WITH_SECRETS


def field_of(names: Sequence[str]) -> FieldInfo:
    """Return the declaration of the setting whose key has these parts.

    Raises:
        KeyError: there is no such setting.
    """
    match names:
        case (section, name, key) if section in BY_NAME and name.strip():
            return TABLES[section][key]
        case (section, name, key, _) if section in BY_NAME and name.strip():
            # An inner table, such as `[mcp.NAME.env]`. All its values are strings.
            if get_origin(TABLES[section][key].annotation) is dict:
                return _TEXT
        case (section, _, _) if section == KEY_SETTINGS:
            return _PRESSED  # the screens check their names and commands
    return KEYS[dotted(names)]


_TEXT = FieldInfo(annotation=str)
_PRESSED = FieldInfo(annotation=str | list[str])


def kind_of(field: FieldInfo) -> Any:
    """Return the type of a setting, without `None` and limits."""
    return _kind_and_limits(field)[0]


def _kind_and_limits(field: FieldInfo) -> tuple[Any, list[object]]:
    kind: Any = field.annotation
    limits: list[object] = [*field.metadata]
    if get_origin(kind) in (UnionType, Union):
        kind = next(option for option in get_args(kind) if option is not type(None))
    while get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        for item in inner:
            limits += item.metadata if isinstance(item, FieldInfo) else [item]
    return kind, limits


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """Return the allowed values, if the declaration lists them."""
    kind = kind_of(field)
    if kind is bool:
        return ("true", "false")
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def checked(given: RawSetting) -> object:
    """Validate the value of a setting.

    Raises:
        FoldlineError: the key is unknown, or the value is not allowed.
    """
    if given.by_project and (why := _not_of_a_project(given.names)):
        raise FoldlineError(
            NOT_FOR_PROJECTS, origin=given.origin, key=given.key, reason=why
        )
    try:
        field = field_of(given.names)
    except KeyError:
        raise FoldlineError(f"{given.origin}: {_unknown(given.names)}.") from None
    kind: Any = Annotated[field.annotation, field]
    try:
        value: object = TypeAdapter(kind).validate_python(given.value)
    except ValidationError:
        value_text = "that" if is_secret(given.names) else repr(given.value)
        raise FoldlineError(
            NOT_ALLOWED,
            origin=given.origin,
            key=given.key,
            value=value_text,
            allowed=allowed(field),
        ) from None
    if given.by_project and given.key == "approvals.mode" and value != "ask":
        # Otherwise, cloning a project could allow commands to run without asking.
        raise FoldlineError(PROJECT_MODE, origin=given.origin)
    if given.by_project and given.key == "compaction.strategy" and ":" in str(value):
        # The class runs in the agent's own process.
        raise FoldlineError(PROJECT_STRATEGY, origin=given.origin)
    if given.key == "compaction.strategy" and ":" not in str(value):
        from foldline.compaction.registry import strategy_class

        try:
            strategy_class(str(value))
        except FoldlineError as unknown:
            raise FoldlineError(f"{given.origin}: {given.key}: {unknown}") from None
    return value


def _not_of_a_project(names: tuple[str, ...]) -> str:
    """Return why a project cannot set this, in sentences; empty if it can."""
    if names in (("model",), ("compaction", "model")):
        return PAYS
    return _REASONS.get(names[0], "")


_REASONS = {
    "fallback": PAYS,
    "provider": SENDS,
    "providers": SENDS,
    "mcp": RUNS,
    "sandbox": REACHES,
    "limits": PAYS_MORE,
    "keys": REBINDS,
}
"""Sections and keys that a project cannot set, each with the reason."""


def _unknown(names: Sequence[str]) -> str:
    """Describe the problem and the possible settings, without a full stop."""
    sentence = UNKNOWN.format(key=dotted(names))
    section = names[0]
    if section == KEY_SETTINGS:
        return f"{sentence}. {KEYS_TABLE}"
    if section not in BY_NAME:
        return f"{sentence}. {_close(dotted(names), KEYS)}{ALL_SETTINGS}"
    keys = TABLES[section]
    table = OWN_TABLE.format(
        owner=_OF_WHAT[section],
        table=any_of(section),
        keys=_listed([*keys], "and"),
    )
    return f"{sentence}. {_close(names[-1], keys)}{table}"


def _close(key: str, keys: Iterable[str]) -> str:
    close = get_close_matches(key, keys, n=1)
    return DID_YOU_MEAN.format(key=close[0]) if close else ""


def allowed(field: FieldInfo) -> str:
    """Describe the allowed values of a setting."""
    if field is _PRESSED:
        return "a key or a list of keys"
    if choices := choices_of(field):
        return _listed(choices, "or")
    kind, limits = _kind_and_limits(field)
    words = {
        Amount: ALLOWED,
        str: "a name",
        list: "a list of strings",
        dict: "a table of strings",
    }
    plain = get_origin(kind) or kind
    if plain in words:
        return words[plain]
    number = "a number"
    if kind is int:
        is_tokens = any(isinstance(limit, BeforeValidator) for limit in limits)
        number = ALLOWED_TOKENS if is_tokens else "a whole number"
    return number + _limits(limits)


def _limits(limits: Sequence[object]) -> str:
    words = {"ge": "from", "gt": "above", "le": "to"}
    bounds = (
        (word, getattr(limit, name, None))
        for name, word in words.items()
        for limit in limits
    )
    return "".join(f" {word} {bound:,}" for word, bound in bounds if bound is not None)


def _listed(names: Sequence[str], joint: str) -> str:
    return (
        f"{', '.join(names[:-1])} {joint} {names[-1]}" if len(names) > 1 else names[0]
    )
