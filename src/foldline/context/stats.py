"""What a session came to, counted from its history alone. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    RequestRecord,
    ToolResultMessage,
    Usage,
    UserMessage,
)


@dataclass(slots=True)
class ModelUse:
    """What one model was asked, in tokens as its provider reported them."""

    requests: int = 0
    input: int = 0
    """All input, the cached part included."""
    cached: int = 0
    output: int = 0

    def add(self, usage: Usage | None) -> None:
        self.requests += 1
        if usage is not None:
            self.input += usage.input
            self.cached += usage.cached
            self.output += usage.output


@dataclass(slots=True)
class ToolUse:
    calls: int = 0
    errors: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Stats:
    """The counts. Folds count as requests of the model that wrote the summary, where it reported any."""

    entries: int = 0
    prompts: int = 0
    answers: int = 0
    failed: int = 0
    """Requests that ended in an error."""
    folds: int = 0
    folded_away: int = 0
    """Tokens that the folds of known sizes took out of the view together."""
    first: datetime | None = None
    last: datetime | None = None
    models: dict[str, ModelUse] = field(default_factory=dict)
    tools: dict[str, ToolUse] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    """How many entries there are of each type."""


def stats_of(entries: Iterable[Entry]) -> Stats:
    """Counts a history. Where it records no requests, as other agents' sessions, the usage of answers stands
    for them."""
    stats, unrecorded = Stats(), []
    for entry in entries:
        stats.entries += 1
        stats.kinds[entry.type] = stats.kinds.get(entry.type, 0) + 1
        stats.first = stats.first or entry.at
        stats.last = entry.at or stats.last
        match entry:
            case UserMessage(origin="typed"):
                stats.prompts += 1
            case AssistantMessage():
                stats.answers += 1
                unrecorded.append(entry)
            case ToolResultMessage():
                _count_tool(stats, entry)
            case Compaction():
                stats.folds += 1
                if entry.tokens_after:  # other agents do not record it
                    stats.folded_away += max(0, entry.tokens_before - entry.tokens_after)
                if entry.usage is not None:
                    _use(stats, entry.model).add(entry.usage)
            case RequestRecord():
                stats.failed += entry.error is not None
                _use(stats, entry.model).add(entry.usage)
            case _:
                pass
    if "request" not in stats.kinds:
        for answer in unrecorded:
            _use(stats, answer.model).add(answer.usage)
    return stats


def _use(stats: Stats, model: str | None) -> ModelUse:
    return stats.models.setdefault(model or "unknown model", ModelUse())


def _count_tool(stats: Stats, result: ToolResultMessage) -> None:
    use = stats.tools.setdefault(result.name or "unknown tool", ToolUse())
    use.calls += 1
    use.errors += result.is_error
    use.seconds += result.details.seconds or 0.0
