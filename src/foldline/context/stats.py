"""What a session came to, counted from its history alone. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    NoticeRecord,
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
    """The counts. Compactions count as requests of the model that wrote the summary, as reported."""

    entries: int = 0
    prompts: int = 0
    answers: int = 0
    failed: int = 0
    """Requests that ended in an error."""
    compactions: int = 0
    """Compactions, undone ones included."""
    first: datetime | None = None
    last: datetime | None = None
    models: dict[str, ModelUse] = field(default_factory=dict)
    tools: dict[str, ToolUse] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    """How many entries there are of each type."""

    def use(self, model: str | None) -> ModelUse:
        return self.models.setdefault(model or "unknown model", ModelUse())

    def count(self, entry: Entry) -> None:
        """One more entry, by what it is."""
        match entry:
            case UserMessage(origin="typed"):
                self.prompts += 1
            case AssistantMessage():
                self.answers += 1
            case ToolResultMessage():
                use = self.tools.setdefault(entry.name or "unknown tool", ToolUse())
                use.calls += 1
                use.errors += entry.is_error
                use.seconds += entry.details.seconds or 0.0
            case Compaction() | NoticeRecord():
                self.compactions += isinstance(entry, Compaction)
                if entry.usage is not None:
                    self.use(entry.model).add(entry.usage)
            case RequestRecord():
                self.failed += entry.error is not None
                self.use(entry.model).add(entry.usage)
            case _:
                pass


def stats_of(entries: Iterable[Entry]) -> Stats:
    """Counts a history. Where it records no requests, as other agents' sessions, the usage of answers stands
    for them: of those with a model or usage, if any has one."""
    stats = Stats()
    unrecorded: list[AssistantMessage] = []
    for entry in entries:
        stats.entries += 1
        stats.kinds[entry.type] = stats.kinds.get(entry.type, 0) + 1
        stats.first = stats.first or entry.at
        stats.last = entry.at or stats.last
        stats.count(entry)
        if isinstance(entry, AssistantMessage):
            unrecorded.append(entry)
    asked = [answer for answer in unrecorded if answer.model or answer.usage] or unrecorded
    for answer in asked if "request" not in stats.kinds else ():
        stats.use(answer.model).add(answer.usage)
    return stats
