"""The reading job: prompts to read large files through a small window.

The first prompt gives a rule that must survive. Agent, read tool and client are real, the test server runs in
its own process. All figures come from the server's log.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.history import Session
from foldline.protocol import RequestRecord, operations
from support.agents import Watch, agent_in
from support.clients import chat_at
from support.job_files import KINDS, Coverage, make_files
from support.job_reader import ONE_BY_ONE, TOGETHER, is_summary_request
from support.server_checks import CACHE_STEP, count, count_by, request_tokens, text_of
from support.server_process import Seen, running_server

SCRIPT = [{"answer": {"builtin": "reader"}}]
RULE = (
    "Never write to the folder vendored/third-party, and always run `make check-all` "
    "before you say that something works."
)


@dataclass(frozen=True)
class Job:
    window: int
    """Tokens."""
    prompts: int
    reads: int
    """Files per prompt."""
    together: bool
    """Whether all reads of a prompt are one step, or each its own."""
    strategy: str = "summary"
    ahead: bool = False
    """Whether the next compaction is drafted in the background, as in the chat."""
    plain: bool = False
    """Code only, at four characters a token: the setting of issue 19, which compared Foldline with other
    agents.
    """

    @property
    def name(self) -> str:
        how = f"{self.strategy}{' ahead' if self.ahead else ''}"
        kind = ", code" if self.plain else ""
        return f"{self.window // 1024}k, {self.prompts} x {self.reads} reads{kind}, {self._order}, {how}"

    @property
    def _order(self) -> str:
        return TOGETHER if self.together else ONE_BY_ONE

    async def run(self, folder: Path) -> "Report":
        """Run the job in an empty folder, to the end."""
        kinds = ("py",) if self.plain else tuple(KINDS)
        files = make_files(folder / "project", self.prompts * self.reads, kinds)
        flags = ("--characters", str(self.characters))
        with running_server(
            window=self.window, script=SCRIPT, strict=True, flags=flags
        ) as server:
            llm = chat_at(server.base_url, model=server.model, window=self.window)
            options = {
                "compaction": self.strategy,
                "draft_ahead": self.ahead,
                "interactive": self.ahead,
            }
            agent, watch = agent_in(folder / "project", llm, **options)
            try:
                answers = []
                for prompt in self._asked(files):
                    answers.append((await agent.prompt(prompt)).text)
                    if self.ahead:
                        await _at_rest(agent, watch)
            finally:
                await agent.aclose()
            return Report(self, files, answers, server.requests(), agent.session)

    @property
    def characters(self) -> int:
        """Characters per token; 0 for the server's own rule."""
        return 4 if self.plain else 0

    def _asked(self, files: Sequence[Path]) -> Iterator[str]:
        for number in range(self.prompts):
            names = [path.name for path in files[number * self.reads :][: self.reads]]
            rule = f" {RULE}" if number == 0 else ""
            yield f"Read {', '.join(names)} {self._order} and say what is out of place.{rule}"


async def _at_rest(agent: Agent, watch: Watch) -> None:
    """Compact while idle, as the chat does once a due draft is ready."""
    if agent.at_good_moment():
        agent.executor.submit(operations.CompactSession(reason="phase"))
        await agent.executor.settle()
    await watch.until(lambda: not agent.state.compaction.draft.drafting)
    await agent.executor.settle()


@dataclass(frozen=True)
class Report:
    """The figures of a job, from the server's log."""

    job: Job
    files: list[Path]
    answers: list[str]
    requests: list[Seen]
    session: Session

    @cached_property
    def refused(self) -> list[str]:
        """The errors of refused requests: overflow or others."""
        return [seen.rejected for seen in self.requests if seen.rejected]

    @cached_property
    def summaries(self) -> list[Seen]:
        return [seen for seen in self.requests if is_summary_request(seen.body)]

    @cached_property
    def ordinary(self) -> list[Seen]:
        return [
            seen
            for seen in self.requests
            if not is_summary_request(seen.body) and not seen.rejected
        ]

    @cached_property
    def coverage(self) -> Coverage:
        """The lines that tool results carried to the model in ordinary requests."""
        seen = Coverage(self.files)
        sent = dict.fromkeys(
            text_of(message["content"])
            for request in self.ordinary
            for message in request.messages
            if message["role"] == "tool"
        )
        for text in sent:
            seen.add(text)
        return seen

    @cached_property
    def tokens_read(self) -> int:
        """Tokens of all files, by the server's count."""
        count_by(self.job.characters)
        return sum(count(path.read_text(encoding="utf-8")) for path in self.files)

    @property
    def input(self) -> int:
        return sum(seen.prompt_tokens for seen in self.requests)

    @property
    def uncached(self) -> int:
        """Input not served by the prefix cache, summaries included."""
        return sum(map(uncached, self.requests))

    def cost(self, cached: float) -> float:
        """Return the price of all input, in uncached tokens.

        `cached` is the price of a cached token.
        """
        return self.uncached + cached * (self.input - self.uncached)

    @property
    def ratio(self) -> float:
        return self.uncached / self.tokens_read

    @property
    def rule_survives(self) -> bool:
        return any(
            RULE in text_of(message.get("content"))
            for message in self.ordinary[-1].messages
        )

    @cached_property
    def bill(self) -> "Bill":
        count_by(self.job.characters)
        return _bill(self.requests)


@dataclass
class Bill:
    """The uncached input by cause, in tokens."""

    results: int = 0
    """Tool results in the first ordinary request with them."""
    heads: int = 0
    """System messages, and the tool schemas once."""
    talk: int = 0
    """Prompts, answers and calls in their first request."""
    again: int = 0
    """Messages sent before: the tail kept by a compaction."""
    summaries: int = 0

    def __str__(self) -> str:
        return (
            f"results {self.results:,}, heads {self.heads:,}, talk {self.talk:,}, "
            f"sent again {self.again:,}, summaries {self.summaries:,}"
        )


def _bill(requests: Sequence[Seen]) -> Bill:
    bill = Bill()
    seen_before: set[str] = set()
    for seen in requests:
        if seen.rejected:
            continue
        if is_summary_request(seen.body):
            bill.summaries += uncached(seen)
            continue
        new = [
            (message, text)
            for message in seen.messages
            if (text := json.dumps(message)) not in seen_before
        ]
        seen_before.update(text for _, text in new)
        paid = uncached(seen)
        for message, _ in reversed(new):
            # New messages are at the end; other uncached input was sent before.
            tokens = min(paid, tokens_of(message))
            paid -= tokens
            match message["role"]:
                case "tool":
                    bill.results += tokens
                case "system":
                    bill.heads += tokens
                case _:
                    bill.talk += tokens
        if len(seen_before) == len(new):
            bill.heads += paid
        else:
            bill.again += paid
    return bill


def tokens_of(message: dict[str, Any]) -> int:
    return len(request_tokens({"messages": [message]}))


def uncached(seen: Seen) -> int:
    return seen.prompt_tokens - seen.cached_tokens


def extends(earlier: Seen, later: Seen) -> bool:
    """Return whether a request only appends messages to an earlier one, with the same tools."""
    before = earlier.messages
    return later.messages[: len(before)] == before and later.body.get(
        "tools"
    ) == earlier.body.get("tools")


def broken_prefixes(requests: Sequence[Seen], session: Session) -> Iterator[str]:
    """Yield answered ordinary requests that lost their prefix or its cache.

    Requests after an entry that changed the view are left out.
    """
    records = [
        entry
        for entry in session.entries
        if isinstance(entry, RequestRecord) and not entry.error
    ]
    assert len(requests) == len(records), "each ordinary request has its record"
    changes = [marker.index for marker in session.projection.markers]
    before: Any = None
    for seen, record in zip(requests, records, strict=True):
        body = seen.body
        if before is not None:
            then, body_before, until = before
            changed = bisect_left(changes, until) < bisect_left(changes, record.index)
            goes_on = (
                body["messages"][: len(body_before["messages"])]
                == body_before["messages"]
            )
            is_served = (
                goes_on
                and body.get("tools") == body_before.get("tools")
                and served(then, seen)
            )
            if not is_served and not changed:
                yield f"request {seen.nth}, after request {then.nth}: {seen.cached_tokens:,} cached"
        before = seen, body, record.index


def served(earlier: Seen, later: Seen) -> bool:
    """Return whether the cache served all full blocks of the earlier request."""
    return later.cached_tokens >= earlier.prompt_tokens // CACHE_STEP * CACHE_STEP
