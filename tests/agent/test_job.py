"""The job: ten prompts over files of 20 to 40 kB in a 32k window, the real client, a server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.history import Session
from foldline.protocol import (
    Compaction,
    FoldlineError,
    RequestRecord,
    UserMessage,
    events,
)
from foldline.view.rules import broken
from support.agents import Watch, agent_in, reload_session
from support.clients import chat_at
from support.job import broken_prefixes
from support.job_reader import is_summary_request
from support.projections import compactions_of
from support.server import RunningServer, Seen, running_server

WINDOW = 32_768

CODE = '''
def handle_{n}(request, store):
    """Answer request number {n} from the store, or say why not."""
    found = store.get(request.key)
    if found is None:
        raise LookupError(f"nothing under {{request.key}} for handler {n}")
    return found.with_version({n})
'''
PROSE = (
    "第{n}节。缓存必须在写入之前失效，否则读者会看到旧的数据；处理器{n}不要绕过它。"
    "Section {n} ends here.\n"
)
RECORD = '{{"id": {n}, "name": "order {n}", "state": "shipped", "notes": "left with the neighbour at {n}"}}\n'
LOG = "INFO worker-{n} finished the batch of the {n}th customer without any error, going on with the next\n"
TEST = "    assert parse(render(example({n}))) == example({n}), 'round trip of example {n} is not exact'\n"
SHAPES = (CODE, PROSE, RECORD, LOG, TEST)


def make_files(folder: Path) -> list[Path]:
    """Ten files of 20 to 40 kB: code, Chinese prose, JSON lines, a log, tests. No two lines are the same."""
    folder.mkdir()
    files = []
    for number in range(10):
        shape, size = SHAPES[number % len(SHAPES)], 21_000 + 2_000 * number
        path = folder / f"part_{number}.txt"
        text, row = "", 0
        while len(text.encode()) < size:
            text += shape.format(
                n=f"{number}_{row}" if shape is CODE else number * 1000 + row
            )
            row += 1
        path.write_text(text + f"the end of part {number}\n", encoding="utf-8")
        assert 20_000 < path.stat().st_size < 41_000
        files.append(path)
    return files


@asynccontextmanager
async def job(
    tmp_path: Path, *, believed: int = WINDOW, **options: Any
) -> AsyncIterator["Job"]:
    files = make_files(tmp_path / "project")
    with running_server(window=WINDOW, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, key="k", window=believed)
        agent, watch = agent_in(tmp_path / "project", llm, **options)
        try:
            yield Job(agent, watch, server, files)
        finally:
            await agent.aclose()


class Job:
    def __init__(
        self, agent: Agent, watch: Watch, server: RunningServer, files: list[Path]
    ) -> None:
        self.agent = agent
        self.watch = watch
        self.server = server
        self.files = files

    async def run(self) -> None:
        for path in self.files:
            answer = await self.agent.prompt(
                f"Read {path.name} and tell me its last line"
            )
            assert path.read_text(encoding="utf-8").splitlines()[-1] in answer.text

    @property
    def compactions(self) -> list[Compaction]:
        return compactions_of(self.agent.session.projection)


def ordinary(requests: list[Seen]) -> list[Seen]:
    return [seen for seen in requests if not is_summary_request(seen.body)]


def summaries(requests: list[Seen]) -> list[Seen]:
    return [seen for seen in requests if is_summary_request(seen.body)]


def contents(seen: Seen) -> str:
    return "\n".join(str(message.get("content")) for message in seen.messages)


def unseen(files: list[Path], requests: list[Seen]) -> Iterator[str]:
    """Files that no ordinary, answered request carried from the first line to the last."""
    texts = [contents(seen) for seen in ordinary(requests) if not seen.rejected]
    for path in files:
        whole = path.read_text(encoding="utf-8")
        if not any(whole.strip() in text for text in texts):
            yield path.name


@dataclass(frozen=True)
class Done:
    """What is left of a job that ran to its end."""

    session: Session
    again: Session
    """The same, read from its file."""
    requests: list[Seen]
    files: list[Path]

    @property
    def compactions(self) -> list[Compaction]:
        return compactions_of(self.session.projection)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    async def run_it() -> Done:
        async with job(tmp_path_factory.mktemp("job")) as run:
            await run.run()
            return Done(
                run.agent.session,
                reload_session(run.agent),
                run.server.requests(),
                run.files,
            )

    return asyncio.run(run_it())


def test_the_job_completes_and_every_file_is_seen_whole(done: Done) -> None:
    refused = [
        (seen.rejected, seen.violations)
        for seen in done.requests
        if seen.rejected or seen.violations
    ]
    assert refused == []
    assert list(unseen(done.files, done.requests)) == []
    assert len(done.compactions) >= 2
    assert {compaction.rung for compaction in done.compactions} == {"strategy"}
    assert {compaction.reason for compaction in done.compactions} <= {
        "threshold",
        "phase",
    }
    # What is left is mostly the newest file, which no request had carried yet, and the ledger.
    assert all(
        compaction.tokens_after < 0.8 * compaction.tokens_before
        for compaction in done.compactions
    )


def test_the_view_after_the_job_is_sound_and_the_same_when_loaded_again(
    done: Done,
) -> None:
    assert broken(done.session.projection) == []
    assert done.again.projection.view == done.session.projection.view


def test_between_compactions_each_request_is_served_from_the_cache_of_the_one_before(
    done: Done,
) -> None:
    sent = ordinary(done.requests)
    assert list(broken_prefixes(sent, done.session)) == []
    assert len(sent) - 1 - len(done.compactions) >= 10


def test_no_compaction_of_its_own_accord_asks_a_model_for_a_summary(done: Done) -> None:
    assert summaries(done.requests) == []


def test_each_request_has_a_record_and_the_reported_usage_is_learnt(done: Done) -> None:
    records = [
        entry for entry in done.session.entries if isinstance(entry, RequestRecord)
    ]
    reported = [record.usage.input for record in records if record.usage]
    assert reported == [seen.prompt_tokens for seen in ordinary(done.requests)]
    ratio = done.session.projection.meter.calibration.ratio(records[-1].model)
    assert abs(reported[-1] - ratio * records[-1].estimated) < 0.15 * reported[-1]


async def test_with_compaction_off_the_session_ends_in_one_sentence_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with job(tmp_path, mode="off") as run:
        with pytest.raises(FoldlineError) as refusal:
            await run.run()
        sentence = str(refusal.value)
        assert "Automatic compaction is off." in sentence
        assert "Largest items: entry" in sentence
        assert "/compact" in sentence
        assert run.compactions == []
        assert summaries(run.server.requests()) == []
        projection = run.agent.session.projection
        asked = [
            entry for entry in projection.entries if isinstance(entry, UserMessage)
        ]
        assert len(asked) >= 3
        assert {projection.fate(entry.index).kind for entry in asked} == {"live"}
        assert reload_session(run.agent).entries == projection.entries
        # By hand it compacts, and the session goes on where it was.
        await run.agent.compact()
        await run.agent.prompt("Say hello")
        assert list(unseen(run.files[: len(asked)], run.server.requests())) == []


@pytest.mark.slow
@pytest.mark.parametrize("believed", [65_536, 1_000_000])
async def test_a_window_smaller_than_believed_is_found_out_and_the_same_step_goes_through(
    tmp_path: Path, believed: int
) -> None:
    async with job(tmp_path, believed=believed, compaction="summary") as run:
        await run.run()
        requests = run.server.requests()
        refused = [seen for seen in requests if seen.rejected]
        assert {seen.rejected for seen in refused} == {"too long"}
        assert (
            refused.pop(0).max_tokens is not None
        )  # asked for an answer as long as the window believed
        assert [seen.violations for seen in requests if seen.violations] == []
        for seen in refused:
            later = [other for other in ordinary(requests) if other.nth > seen.nth]
            assert later[0].messages[-1] == seen.messages[-1]  # the same step again
            assert later[0].prompt_tokens < seen.prompt_tokens
        overflowed = [
            compaction
            for compaction in run.compactions
            if compaction.reason == "overflow"
        ]
        assert (
            len(overflowed) == len(refused) == 1
        )  # once found out, the threshold does the rest
        assert len(run.compactions) >= 2
        assert list(unseen(run.files, requests)) == []
        retried = [end for end in run.watch.of(events.CompactionEnd) if end.will_retry]
        assert len(retried) == 1


@pytest.mark.slow
async def test_the_job_goes_on_in_another_process_of_the_same_session(
    tmp_path: Path,
) -> None:
    async with job(tmp_path) as run:
        for path in run.files[:6]:
            await run.agent.prompt(f"Read {path.name}")
        before = run.agent.session.projection.view
        run.agent.session.close()
        path = run.agent.session.path
        assert path is not None
        session = Session.open(path)
        assert session.projection.view == before
        llm = chat_at(
            run.server.base_url, model=run.server.model, key="k", window=WINDOW
        )
        second = Agent(session, llm=llm, approvals="all")
        for path in run.files[6:]:
            await second.prompt(f"Read {path.name}")
        assert len(session.projection.all_compactions) > len(run.compactions)
        assert [seen.rejected for seen in run.server.requests() if seen.rejected] == []
        assert list(unseen(run.files, run.server.requests())) == []
        await second.aclose()
