"""The sections of the settings: every key there is, with its meaning, its default and what it may be."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator

from foldline.context.budget import SMALLEST_WINDOW

from .approvals import Mode
from .layers import on_or_off
from .room import ALLOWED, Amount, parse_amount, parse_tokens


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

OnOff = Annotated[Literal["on", "off"], BeforeValidator(on_or_off)]
OnOffAuto = Annotated[Literal["auto", "on", "off"], BeforeValidator(on_or_off)]

Window = Annotated[Tokens, Field(ge=SMALLEST_WINDOW)]
SoftRatio = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A table of the settings: unknown keys are refused, and what stands below a key is its meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ContextSettings(Section):
    """`[context]`: the model's window."""

    window: Window | None = None
    """The context window in tokens, where what is known of the model is wrong."""
    dmail: bool = False
    """Whether the model may go back to an earlier step with a message to itself: the tool `send_dmail`."""


class CompactionSettings(Section):
    """`[compaction]`: when and how the history is folded. Sizes left out scale with the window."""

    mode: Literal["auto", "ask", "off"] = "auto"
    """auto: a full window is folded by itself; ask: you see the proposal first; off: never unasked."""
    strategy: Annotated[str, Field(min_length=1)] = "adaptive"
    """How a view is rewritten: adaptive, summary, simple, hide, hide-then-summary, ladder, importance,
    semantic, hierarchical, digest, or `module:ClassName`."""
    model: str = ""
    """The model that writes the summaries, also as `MODEL@PROVIDER`. Empty: the one of the session."""
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
    draft_ahead: OnOff = "on"
    """Whether the next fold is drafted in the background from there on: a full window then waits for nothing.
    off: no model is asked before a fold is due."""


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
    api: Literal["chat", "responses"] | None = None
    """chat: `/chat/completions`; responses: `/responses`."""
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
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 120
    """Seconds a call may take."""
    enabled: bool = True
    """Whether it is used."""


class ApprovalSettings(Section):
    """`[approvals]`: which tool calls run without a question."""

    mode: Mode = "ask"
    """ask: only reads run unasked; edits: edits inside the folder, too; all: everything."""


class OfflineSettings(Section):
    """`[offline]`: the built-in model."""

    window: Window = 16_384
    """Its context window in tokens: small, so that folding is seen soon."""
    pace: Annotated[float, Field(ge=0, le=10)] = 0.008
    """Seconds between two words of its answers."""
