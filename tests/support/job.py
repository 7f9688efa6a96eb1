"""The reading job: a rule, then prompt after prompt to read large files, through a window far too small.

The real agent, the real read tool and the real client, against the test server in its own process. What it
came to is read off the server's log alone.
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
    """Files that each prompt asks for."""
    together: bool
    """All reads of a prompt in one step, or one a step."""
    strategy: str = "summary"
    ahead: bool = False
    """Whether it runs as in the chat, where the next compaction is drafted in the background."""
    plain: bool = False
    """Code alone, four characters a token: as issue 19 counted, when it held us against other agents."""

    @property
    def name(self) -> str:
        how = f"{self.strategy}{' ahead' if self.ahead else ''}"
        kind = ", code" if self.plain else ""
        return f"{self.window // 1024}k, {self.prompts} x {self.reads} reads{kind}, {self._order}, {how}"

    @property
    def _order(self) -> str:
        return TOGETHER if self.together else ONE_BY_ONE

    async def run(self, folder: Path) -> "Report":
        """Runs it in an empty folder, to the end."""
        kinds = ("py",) if self.plain else tuple(KINDS)
        files = make_files(folder / "project", self.prompts * self.reads, kinds)
        flags = ("--characters", str(self.characters))
        with running_server(window=self.window, script=SCRIPT, strict=True, flags=flags) as server:
            llm = chat_at(server.base_url, model=server.model, window=self.window)
            options = {"compaction": self.strategy, "draft_ahead": self.ahead, "interactive": self.ahead}
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
        """Of a token; 0: the server's own rule."""
        return 4 if self.plain else 0

    def _asked(self, files: Sequence[Path]) -> Iterator[str]:
        for number in range(self.prompts):
            names = [path.name for path in files[number * self.reads :][: self.reads]]
            rule = f" {RULE}" if number == 0 else ""
            yield f"Read {', '.join(names)} {self._order} and say what is out of place.{rule}"


async def _at_rest(agent: Agent, watch: Watch) -> None:
    """As the chat does while the user reads the answer: what is due is compacted, once it is drafted."""
    if agent.at_good_moment():
        agent.executor.submit(operations.CompactSession(reason="phase"))
        await agent.executor.settle()
    await watch.until(lambda: not agent.state.draft.drafting)
    await agent.executor.settle()


@dataclass(frozen=True)
class Report:
    """What a job came to, by the server's log."""

    job: Job
    files: list[Path]
    answers: list[str]
    requests: list[Seen]
    session: Session

    @cached_property
    def refused(self) -> list[str]:
        """Why requests were refused: overflow, or anything else."""
        return [seen.rejected for seen in self.requests if seen.rejected]

    @cached_property
    def summaries(self) -> list[Seen]:
        return [seen for seen in self.requests if is_summary_request(seen.body)]

    @cached_property
    def ordinary(self) -> list[Seen]:
        return [seen for seen in self.requests if not is_summary_request(seen.body) and not seen.rejected]

    @cached_property
    def coverage(self) -> Coverage:
        """What tool results carried to the model in ordinary requests."""
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
        """Tokens of all files, by the server's own counter."""
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
        """Of all input, in uncached tokens; `cached`: the price of a cached one."""
        return self.uncached + cached * (self.input - self.uncached)

    @property
    def ratio(self) -> float:
        return self.uncached / self.tokens_read

    @property
    def rule_survives(self) -> bool:
        return any(RULE in text_of(message.get("content")) for message in self.ordinary[-1].messages)

    @cached_property
    def bill(self) -> "Bill":
        count_by(self.job.characters)
        return _bill(self.requests)


@dataclass
class Bill:
    """Who pays for the input that no cache served, in tokens."""

    results: int = 0
    """Tool results in the first ordinary request that carries them."""
    heads: int = 0
    """System messages, and the tool schemas once."""
    talk: int = 0
    """Prompts, answers and calls, the first time."""
    again: int = 0
    """What an earlier ordinary request has carried already: the kept tail after a fold."""
    summaries: int = 0

    def __str__(self) -> str:
        return (
            f"results {self.results:,}, heads {self.heads:,}, talk {self.talk:,}, "
            f"sent again {self.again:,}, summaries {self.summaries:,}"
        )


def _bill(requests: Sequence[Seen]) -> Bill:
    bill = Bill()
    known: set[str] = set()
    for seen in requests:
        if seen.rejected:
            continue
        if is_summary_request(seen.body):
            bill.summaries += uncached(seen)
            continue
        new = [(message, text) for message in seen.messages if (text := json.dumps(message)) not in known]
        known.update(text for _, text in new)
        paid = uncached(seen)
        for message, _ in reversed(new):
            # What is new stands at the end; the rest of what is paid was sent before.
            tokens = min(paid, tokens_of(message))
            paid -= tokens
            match message["role"]:
                case "tool":
                    bill.results += tokens
                case "system":
                    bill.heads += tokens
                case _:
                    bill.talk += tokens
        if len(known) == len(new):
            bill.heads += paid
        else:
            bill.again += paid
    return bill


def tokens_of(message: dict[str, Any]) -> int:
    return len(request_tokens({"messages": [message]}))


def uncached(seen: Seen) -> int:
    return seen.prompt_tokens - seen.cached_tokens


def extends(earlier: Seen, later: Seen) -> bool:
    """Whether a request is an earlier one with messages added at its end, tools unchanged."""
    before = earlier.messages
    return later.messages[: len(before)] == before and later.body.get("tools") == earlier.body.get("tools")


def broken_prefixes(requests: Sequence[Seen], session: Session) -> Iterator[str]:
    """Ordinary requests, of those that were answered, that do not go on from the one before, or found less of
    it in the cache than there was, although no entry between the two changed the view."""
    records = [entry for entry in session.entries if isinstance(entry, RequestRecord) and not entry.error]
    assert len(requests) == len(records), "each ordinary request has its record"
    changes = [marker.index for marker in session.projection.markers]
    before: Any = None
    for seen, record in zip(requests, records, strict=True):
        body = seen.body
        if before is not None:
            then, told, until = before
            changed = bisect_left(changes, until) < bisect_left(changes, record.index)
            goes_on = body["messages"][: len(told["messages"])] == told["messages"]
            whole = goes_on and body.get("tools") == told.get("tools") and served(then, seen)
            if not whole and not changed:
                yield f"request {seen.nth}, after request {then.nth}: {seen.cached_tokens:,} cached"
        before = seen, body, record.index


def served(earlier: Seen, later: Seen) -> bool:
    """Whether the cache served all whole blocks of the earlier request."""
    return later.cached_tokens >= earlier.prompt_tokens // CACHE_STEP * CACHE_STEP
