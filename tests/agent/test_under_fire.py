"""The agent under fire: the real client against a real server that does everything a server can do wrong.

Whatever it is: a bounded number of requests, then an answer or one sentence; what was said is kept; the
history is valid, proved and the same when it is read again; and the next prompt goes through.
"""

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.agent import Agent
from foldline.agent.turn.turn import NOTHING_TO_RETRY
from foldline.compaction import CompactionFailed
from foldline.llm import failures
from foldline.past.proof import prove
from foldline.protocol import (
    AssistantMessage,
    NoticeRecord,
    RequestRecord,
    ToolResultMessage,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.view.rules import broken
from support.agents import Watch, agent_in, other_tasks_done, reload_session
from support.cancellation import Moment, Stopper
from support.clients import chat_at
from support.limits import examples
from support.messages import tool_results
from support.sentences import says
from support.server import RunningServer, running_server
from support.server_process import Seen

RETRIES = 8
EIGHT = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 29.0)
SAID = "This much had been said, word for word, before it broke off. "
"""Text of the answers that break off: it arrives in pieces of 10 characters."""


def refusal(
    status: int,
    message: str = "no",
    headers: dict[str, str] | None = None,
    **error: str,
) -> Any:
    return {
        "fault": {
            "status": status,
            "body": {"error": {"message": message, **error}},
            "headers": headers or {},
        }
    }


def spoilt(**fault: Any) -> Any:
    return {"text": SAID, "chunk": 10, "fault": fault}


def pieces(*deltas: dict[str, Any], ends: str | None = "tool_calls") -> Any:
    """A stream of exactly these deltas."""
    last = (
        []
        if ends is None
        else [{"choices": [{"index": 0, "delta": {}, "finish_reason": ends}]}]
    )
    body = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    return {"fault": {"raw": [*body, *last]}}


def part(index: int, arguments: str, **named: str) -> dict[str, Any]:
    """A piece of a tool call: the first of it with `id` and `name`."""
    function = {
        "arguments": arguments,
        **{key: value for key, value in named.items() if key == "name"},
    }
    first = {"id": named["id"], "type": "function"} if "id" in named else {}
    return {"tool_calls": [{"index": index, **first, "function": function}]}


@dataclass(frozen=True)
class Fault:
    """What the server does to a request, and what is to become of it."""

    name: str
    answer: dict[str, Any]
    says: str = ""
    """In the sentence of a turn that fails; empty: it does not fail."""
    retries: int = 0
    waits: tuple[float, ...] = ()
    """Seconds before each retry, where it matters."""
    keeps: str = ""
    """Text of the broken-off answer that the history has."""
    results: tuple[tuple[str, bool], ...] = ()
    """Of its calls: how the text of each begins, and whether it is an error."""
    tells: str = ""
    """In a notice."""
    in_another_way: int = 0
    """Requests that are sent at once, without a wait, in another form."""

    def __str__(self) -> str:
        return self.name


OVERFLOW = (
    "This model's maximum context length is 32768 tokens. "
    "However, your messages resulted in 40000 tokens."
)
LS = [{"name": "ls", "arguments": {}, "id": f"call_{number}"} for number in range(100)]
FAULTS = [
    Fault("401", refusal(401), failures.NO_KEY),
    Fault("403", refusal(403), failures.NOT_ALLOWED),
    Fault("404 model", refusal(404, code="model_not_found"), failures.NOT_FOUND),
    Fault("400", refusal(400, "what is this?"), failures.REJECTED),
    *(
        Fault(str(status), refusal(status), f"({status})", RETRIES, EIGHT)
        for status in (408, 409, 429, 500, 502, 503, 529)
    ),
    Fault(
        "429 with retry-after",
        refusal(429, headers={"retry-after": "7"}),
        "(429)",
        RETRIES,
        (7.0,) * 8,
    ),
    Fault(
        "429 for hours",
        refusal(429, headers={"retry-after": "7200"}),
        failures.LONG_WAIT,
    ),
    Fault(
        "500 for good",
        refusal(500, "tools param requires --jinja flag"),
        failures.REJECTED,
    ),
    Fault("no credit", refusal(429, code="insufficient_quota"), failures.NO_CREDIT),
    Fault(
        "an error page",
        {"fault": {"status": 502, "body": "<html>Bad gateway</html>"}},
        "(502)",
        RETRIES,
    ),
    Fault("reset before a word", spoilt(cut_after=0), failures.BROKEN, RETRIES),
    Fault(
        "reset in mid-stream",
        spoilt(cut_after=4),
        failures.BROKEN,
        RETRIES,
        keeps=SAID[:30],
    ),
    Fault("silence", spoilt(stall_after=0), failures.STALLED, RETRIES),
    Fault(
        "stall in mid-stream",
        spoilt(stall_after=4),
        failures.STALLED,
        RETRIES,
        keeps=SAID[:30],
    ),
    Fault(
        "no server-sent events",
        {"fault": {"raw": ["%&/(", "}{"]}},
        failures.BROKEN,
        RETRIES,
    ),
    Fault(
        "half a JSON in mid-stream",
        spoilt(malformed_after=4),
        failures.BROKEN,
        RETRIES,
        keeps=SAID[:30],
    ),
    Fault(
        "an error in mid-stream",
        spoilt(error_after=4, body={"error": {"message": "GPU on fire", "code": 500}}),
        "GPU on fire",
        RETRIES,
        keeps=SAID[:30],
    ),
    Fault(
        "refused as too long",
        refusal(400, OVERFLOW, code="context_length_exceeded"),
        failures.TOO_LONG,
    ),
    Fault(
        "an unknown finish reason",
        {"text": SAID, "finish_reason": "eos_token_of_the_day"},
    ),
    Fault(
        "an answer cut at its limit",
        {"text": SAID, "finish_reason": "length"},
        tells="output limit",
    ),
    Fault("an empty answer", {"text": ""}, retries=RETRIES, tells=failures.EMPTY),
    Fault(
        "nothing at all",
        {"fault": {"raw": []}},
        failures.BROKEN,
        RETRIES,
        in_another_way=1,
    ),
    Fault(
        "arguments that are no JSON",
        {"tool_calls": [{"name": "read", "arguments": '{"path": "a.tx'}]},
        results=(("", True),),
    ),
    Fault(
        "an unknown tool",
        {"tool_calls": [{"name": "levitate"}]},
        results=(("There is no tool", True),),
    ),
    Fault("100 calls at once", {"tool_calls": LS}, results=(("", False),) * 100),
    Fault(
        "pieces of calls out of order and twice",
        pieces(
            part(1, "", id="b", name="ls"),
            part(0, '{"pa', id="a", name="read"),
            part(1, "{}"),
            part(0, 'th": "a.txt"}'),
            part(0, '{"path": "a.txt"}', id="a", name="read"),
        ),
        results=(("", False), ("", False)),
    ),
    Fault(
        "a call broken off",
        pieces(
            {"content": SAID[:30]},
            part(0, '{"path": "a.', id="a", name="read"),
            ends=None,
        ),
        failures.BROKEN,
        RETRIES,
        keeps=SAID[:30],
    ),
]
BY_NAME = {fault.name: fault for fault in FAULTS}
OFTEN = 1_000_000
IDLE_SECONDS = 0.15

GOES_ON = [
    {"when": {"content": r"and now\?$"}, "answer": {"text": "On we go."}},
    {"when": {"role": "tool"}, "answer": {"text": "Seen."}},
]
HELD = {
    "held before the first byte": {"fault": {"hang": True}},
    "held in mid-stream": spoilt(stall_after=4),
    "held before a retry": refusal(503),
    "held in a tool": {
        "tool_calls": [
            {"name": "bash", "arguments": {"command": "echo runs; sleep 600"}}
        ]
    },
}
"""What an Esc is to end: none of it would by itself."""


def rule(prompt: str, answer: dict[str, Any], times: int = OFTEN) -> dict[str, Any]:
    return {
        "when": {"content": f"{prompt}$", "tools": True},
        "times": times,
        "answer": answer,
    }


SUMMARY = {"text": "## Goal\n- to find out what this server does next\n" * 3}
COMPACTIONS = [
    {"when": {"content": "(?s)dwell on once"}, "times": 1, "answer": refusal(503)},
    {"when": {"content": "(?s)dwell on always"}, "answer": refusal(503)},
    {"when": {"content": "<conversation>|<summary-request>"}, "answer": SUMMARY},
]

SCRIPT = [
    *COMPACTIONS,
    *GOES_ON,
    *(rule(f"always {fault}", fault.answer) for fault in FAULTS),
    *(
        rule(
            f"for a while {fault}",
            fault.answer,
            fault.retries + 1 + fault.in_another_way,
        )
        for fault in FAULTS
    ),
    *(rule(f"once {fault}", fault.answer, 1) for fault in FAULTS),
    *(rule(name, answer) for name, answer in HELD.items()),
    rule("a stall to be stopped", spoilt(stall_after=4), 1),
    {"answer": {"text": "Better now."}},
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(script=SCRIPT, strict=True) as running:
        yield running


@dataclass
class Fire:
    """An agent on a server, and what was asked of that server."""

    server: RunningServer
    agent: Agent
    watch: Watch
    waits: list[float] = field(default_factory=list)
    """Seconds that the client would have waited."""
    before: int = 0

    @property
    def entries(self) -> list[Any]:
        return list(self.agent.session.entries)

    def seen(self) -> list[Seen]:
        """The requests since the agent began."""
        return self.server.requests()[self.before :]

    async def done(self, operation: operations.Operation) -> events.TaskFinished:
        return await self.agent.executor.wait_for(self.agent.executor.submit(operation))

    async def ask(self, text: str) -> events.TaskFinished:
        return await self.done(prompt(text))

    async def goes_on(self) -> None:
        """The next prompt is answered; all that was is valid, proved, and the same when it is read again."""
        assert (await self.ask("and now?")).outcome == "done"
        assert (
            isinstance(self.entries[-2], AssistantMessage)
            and self.entries[-2].text == "On we go."
        )
        assert sound(self.agent) == []

    async def aclose(self) -> None:
        await self.agent.aclose()
        await other_tasks_done()


def prompt(text: str) -> operations.RunAgent:
    return operations.RunAgent(parts=text_parts(text))


def sound(agent: Agent) -> list[object]:
    """Everything that is wrong with the history."""
    session, again = agent.session, reload_session(agent)
    faults: list[object] = [*broken(session.projection)]
    faults += [str(proof) for proof in prove(session.entries) if not proof.holds]
    if again.projection.view != session.projection.view or list(again.entries) != list(
        session.entries
    ):
        faults.append("read again, it is another history")
    calls = [
        call.call_id
        for message in session.entries
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]
    results = [
        entry.call_id
        for entry in session.entries
        if isinstance(entry, ToolResultMessage)
    ]
    if len(set(results)) < len(results) or not set(results) <= set(calls):
        faults.append(f"results {results} for calls {calls}")
    return faults


def under_fire(
    folder: Path, server: RunningServer, base_url: str = "", held: bool = False
) -> Fire:
    """An agent whose client does not wait before a retry; `held`: waits for ever."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "a.txt").write_text("one line\n")
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await (asyncio.Event().wait() if held else asyncio.sleep(0))

    llm = chat_at(
        base_url or server.base_url,
        model=server.model,
        window=32_768,
        idle_seconds=600 if held else IDLE_SECONDS,
        sleep=sleep,
    )
    agent, watch = agent_in(folder, llm)
    return Fire(server, agent, watch, waits, len(server.requests()))


# --- every fault ----------------------------------------------------------------------------------------


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_fault_ends_in_an_answer_or_in_one_sentence(
    tmp_path: Path, server: RunningServer, fault: Fault
) -> None:
    fire = under_fire(tmp_path / "project", server)
    finished = await fire.ask(f"always {fault}")
    assert finished.outcome == ("failed" if fault.says else "done"), finished.error
    assert (
        len(fire.seen())
        == fault.retries + 1 + bool(fault.results) + fault.in_another_way
    )
    one_sentence(fire, finished.error or "", fault)
    told = fire.watch.of(events.Retrying)
    assert [(each.attempt, each.attempts) for each in told] == [
        (n + 1, RETRIES) for n in range(fault.retries)
    ]
    assert [each.seconds for each in told] == fire.waits
    assert not fault.waits or tuple(fire.waits) == fault.waits
    if fault.keeps:
        [partial] = [
            entry for entry in fire.entries if isinstance(entry, AssistantMessage)
        ]
        assert (partial.text, partial.stop_reason) == (fault.keeps, "error")
    results = tool_results(fire.entries)
    assert len(results) == len(fault.results)
    for result, (text, is_error) in zip(results, fault.results, strict=True):
        assert result.text.startswith(text) and result.is_error == is_error
    assert says(" ".join(fire.watch.notices), fault.tells)
    await fire.goes_on()
    assert [seen.violations for seen in fire.seen() if seen.violations] == []
    await fire.aclose()


def one_sentence(fire: Fire, sentence: str, fault: Fault) -> None:
    """What a failed turn says: short, of one line, and in the history, word for word."""
    if not fault.says:
        assert not sentence
        return
    assert (
        says(sentence, fault.says)
        and "\n" not in sentence
        and sentence.endswith(".")
        and len(sentence) < 600
    )
    kept = [
        entry.error if isinstance(entry, RequestRecord) else getattr(entry, "text", "")
        for entry in fire.entries
    ]
    assert sentence in kept


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.retries], ids=str)
async def test_what_passes_is_survived_unseen(
    tmp_path: Path, server: RunningServer, fault: Fault
) -> None:
    fire = under_fire(tmp_path / "project", server)
    finished = await fire.ask(f"once {fault}")
    assert (finished.outcome, len(fire.seen()), len(fire.waits)) == (
        "done",
        2,
        1 - fault.in_another_way,
    )
    first, second = fire.seen()
    assert first.messages == second.messages
    assert [
        entry.text for entry in fire.entries if isinstance(entry, AssistantMessage)
    ] == ["Better now."]
    given_up = [
        entry.said or ""
        for entry in fire.entries
        if isinstance(entry, RequestRecord) and entry.error
    ]
    assert [said[: len(fault.keeps)] for said in given_up if said] == (
        [fault.keeps] if fault.keeps else []
    )
    await fire.goes_on()
    await fire.aclose()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.says], ids=str)
async def test_a_failed_turn_goes_on_with_the_very_request_that_failed(
    tmp_path: Path, server: RunningServer, fault: Fault
) -> None:
    fire = under_fire(tmp_path / "project", server)
    assert (await fire.ask(f"for a while {fault}")).outcome == "failed"
    assert (await fire.done(operations.Retry())).outcome == "done"
    *failed, again = fire.seen()
    assert again.messages == failed[-1].messages
    view = [item.message for item in fire.agent.session.projection.view]
    assert [
        message.text for message in view if isinstance(message, AssistantMessage)
    ] == ["Better now."]
    assert sum(isinstance(message, UserMessage) for message in view) == 1
    said = [entry.text for entry in fire.entries if isinstance(entry, AssistantMessage)]
    assert said == [*([fault.keeps] if fault.keeps else []), "Better now."], (
        "nothing that was said is lost"
    )
    await fire.goes_on()
    await fire.aclose()


async def test_where_nothing_broke_off_there_is_nothing_to_try_again(
    tmp_path: Path, server: RunningServer
) -> None:
    fire = under_fire(tmp_path / "project", server)
    for asked in ("", "hello"):
        if asked:
            await fire.ask(asked)
        requests, entries = len(fire.seen()), fire.entries
        finished = await fire.done(operations.Retry())
        assert (finished.outcome, finished.error) == ("failed", NOTHING_TO_RETRY)
        assert (len(fire.seen()), fire.entries) == (requests, entries)
    await fire.aclose()


async def test_a_server_that_is_down_is_asked_again_and_found_when_it_is_back(
    tmp_path: Path, server: RunningServer
) -> None:
    with socket.socket() as closed:
        closed.bind(
            ("127.0.0.1", 0)
        )  # bound and not listening: nobody else gets the port
        down = under_fire(
            tmp_path / "down", server, f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        )
        finished = await down.ask("hello")
        assert finished.outcome == "failed"
        assert says(finished.error, failures.UNREACHABLE)
        assert [each.attempt for each in down.watch.of(events.Retrying)] == [
            *range(1, 9)
        ]
        await down.agent.state.models.llm.aclose()
        down.agent.state.models.llm = under_fire(
            tmp_path / "up", server
        ).agent.state.models.llm
        assert (await down.done(operations.Retry())).outcome == "done"
        await down.goes_on()
        await down.aclose()


# --- a compaction -------------------------------------------------------------------------------------------


def compaction(focus: str) -> operations.CompactSession:
    return operations.CompactSession(reason="manual", focus=focus)


async def worth_compacting(fire: Fire) -> int:
    """Enough said for a compaction; how many entries."""
    for number in range(6):
        await fire.ask(
            f"Background {number}: " + f"part {number} of what is known so far. " * 300
        )
    return len(fire.entries)


async def test_a_draft_is_tried_again_within_its_compaction(
    tmp_path: Path, server: RunningServer
) -> None:
    fire = under_fire(tmp_path / "project", server)
    await worth_compacting(fire)
    fire.watch.events.clear()
    assert (await fire.done(compaction("dwell on once"))).outcome == "done"
    kinds = (events.CompactionStart, events.Retrying, events.CompactionEnd)
    told = [type(event) for event in fire.watch.events if isinstance(event, kinds)]
    assert told == list(kinds)
    assert [made.rung for made in fire.agent.session.projection.all_compactions] == [
        "strategy"
    ]
    await fire.goes_on()
    await fire.aclose()


@pytest.mark.slow
async def test_an_escape_while_a_draft_waits_leaves_the_old_view(
    tmp_path: Path, server: RunningServer
) -> None:
    fire = under_fire(tmp_path / "project", server, held=True)
    count = await worth_compacting(fire)
    task = fire.agent.executor.submit(compaction("dwell on always"))
    await fire.watch.first(events.Retrying)
    fire.agent.executor.submit(operations.Interrupt())
    assert (await fire.agent.executor.wait_for(task)).outcome == "cancelled"
    assert (fire.agent.session.projection.all_compactions, len(fire.entries)) == (
        [],
        count,
    )
    await fire.goes_on()
    await fire.aclose()


async def test_a_failed_compaction_is_on_record_in_full_and_changes_nothing(
    tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fire = under_fire(tmp_path / "project", server)
    await worth_compacting(fire)
    view = list(fire.agent.session.projection.view)
    sentence = (
        "Nothing that was tried came to anything: "
        + "this did not, " * 20
        + "nor did that."
    )

    async def fails(*_: object, **__: object) -> None:
        raise CompactionFailed(sentence)

    monkeypatch.setattr("foldline.agent.session.compact.propose", fails)
    finished = await fire.done(compaction(""))
    assert (finished.outcome, finished.error) == ("failed", sentence)
    assert isinstance(fire.entries[-1], NoticeRecord)
    assert (fire.entries[-1].level, fire.entries[-1].text) == ("error", sentence)
    assert list(fire.agent.session.projection.view) == view
    await fire.goes_on()
    await fire.aclose()


# --- Esc --------------------------------------------------------------------------------------------------

SIGNS: dict[str, type[Event]] = {  # type: ignore[valid-type]
    "held before the first byte": events.StepStarted,
    "held in mid-stream": events.TextDelta,
    "held before a retry": events.Retrying,
    "held in a tool": events.ToolOutput,
}
BEGINS = (
    events.StepStarted,
    events.Retrying,
    events.TextDelta,
    events.ToolStarted,
    events.CompactionStart,
)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", HELD)
async def test_an_escape_ends_what_would_never_end(
    tmp_path: Path, server: RunningServer, name: str
) -> None:
    fire = under_fire(tmp_path / "project", server, held=True)
    task = fire.agent.executor.submit(prompt(name))
    await fire.watch.first(SIGNS[name])
    await asyncio.to_thread(server.wait_for, lambda seen: len(seen) > fire.before)
    struck = len(fire.watch.events)
    fire.agent.executor.submit(operations.Interrupt())
    assert (await fire.agent.executor.wait_for(task)).outcome == "cancelled"
    assert not [
        event for event in fire.watch.events[struck:] if isinstance(event, BEGINS)
    ]
    await closed(fire)
    said = [
        entry
        for entry in fire.entries
        if isinstance(entry, AssistantMessage) and entry.text
    ]
    if name == "held in mid-stream":
        assert [(entry.text, entry.stop_reason) for entry in said] == [
            (SAID[: len(said[0].text)], "cancelled")
        ]
    await fire.goes_on()
    await fire.aclose()


async def closed(fire: Fire) -> None:
    """The server has done with every request: answered it, or seen the client go."""
    seen = await asyncio.to_thread(
        fire.server.wait_for,
        lambda seen: all(each.outcome or each.rejected for each in seen[fire.before :]),
    )
    assert len(seen) > fire.before


async def test_an_escape_and_then_the_same_step_again(
    tmp_path: Path, server: RunningServer
) -> None:
    fire = under_fire(tmp_path / "project", server, held=True)
    task = fire.agent.executor.submit(prompt("a stall to be stopped"))
    await fire.watch.first(events.TextDelta)
    fire.agent.executor.submit(operations.Interrupt())
    assert (await fire.agent.executor.wait_for(task)).outcome == "cancelled"
    assert (await fire.done(operations.Retry())).outcome == "done"
    first, again = fire.seen()
    assert first.messages == again.messages
    await fire.goes_on()
    await fire.aclose()


Blow = tuple[str, int, Moment]
"""A fault; the await of its turn at which Esc comes, 0 for none; and when exactly."""
blows: st.SearchStrategy[list[Blow]] = st.lists(
    st.tuples(
        st.sampled_from(sorted(BY_NAME)),
        st.integers(0, 60),
        st.sampled_from(get_args(Moment)),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(blows)
def test_whatever_comes_one_after_the_other_the_session_goes_on(
    server: RunningServer, happened: list[Blow]
) -> None:
    async def play(folder: Path) -> None:
        fire = under_fire(folder, server)
        for name, at, moment in happened:
            stopper = Stopper(fire.agent, at, moment)
            finished = await fire.ask(f"always {name}")
            stopper.stop()
            assert finished.outcome in (
                "done",
                "failed",
                *(("cancelled",) if stopper.struck else ()),
            )
            retried = await fire.done(operations.Retry())
            assert retried.outcome in ("done", "failed")
            if fire.entries:
                assert sound(fire.agent) == []
        await fire.goes_on()
        await closed(fire)
        cut_off = [
            seen for seen in fire.seen() if seen.raw[-1:] != b"}"
        ]  # by an Esc, while it was sent
        assert len(cut_off) <= len(happened)
        assert [
            seen.violations
            for seen in fire.seen()
            if seen.violations and seen not in cut_off
        ] == []
        await fire.aclose()

    with tempfile.TemporaryDirectory(prefix="foldline-fire-") as folder:
        asyncio.run(play(Path(folder) / "project"))
