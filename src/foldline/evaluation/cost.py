"""What the requests of a run cost, under a model of the provider's prompt cache.

The model is ideal: a prefix that was sent within the cache's life is found, message by message. Real servers
miss more, above all after a new user message, so that costs are lower bounds.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from foldline.llm.models import Price
from foldline.protocol import BaseMessage, ThinkingPart, ToolResultMessage, UserMessage

from .record import Meter, PerMessage, Run, Sent

RHO_SWEEP = (1.0, 0.5, 0.25, 0.1, 0.02)
"""Price of cached input, as a share of that of fresh input, from servers without a cache to DeepSeek's."""


@dataclass(frozen=True, slots=True)
class PromptCache:
    """What a provider's prompt cache does."""

    granularity: int  # tokens a cached prefix is rounded down to a multiple of
    minimum: int  # tokens below which nothing is cached
    life: float = 300.0  # seconds after its last use that a prefix stays
    cold_user_turns: bool = False
    """Whether nothing is found right after a new user message: the pessimistic arm."""

    def found(self, prefix: int) -> int:
        """Tokens served from the cache, of a prefix that was sent before."""
        return prefix // self.granularity * self.granularity if prefix >= self.minimum else 0


OPENAI_CACHE = PromptCache(granularity=128, minimum=1_024)
"""As documented for the models before gpt-5.6."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices as multiples of that of fresh input."""

    rho: float  # of cached input
    w: float = 1.0  # of input that is written to the cache
    omega: float = 5.0  # of output

    @classmethod
    def of(cls, price: Price) -> "Rates":
        return cls(price.cached_ratio, price.write, price.output_ratio)


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens of all requests of one run."""

    input: int
    uncached: int
    output: int
    calls: int
    aux: int  # calls that were no steps: summaries
    peak: int  # the longest request's input

    @property
    def cached(self) -> int:
        return self.input - self.uncached

    @property
    def steps(self) -> int:
        return self.calls - self.aux

    @property
    def hit_rate(self) -> float | None:
        """None where nothing was sent."""
        return self.cached / self.input if self.input else None

    def equivalent(self, rates: Rates) -> float:
        """E: the cost in tokens of fresh input."""
        return rates.w * self.uncached + rates.rho * self.cached + rates.omega * self.output

    def dollars(self, price: Price) -> float:
        return self.equivalent(Rates.of(price)) * price.input / 1_000_000


def cost(run: Run, meter: Meter, cache: PromptCache = OPENAI_CACHE, *, tools: int = 0) -> Cost:
    """What a run costs. `tools` are the tokens of the tool schemas, which open each request that has them."""
    sizes = [sent.tokens + (tools if sent.tools else 0) for sent in run.requests]
    known = zip(sizes, cached_prefixes(run.requests, meter, cache, tools=tools), strict=True)
    uncached = (size - cache.found(min(size, prefix)) for size, prefix in known)
    return Cost(
        input=sum(sizes),
        uncached=sum(uncached),
        output=sum(sent.output for sent in run.requests),
        calls=len(sizes),
        aux=sum(sent.kind != "step" for sent in run.requests),
        peak=max(sizes, default=0),
    )


# -- the prompt cache ------------------------------------------------------------------------------


def cached_prefixes(
    requests: Sequence[Sent], meter: Meter, cache: PromptCache, *, tools: int = 0
) -> Iterator[int]:
    """For each request the longest prefix, in tokens, that it shares with an earlier one in the cache.

    All requests are laid into one tree, a branch for each different next message. A branch lives as long as
    the last request through it is young enough.
    """
    tokens = PerMessage(meter.tokens)
    numbers: dict[Hashable, int] = {}
    number = PerMessage(lambda message: numbers.setdefault(as_sent(message), len(numbers)))
    branches: dict[tuple[int, int], int] = {}
    depth = [0, tools]  # tokens from the root to each node: the two roots are the first
    last_use = [float("nan")] * len(depth)  # never: no life is as long as that
    for sent in requests:
        node = _WITH_TOOLS if sent.tools else _WITHOUT_TOOLS
        is_warm = not (cache.cold_user_turns and _opens_turn(sent)) and sent.at - last_use[node] <= cache.life
        shared = depth[node] if is_warm else 0
        last_use[node] = sent.at
        for message in sent.messages:
            following = branches.setdefault((node, number(message)), len(depth))
            if following == len(depth):
                depth.append(depth[node] + tokens(message))
                last_use.append(float("nan"))
            is_warm = is_warm and sent.at - last_use[following] <= cache.life
            if is_warm:
                shared = depth[following]
            last_use[following] = sent.at
            node = following
        yield shared


_WITHOUT_TOOLS, _WITH_TOOLS = 0, 1
"""The two roots of the tree: tool schemas are sent before all messages, if at all."""


def as_sent(message: BaseMessage) -> Hashable:
    """What a server sees of a message; thinking, as most of them, it does not get back."""
    parts = tuple(part for part in message.parts if not isinstance(part, ThinkingPart))
    match message:
        case ToolResultMessage():
            return message.type, message.call_id, parts
        case UserMessage():
            return message.type, message.origin, parts
        case _:
            return message.type, parts


def _opens_turn(sent: Sent) -> bool:
    return sent.kind == "step" and isinstance(sent.messages[-1] if sent.messages else None, UserMessage)


# -- comparisons -----------------------------------------------------------------------------------


def churn(compacted: Cost, raw: Cost) -> float | None:
    """Uncached tokens as a multiple of the raw session's: far above 1 where prefixes change all the time."""
    return compacted.uncached / raw.uncached if raw.uncached else None


def elongation_tolerance(compacted: Cost, raw: Cost, rates: Rates) -> float | None:
    """How many more steps of the same mean cost would cancel the saving; negative where there is none.

    For scale: JetBrains measured 4 % more steps under masking, 20 % under summaries.
    """
    spent = compacted.equivalent(rates)
    return (raw.equivalent(rates) - spent) / (spent / compacted.steps) if spent and compacted.steps else None
