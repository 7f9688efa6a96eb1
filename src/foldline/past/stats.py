"""Statistics for a session: entries, tokens by model and calls by tool.

Pure.
"""

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
    """The requests to one model, and their tokens as reported."""

    requests: int = 0
    input: int = 0
    """Total number of input tokens, including the cached part."""
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
    """The calls of one tool."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Stats:
    """The statistics for one session.

    A compaction counts as a request to the model that wrote the summary.
    """

    entries: int = 0
    prompts: int = 0
    answers: int = 0
    failed: int = 0
    """Number of requests that ended with an error."""
    compactions: int = 0
    """Number of compactions, including undone ones."""
    first: datetime | None = None
    last: datetime | None = None
    models: dict[str, ModelUse] = field(default_factory=dict)
    tools: dict[str, ToolUse] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    """Number of entries of each type."""

    def use(self, model: str | None) -> ModelUse:
        return self.models.setdefault(model or "unknown model", ModelUse())

    def count(self, entry: Entry) -> None:
        """Count one entry by its type."""
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
    """Return the statistics for a history.

    Sessions of other agents usually contain no records of requests. In such a session, each answer that names
    a model or states its usage counts as a request. If no answer does, every answer counts.
    """
    stats = Stats()
    answers: list[AssistantMessage] = []
    for entry in entries:
        stats.entries += 1
        stats.kinds[entry.type] = stats.kinds.get(entry.type, 0) + 1
        stats.first = stats.first or entry.at
        stats.last = entry.at or stats.last
        stats.count(entry)
        if isinstance(entry, AssistantMessage):
            answers.append(entry)
    if "request" not in stats.kinds:
        for answer in [
            answer for answer in answers if answer.model or answer.usage
        ] or answers:
            stats.use(answer.model).add(answer.usage)
    return stats
