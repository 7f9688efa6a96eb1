"""Bounds on a turn and a session, and steps that repeat."""

from dataclasses import replace
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.session.limits import NO_PRICE, RAISE_LIMIT, Spent
from foldline.agent.settings.schema import Limits
from foldline.agent.settings.settings import load_settings
from foldline.agent.turn.loop_watch import LOOP_ADVICE
from foldline.protocol import (
    DeveloperMessage,
    FoldlineError,
    RequestRecord,
    Usage,
    events,
    operations,
)
from support.agents import (
    Hang,
    PlayedLLM,
    agent_in,
    reload_session,
    tool_reply,
    write_lines,
)


def reading(*names: str) -> list[object]:
    """Steps that read these files, one each."""
    return [
        tool_reply(("read", {"path": name}), stem=f"c{n}")
        for n, name in enumerate(names)
    ]


def playing(*names: str) -> PlayedLLM:
    return PlayedLLM(*reading(*names), window=100_000)  # type: ignore[arg-type]


def files_in(folder: Path, count: int = 8) -> list[str]:
    for n in range(count):
        write_lines(folder / f"f{n}.txt", 3 + n)
    return [f"f{n}.txt" for n in range(count)]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            Limits(turn_cost=0.01),
            r"^Stopped after \$[\d.]+, before .*limits\.turn_cost is \$0\.01; /retry",
        ),
        (
            Limits(session_cost=0.01),
            r"^Stopped after \$[\d.]+ in this .*session_cost is \$0\.01; raise this",
        ),
        (
            Limits(turn_steps=2),
            r"^Stopped after 2 steps, .*limits\.turn_steps is 2; /retry continues\.$",
        ),
        (
            Limits(turn_tokens=10),
            r"^Stopped after [\d,]+ tokens, .*limits\.turn_tokens is 10; /retry",
        ),
        (
            Limits(session_steps=2),
            r"^Stopped after 2 steps in this session, .*session_steps is 2; raise this",
        ),
        (
            Limits(session_tokens=10),
            rf"tokens in this session, .*limits\.session_tokens is 10; {RAISE_LIMIT}",
        ),
    ],
)
async def test_a_turn_ends_at_its_bound_and_says_which(
    tmp_path: Path, limits: Limits, said: str
) -> None:
    llm = playing(*files_in(tmp_path))
    llm.info = replace(llm.info, id="claude-opus-4-5")  # it has a price
    agent, _ = agent_in(tmp_path, llm, limits=limits)
    with pytest.raises(FoldlineError, match=said):
        await agent.prompt("read them")
    assert len(llm.requests) == (2 if "steps" in said else 1)
    assert agent.state.budget.bounds.reached
    await agent.aclose()


async def test_the_next_turn_has_its_own_steps_and_retry_continues(
    tmp_path: Path,
) -> None:
    llm = playing(*files_in(tmp_path, 3))
    agent, _ = agent_in(tmp_path, llm, limits=Limits(turn_steps=2))
    with pytest.raises(FoldlineError, match="Stopped after 2 steps"):
        await agent.prompt("read them")
    finished = await agent.executor.wait_for(agent.executor.submit(operations.Retry()))
    assert (finished.outcome, finished.error) == ("done", None)
    assert len(llm.requests) == 4
    assert not agent.state.budget.bounds.reached
    await agent.aclose()


async def test_a_session_that_has_spent_all_takes_no_further_prompt(
    tmp_path: Path,
) -> None:
    llm = playing()
    agent, _ = agent_in(tmp_path, llm, limits=Limits(session_steps=1))
    await agent.prompt("hello")
    with pytest.raises(FoldlineError, match="1 step in this session"):
        await agent.prompt("once more")
    assert [entry.text for entry in agent.session.entries if entry.type == "user"] == [
        "hello"
    ]
    assert len(llm.requests) == 1
    await agent.aclose()


@pytest.mark.parametrize(
    "limits", [Limits(session_steps=3), Limits(session_tokens=12_000)]
)
async def test_a_resumed_session_counts_on_where_it_was(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same prompts reach the bound at the same request, resumed in between or not."""

    async def requests_until_stopped(folder: Path, *, resumed: bool) -> int:
        folder.mkdir()
        monkeypatch.setenv(
            "FOLDLINE_HOME", str(folder.parent / f"{folder.name}-home")
        )  # else it is foreign
        agent, _ = agent_in(folder, playing(), limits=limits)
        with pytest.raises(FoldlineError, match="in this session"):
            for _ in range(20):
                await agent.prompt("hello")
                if resumed:
                    await agent.aclose()
                    agent = Agent(
                        reload_session(agent),
                        llm=playing(),
                        approvals="all",
                        limits=limits,
                    )
        await agent.aclose()
        return sum(isinstance(entry, RequestRecord) for entry in agent.session.entries)

    at_once = await requests_until_stopped(tmp_path / "one", resumed=False)
    assert at_once == await requests_until_stopped(tmp_path / "two", resumed=True)
    assert at_once > 1


async def test_a_draft_that_is_thrown_away_was_paid_for(tmp_path: Path) -> None:
    """Applied or not, done or cut off: its request counts once, as reported or else by estimate."""
    agent, watch = agent_in(
        tmp_path, PlayedLLM(window=100_000, summaries=("kept", "thrown", Hang("cut")))
    )
    agent.state.budget.bounds.limits = Limits(session_tokens=1_000_000)
    for _ in range(3):
        await agent.prompt("word " * 2_000)
    bounds = agent.state.budget.bounds

    def tokens() -> int:
        assert bounds._session is not None
        return bounds._session.tokens

    before = tokens()
    await agent.compact()
    applied, [entry] = tokens() - before, agent.session.projection.all_compactions
    usage = agent.session.entries[entry.index].usage  # type: ignore[attr-defined]
    assert applied == usage.input + usage.output > 0
    assert bounds.summaries == 1
    for count in (2, 3):
        await agent.prompt("word " * 2_000)
        before = tokens()
        agent.executor.submit(operations.CompactSession(reason="manual", preview=True))
        if count == 2:
            ready = await watch.first(events.ProposalReady)
            agent.executor.submit(operations.DiscardProposal(proposal=ready.proposal))
        else:
            await agent.state.models.llm.silent.wait()  # type: ignore[attr-defined]
            agent.executor.submit(operations.Interrupt())
        await agent.executor.settle()
        assert tokens() - before > 2_000
        assert bounds.summaries == count
    await agent.aclose()


@pytest.mark.parametrize("interactive", [True, False])
async def test_a_turn_that_nobody_watches_is_bounded_where_nothing_is_set(
    tmp_path: Path, interactive: bool
) -> None:
    settings = load_settings(
        tmp_path, {"FOLDLINE_HOME": str(tmp_path)}, {"model": "offline"}
    )
    bounds = settings.bounds(watched=interactive)
    usual = (bounds.turn_steps, bounds.turn_tokens, bounds.turn_cost)
    assert usual == ((0, 0, 0) if interactive else (200, 20_000_000, 10))
    assert bounds.equal_steps == 5


async def test_a_model_without_a_price_is_said_where_money_is_bounded(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, playing(), limits=Limits(turn_cost=0.5))
    await agent.prompt("hello")
    await agent.prompt("again")
    assert (
        len([text for text in watch.notices if text == NO_PRICE.format(model="played")])
        == 1
    )
    await agent.aclose()


def test_money_is_counted_by_the_table_of_prices() -> None:
    record = RequestRecord(
        digest="", model="gpt-4.1", usage=Usage(input=1_000_000, output=1_000_000)
    )
    spent = Spent().after(record)
    assert (spent.steps, spent.tokens) == (1, 2_000_000)
    assert spent.cost > 1
    unknown = record.model_copy(update={"model": "nobody-knows"})
    assert spent.after(unknown).cost == spent.cost


@pytest.mark.parametrize(
    "cycle", [("f0.txt",), ("f0.txt", "f1.txt"), ("f0.txt", "f1.txt", "f2.txt")]
)
async def test_steps_that_repeat_end_the_turn_where_nobody_can_be_asked(
    tmp_path: Path, cycle: tuple[str, ...]
) -> None:
    files_in(tmp_path)
    llm = playing(*cycle * 10)
    agent, _ = agent_in(tmp_path, llm, limits=Limits(equal_steps=4))
    with pytest.raises(
        FoldlineError,
        match=r"^Stopped: the model made the same .* 4 times in a row, each",
    ):
        await agent.prompt("read")
    assert len(llm.requests) == 4 * len(cycle)
    await agent.aclose()


async def test_the_same_call_with_another_result_is_no_loop(tmp_path: Path) -> None:
    script = []
    for n in range(6):
        script += [
            tool_reply(("write", {"path": "f.txt", "content": f"{n}"}), stem=f"w{n}"),
            tool_reply(("read", {"path": "f.txt"}), stem=f"r{n}"),
        ]
    llm = PlayedLLM(*script, window=100_000)
    agent, _ = agent_in(tmp_path, llm, limits=Limits(equal_steps=3), approvals="edits")
    assert (await agent.prompt("write")).text == "done"
    await agent.aclose()


@pytest.mark.parametrize(("key", "requests"), [("g", 7), ("t", 7), ("s", 3), ("", 3)])
async def test_the_user_is_asked_about_a_loop(
    tmp_path: Path, key: str, requests: int
) -> None:
    files_in(tmp_path)
    llm = playing(*["f0.txt"] * 3, "f1.txt", "f2.txt", "f3.txt")
    agent, _ = agent_in(tmp_path, llm, limits=Limits(equal_steps=3), interactive=True)
    asked: list[events.ChoiceRequested] = []

    def answering(event: object) -> None:
        if isinstance(event, events.ChoiceRequested):
            asked.append(event)
            agent.executor.submit(operations.Choose(choice=event.choice, key=key))

    agent.executor.subscribe(answering)
    if requests == 3:
        with pytest.raises(
            FoldlineError, match="Stopped by you: the model made the same call"
        ):
            await agent.prompt("read")
    else:
        assert (await agent.prompt("read")).text == "done"
    [event] = asked
    assert (
        event.title
        == "The model made the same call (read) 3 times in a row, each time with the same result."
    )
    assert event.detail == "read f0.txt"
    assert len(llm.requests) == requests
    told = [
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, DeveloperMessage) and LOOP_ADVICE in entry.text
    ]
    assert len(told) == (key == "t")
    await agent.aclose()


@pytest.mark.parametrize("usage", [None, Usage(), Usage(output=500)])
def test_what_a_server_does_not_report_is_counted_by_estimate(
    usage: Usage | None,
) -> None:
    record = RequestRecord(digest="", model="gpt-4.1", usage=usage, estimated=1_000_000)
    spent = Spent().after(record)
    assert spent.tokens == 1_000_000 + (0 if usage is None else usage.output)
    assert spent.cost > 1


async def test_a_server_that_reports_zeros_is_held_to_the_limits_by_an_estimate(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path / "a.txt", 50)
    zeros = [
        tool_reply(("read", {"path": "a.txt"}), stem=f"c{number}").model_copy(
            update={"usage": Usage()}
        )
        for number in range(20)
    ]
    agent, watch = agent_in(
        tmp_path, PlayedLLM(*zeros, "done"), limits=Limits(turn_tokens=20_000)
    )
    with pytest.raises(FoldlineError, match="turn_tokens"):
        await agent.prompt("go")
    reported = [event.usage for event in watch.of(events.UsageReported)]
    assert {usage.source for usage in reported} == {"estimated"}
    assert all(usage.input > 0 for usage in reported)
    assert sum(usage.total for usage in reported) == pytest.approx(20_000, rel=0.5)
    await agent.aclose()
