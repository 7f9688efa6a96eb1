"""A turn: what it sends, what it keeps, when it compacts, and how it ends when something fails."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.session.compaction_state import AUTO_OFF
from foldline.agent.session.instructions import CONTINUES
from foldline.agent.turn.turn import ALL_COMPACTED, MADE_SMALLER
from foldline.compaction import pause_reason
from foldline.compaction.automation import FREED_LITTLE, SAME_STEPS
from foldline.history import Session
from foldline.history.log import WriteFailed
from foldline.history.session import IN_MEMORY
from foldline.llm import ContextOverflow, LLMError
from foldline.llm.base import Subject
from foldline.llm.failures import BROKEN, RATE_LIMITED, WRONG_KEY
from foldline.llm.models import DEFAULT_WINDOW
from foldline.past.proof import digest_of
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    RequestRecord,
    SystemMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
    events,
    operations,
)
from foldline.view.budget import BudgetSettings
from foldline.view.projection import project
from foldline.view.rules import broken
from support.agents import (
    Gate,
    Hang,
    PlayedLLM,
    agent_in,
    reload_session,
    reply,
    tool_reply,
    write_lines,
)
from support.clients import Waits, chat_at
from support.sentences import pattern, says
from support.server import running_server
from support.trust import bring

pytestmark = pytest.mark.usefixtures("data_folder")


def texts(messages: object) -> str:
    assert isinstance(messages, list | tuple)
    return "\n".join(message.text for message in messages)


def records(session: Session) -> list[RequestRecord]:
    return [entry for entry in session.entries if isinstance(entry, RequestRecord)]


# --- what is sent -------------------------------------------------------------------------------------


async def test_the_first_prompt_is_preceded_once_by_system_prompt_and_instructions(
    tmp_path: Path,
) -> None:
    bring(tmp_path / "AGENTS.md", "Never touch the vendored code.\n")
    bring(tmp_path / "CLAUDE.md", "Never touch the vendored code.\n")
    llm = PlayedLLM("one", "two")
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("first")
    await agent.prompt("second")
    kinds = [type(message) for message in llm.requests[1].messages]
    assert kinds == [
        SystemMessage,
        DeveloperMessage,
        UserMessage,
        AssistantMessage,
        UserMessage,
    ]
    instructions = llm.requests[1].messages[1]
    assert isinstance(instructions, DeveloperMessage)
    assert instructions.origin == "instructions"
    assert "Never touch the vendored code." in instructions.text
    await agent.aclose()


async def test_a_huge_instruction_file_is_cut_and_says_so(tmp_path: Path) -> None:
    bring(tmp_path / "AGENTS.md", "规则" * 40_000)
    llm = PlayedLLM(window=200_000)
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("hello")
    text = llm.requests[0].messages[1].text
    assert "�" not in text
    assert text.endswith(CONTINUES.format(text="", name="AGENTS.md"))
    await agent.aclose()


async def test_the_prompt_is_on_disk_before_the_request_leaves(tmp_path: Path) -> None:
    opened = asyncio.Event()
    llm = PlayedLLM(Gate(opened))
    agent, _ = agent_in(tmp_path, llm)
    asking = asyncio.create_task(agent.prompt("remember me"))
    await llm.silent.wait()
    assert any(
        entry.text == "remember me"
        for entry in reload_session(agent).entries
        if isinstance(entry, UserMessage)
    )
    opened.set()
    await asking
    await agent.aclose()


async def test_each_record_holds_the_digest_of_what_was_sent_also_when_loaded_again(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path / "a.txt", 20)
    llm = PlayedLLM(tool_reply(("read", {"path": "a.txt"})), "read", "again")
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("read a.txt")
    await agent.prompt("more")
    session = reload_session(agent)
    assert [record.digest for record in records(session)] == [
        digest_of(list(request.messages)) for request in llm.requests
    ]
    # The view at an earlier request is the compaction of a shorter history.
    answer = next(
        at
        for at, entry in enumerate(session.entries)
        if isinstance(entry, AssistantMessage)
    )
    view = [item.message for item in project(session.entries[:answer]).view]
    assert digest_of(view) == records(session)[0].digest
    await agent.aclose()


async def test_reported_usage_calibrates_the_estimate(tmp_path: Path) -> None:
    llm = PlayedLLM(
        *[reply("x", usage=Usage(input=2_000, output=5), model="played")] * 3
    )
    agent, _ = agent_in(tmp_path, llm)
    await agent.prompt("hello")
    record = records(agent.session)[0]
    assert agent.session.projection.meter.calibration.ratio("played") == pytest.approx(
        2_000 / record.estimated
    )
    assert 2_000 <= agent.state.budget.size() < 2_100
    await agent.aclose()


async def test_a_server_that_cuts_silently_is_reported_once_and_not_learnt(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(
        "sure", *[reply("x", usage=Usage(input=300, output=5), model="played")] * 2
    )
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("hello")
    ratio = agent.session.projection.meter.calibration.ratio("played")
    await agent.prompt("x " * 3_000)
    await agent.prompt("more")
    assert agent.session.projection.meter.calibration.ratio("played") == ratio
    assert (
        len([text for text in watch.notices if "counted only 300 tokens" in text]) == 1
    )
    await agent.aclose()


@pytest.mark.parametrize("window", [1_000, 4_096])
async def test_a_window_smaller_than_the_system_prompt_is_refused_before_anything_is_written(
    tmp_path: Path, window: int
) -> None:
    bring(tmp_path / "AGENTS.md", "A rule that takes its room. " * 300)
    llm = PlayedLLM(window=window)
    agent, _ = agent_in(tmp_path, llm)
    with pytest.raises(
        FoldlineError, match=r"too small.*FOLDLINE_CONTEXT_WINDOW"
    ) as refusal:
        await agent.prompt("hello")
    assert "\n" not in str(refusal.value)
    assert agent.session.entries == []
    assert agent.session.path is not None
    assert not agent.session.path.exists()
    assert llm.requests == []
    await agent.aclose()


async def test_a_threshold_below_the_system_prompt_is_named_as_the_cause(
    tmp_path: Path,
) -> None:
    bring(tmp_path / "AGENTS.md", "Be careful with orders. " * 400)
    budget = BudgetSettings(threshold=3_000)
    agent, _ = agent_in(tmp_path, PlayedLLM(), budget=budget)
    with pytest.raises(
        FoldlineError,
        match=r"threshold of 3,000 tokens is too low.*compaction\.threshold",
    ):
        await agent.prompt("hi")
    assert agent.session.entries == []
    await agent.aclose()


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        (
            '<tool_call>\n{"name": "read", "arguments": {"path": "a.py"}}\n</tool_call>',
            True,
        ),
        (
            'I look first.\n```json\n{"name": "bash", "parameters": {"command": "ls"}}\n```',
            True,
        ),
        ('{"name": "launch_missiles", "arguments": {}}', False),
        ("A call looks like <tool_call>, as you know, and then goes on.", False),
        ("All is well.", False),
    ],
)
async def test_a_call_that_comes_back_as_text_is_said(
    tmp_path: Path, text: str, is_call: bool
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM(text))
    assert (await agent.prompt("go")).text == text
    assert any("tool call as text" in notice for notice in watch.notices) == is_call
    await agent.aclose()


async def test_a_model_without_tools_is_named_before_it_answers_and_once(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(
        summaries=("hello", "again")
    )  # what it plays where no tools are offered
    llm.info = replace(llm.info, tools=False)
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("hello")
    await agent.prompt("and again")
    assert [notice for notice in watch.notices if "cannot call tools" in notice] == [
        watch.notices[0]
    ]
    assert [request.tools for request in llm.summary_requests] == [[], []]
    assert agent.state.budget.overhead == 0
    await agent.aclose()


@pytest.mark.parametrize(
    ("used", "words"),
    [(32_000, "window of 32,768 tokens"), (900, "output limit")],
)
async def test_an_answer_cut_off_by_the_window_says_so(
    tmp_path: Path, used: int, words: str
) -> None:
    cut = reply("half of", stop_reason="length", usage=Usage(input=used, output=50))
    agent, watch = agent_in(tmp_path, PlayedLLM(cut))
    await agent.prompt("go")
    assert any(words in notice for notice in watch.notices)
    await agent.aclose()


async def test_a_window_of_4096_works_with_fewer_and_shorter_tools(
    tmp_path: Path,
) -> None:
    bring(tmp_path / "AGENTS.md", "A rule that takes its room. " * 100)
    for n in range(6):
        write_lines(tmp_path / f"f{n}.txt", 60)
    small, large = PlayedLLM(*long_turn(6), window=4_096), PlayedLLM(window=8_192)
    agent, _ = agent_in(tmp_path, small)
    assert (await agent.prompt("read them all")).text == "all read"
    assert {spec.name for spec in small.requests[0].tools} == {
        "read",
        "write",
        "edit",
        "bash",
        "grep",
        "ls",
        "plan",
    }
    assert agent.state.budget.overhead < 4_096 / 8
    assert agent.session.projection.all_compactions
    agent.state.models.llm = large
    await agent.prompt("and now?")
    assert agent.state.budget.overhead > 1_500
    assert "The regular expression." in str(large.requests[-1].tools)
    await agent.aclose()


async def test_a_session_resumed_with_a_window_too_small_for_it_is_refused_and_kept(
    tmp_path: Path,
) -> None:
    bring(tmp_path / "AGENTS.md", "A rule that takes its room. " * 300)
    agent, _ = agent_in(tmp_path, PlayedLLM("hi"))
    await agent.prompt("hello")
    before = list(agent.session.entries)
    agent.state.models.llm = PlayedLLM(window=4_096)
    with pytest.raises(FoldlineError, match="too small"):
        await agent.prompt("again")
    assert [
        entry for entry in agent.session.entries if not isinstance(entry, NoticeRecord)
    ] == before
    await agent.aclose()


# --- compacting inside a turn ----------------------------------------------------------------------------


def long_turn(steps: int) -> list[AssistantMessage | str]:
    reads = [
        tool_reply(("read", {"path": f"f{n}.txt"}), stem=f"s{n}_") for n in range(steps)
    ]
    return [*reads, "all read"]


async def test_a_turn_compacts_between_its_steps_and_its_request_stays_verbatim(
    tmp_path: Path,
) -> None:
    wanted = [
        write_lines(
            tmp_path / f"f{n}.txt", 170, f"file {n} row {{n}} of the long listing"
        )
        for n in range(16)
    ]
    llm = PlayedLLM(*long_turn(16), window=16_384)
    agent, watch = agent_in(tmp_path, llm)
    request = "Read f0.txt to f15.txt, all of them, 一个不漏, and never skip one."
    answer = await agent.prompt(request)
    assert answer.text == "all read"
    ends = watch.of(events.CompactionEnd)
    assert len(ends) >= 2
    assert all(not end.aborted and end.reason == "threshold" for end in ends)
    assert watch.ends == [("run_agent", "done")]
    for sent in llm.requests:
        assert [m.text for m in sent.messages if isinstance(m, UserMessage)] == [
            request
        ]
    # Each result is seen whole by the request right after it, compacted or not since.
    for number, whole in enumerate(wanted):
        assert whole.strip() in llm.requests[number + 1].messages[-1].text
    assert broken(agent.session.projection) == []
    await agent.aclose()


async def test_between_compactions_each_request_extends_the_one_before(
    tmp_path: Path,
) -> None:
    for n in range(12):
        write_lines(tmp_path / f"f{n}.txt", 150)
    llm = PlayedLLM(*long_turn(12), window=16_384)
    agent, watch = agent_in(tmp_path, llm)
    await agent.prompt("read them all")
    changes = 0
    for earlier, later in zip(llm.requests, llm.requests[1:], strict=False):
        extends = list(later.messages[: len(earlier.messages)]) == list(
            earlier.messages
        )
        changes += not extends
    assert changes == len(watch.of(events.CompactionEnd)) > 0
    assert all(request.tools == llm.requests[0].tools for request in llm.requests)
    await agent.aclose()


async def test_a_compaction_that_fails_inside_a_turn_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        write_lines(tmp_path / f"f{n}.txt", 150)
    llm = PlayedLLM(*long_turn(6), window=16_384)
    agent, watch = agent_in(tmp_path, llm, draft_ahead=False)
    tries = 0

    async def no_way(*_: object, **__: object) -> None:
        nonlocal tries
        tries += 1
        raise LLMError("The summariser is away.")

    monkeypatch.setattr("foldline.agent.session.compact.propose", no_way)
    answer = await agent.prompt("read them all")
    assert answer.text == "all read"
    assert tries == 1  # not at every step again
    assert any("The summariser is away." in text for text in watch.notices)
    await agent.aclose()


async def test_a_summariser_that_fails_falls_to_the_next_rung_and_the_entry_says_so(
    tmp_path: Path,
) -> None:
    for n in range(8):
        write_lines(tmp_path / f"f{n}.txt", 150)
    refusal = LLMError("No more credit.", status=402)
    llm = PlayedLLM(*long_turn(8), window=16_384, summaries=(refusal, refusal))
    agent, watch = agent_in(tmp_path, llm, compaction="summary")
    await agent.prompt("read them all")
    compaction = agent.session.projection.all_compactions[0]
    assert compaction.rung == "clip"
    assert any(
        "No more credit." in event.detail
        for event in watch.of(events.CompactionProgress)
    )
    assert any(text.startswith("No more credit.") for text in watch.notices)
    await agent.aclose()


async def test_two_compactions_of_no_use_stop_automation_with_one_notice_a_turn(
    tmp_path: Path,
) -> None:
    """The request itself fills the window, and may not be compacted while it is unanswered."""
    for n in range(7):
        write_lines(tmp_path / f"f{n}.txt", 10)
    llm = PlayedLLM(*long_turn(7), window=16_384)
    agent, watch = agent_in(tmp_path, llm, compaction="summary")
    await agent.prompt("read them all " + "word after word after word " * 2_100)
    assert len(agent.session.projection.all_compactions) == 2
    stopped = [text for text in watch.notices if FREED_LITTLE[:-1] in text]
    assert len(stopped) == 1
    assert "Largest items: entry" in stopped[0]
    assert agent.must_make_room(reply("more").parts) is False
    await agent.prompt("and now?")
    assert len(agent.session.projection.all_compactions) == 2
    assert len([text for text in watch.notices if FREED_LITTLE[:-1] in text]) == 2
    await agent.aclose()


def looping(steps: int) -> PlayedLLM:
    """Reads the same file again and again, and has nothing new to say of it."""
    reads = [
        tool_reply(("read", {"path": "f.txt"}), stem=f"c{n}") for n in range(steps)
    ]
    return PlayedLLM(
        *reads,
        window=8_192,
        summaries=tuple(f"## Goal\n- read it {n}" for n in range(steps)),
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("strategy", ["adaptive", "summary", "ladder", "hierarchical"])
async def test_a_model_that_goes_round_in_circles_gets_no_third_compaction_of_its_steps(
    tmp_path: Path, strategy: str
) -> None:
    write_lines(tmp_path / "f.txt", 60)
    llm = looping(40)
    agent, watch = agent_in(tmp_path, llm, compaction=strategy, draft_ahead=False)
    await agent.prompt("read it")
    assert len(agent.session.projection.all_compactions) == 2
    assert (
        len(llm.summary_requests) <= 4
    )  # a ladder asks twice where one summary is not enough
    assert [text for text in watch.notices if text.startswith(SAME_STEPS[:-1])]
    assert pause_reason(reload_session(agent).projection)
    await agent.aclose()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("window", "reads", "most"), [(16_384, 6, 2), (16_384, 12, 5), (32_768, 24, 5)]
)
async def test_reads_fill_a_window_no_sooner_each_time_it_was_compacted(
    tmp_path: Path, window: int, reads: int, most: int
) -> None:
    """Placeholders say what was hidden. They share one budget, however many there are."""
    script: list[object] = []
    for n in range(reads):
        write_lines(
            tmp_path / f"f{n}.py",
            150,
            f"value_{n}_{{n}} = compute_{n}({{n}}) + offset  # row {{n}}",
        )
        script += [
            tool_reply(("read", {"path": f"f{n}.py"}), stem=f"c{n}"),
            f"f{n}.py defines values",
        ]
    agent, _ = agent_in(tmp_path, PlayedLLM(*script, window=window), draft_ahead=False)  # type: ignore[arg-type]
    for n in range(reads):
        await agent.prompt(f"Read f{n}.py")
        if agent.at_good_moment():
            agent.executor.submit(operations.CompactSession(reason="phase"))
            await agent.executor.settle()
    after = [
        compaction.tokens_after
        for compaction in agent.session.projection.all_compactions
    ]
    assert 1 <= len(after) <= most
    bare, unseen = (
        150,
        3_200,
    )  # a read with its answer, its result hidden; a result that stays
    assert all(size <= after[0] + reads * bare + unseen for size in after), after
    await agent.aclose()


async def test_requests_for_summaries_count_as_steps(tmp_path: Path) -> None:
    write_lines(tmp_path / "f.txt", 60)
    llm = PlayedLLM(
        *(tool_reply(("read", {"path": "f.txt"}), stem=f"c{n}") for n in range(40)),
        window=8_192,
    )
    agent, _ = agent_in(tmp_path, llm, compaction="summary", draft_ahead=False)
    with pytest.raises(
        FoldlineError,
        match=r"^Stopped after 12 steps \(including \d for summaries\), before",
    ):
        await agent.prompt("read it", max_steps=12)
    assert len(llm.summary_requests) >= 2
    assert len(llm.requests) + len(llm.summary_requests) == 12
    await agent.aclose()


# --- overflow -----------------------------------------------------------------------------------------


def too_long(status: int = 400) -> ContextOverflow:
    return ContextOverflow(
        "The request is longer than the window of played.", status=status
    )


async def test_an_overflow_compacts_and_sends_the_same_step_again(
    tmp_path: Path,
) -> None:
    for n in range(4):
        write_lines(tmp_path / f"f{n}.txt", 150)
    script: list[object] = list(long_turn(4))
    script.insert(4, too_long())
    llm = PlayedLLM(*script, window=100_000)  # type: ignore[arg-type]
    agent, watch = agent_in(tmp_path, llm)
    answer = await agent.prompt("read them all")
    assert answer.text == "all read"
    refused, retried = llm.requests[4:6]
    assert retried.messages[-1] == refused.messages[-1]
    [compaction] = agent.session.projection.all_compactions
    assert compaction.reason == "overflow"
    assert compaction.tokens_after < compaction.tokens_before
    assert watch.of(events.CompactionEnd)[0].will_retry
    assert records(agent.session)[4].error
    assert (
        agent.state.budget.limits.window < 20_000
    )  # what was refused is believed from now on
    await agent.aclose()


async def test_the_window_a_refusal_names_is_believed_from_then_on(
    tmp_path: Path,
) -> None:
    for n in range(4):
        write_lines(tmp_path / f"f{n}.txt", 150)
    script: list[object] = list(long_turn(4))
    script.insert(
        4,
        ContextOverflow(
            "Requested tokens exceed context window.", status=400, window=10_000
        ),
    )
    agent, _ = agent_in(tmp_path, PlayedLLM(*script, window=100_000))  # type: ignore[arg-type]
    await agent.prompt("read them all")
    assert agent.state.budget.limits.window == 10_000
    await agent.aclose()


def unknown_refusal(words: str = "Bad Request", about: Subject = "") -> LLMError:
    return LLMError(
        f'The server refused the request (400): it says "{words}".', 400, about=about
    )


async def test_an_unknown_refusal_of_a_nearly_full_window_is_tried_once_as_an_overflow(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(
        "earlier work " * 30_700, unknown_refusal(), "all read", window=100_000
    )
    agent, watch = agent_in(tmp_path, llm, budget=BudgetSettings(soft_ratio=1))
    await agent.prompt("tell me of what was earlier")
    assert 80_000 < agent.state.budget.size() < agent.state.budget.limits.threshold
    assert (await agent.prompt("go on")).text == "all read"
    assert [
        compaction.reason for compaction in agent.session.projection.all_compactions
    ] == ["overflow"]
    warning = MADE_SMALLER.format(failure="")
    assert any(warning in notice.text for notice in watch.of(events.Notice))
    assert (
        agent.state.budget.limits.window == 100_000
    )  # nobody said that it was the length
    await agent.aclose()


async def test_an_unknown_refusal_that_comes_again_is_not_tried_for_ever(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM("earlier work " * 30_700, always=unknown_refusal(), window=100_000)
    agent, _ = agent_in(tmp_path, llm, budget=BudgetSettings(soft_ratio=1))
    await agent.prompt("tell me of what was earlier")
    with pytest.raises(FoldlineError, match="Bad Request"):
        await agent.prompt("go on")
    assert len(llm.requests) == 3
    await agent.aclose()


@pytest.mark.parametrize(
    ("tokens", "about"), [(100, ""), (80_500, "request")], ids=["short", "known"]
)
async def test_an_unknown_refusal_of_a_short_request_or_one_that_says_why_is_not_an_overflow(
    tmp_path: Path, tokens: int, about: Subject
) -> None:
    llm = PlayedLLM("word " * tokens, unknown_refusal(about=about), window=100_000)
    agent, _ = agent_in(tmp_path, llm, budget=BudgetSettings(soft_ratio=1))
    await agent.prompt("tell me of what was earlier")
    with pytest.raises(FoldlineError, match="Bad Request"):
        await agent.prompt("go on")
    assert not agent.session.projection.all_compactions
    await agent.aclose()


async def test_a_refused_size_is_known_to_the_next_process(tmp_path: Path) -> None:
    for n in range(4):
        write_lines(tmp_path / f"f{n}.txt", 150)
    script: list[object] = list(long_turn(4))
    script.insert(4, too_long())
    agent, _ = agent_in(tmp_path, PlayedLLM(*script, window=100_000))  # type: ignore[arg-type]
    await agent.prompt("read them all")
    believed = agent.state.budget.limits.window
    await agent.aclose()
    later = Agent(reload_session(agent), llm=PlayedLLM(window=100_000))
    assert later.state.budget.limits.window == believed < 20_000
    await later.aclose()


async def test_a_window_that_the_server_stated_is_known_to_the_next_process(
    tmp_path: Path,
) -> None:
    """Before it is asked again: the meter, a preview and a compaction by hand plan with it."""
    with running_server(window=10_000) as server:
        agent, _ = agent_in(tmp_path, chat_at(server.base_url, model=server.model))
        assert agent.state.models.window_is_assumed
        await agent.prompt("hello")
        await agent.aclose()
        later = Agent(
            reload_session(agent), llm=chat_at(server.base_url, model=server.model)
        )
        assert (
            later.state.budget.limits.window,
            later.state.models.window_is_assumed,
        ) == (
            10_000,
            False,
        )
        other = Agent(
            reload_session(agent), llm=chat_at(server.base_url, model="never-heard-of")
        )
        assert (
            other.state.budget.limits.window,
            other.state.models.window_is_assumed,
        ) == (
            DEFAULT_WINDOW,
            True,
        )
        for each in (later, other):
            await each.aclose()


async def test_a_compaction_by_hand_asks_for_a_window_that_only_the_server_knows(
    tmp_path: Path,
) -> None:
    with running_server(window=10_000) as server:
        agent, watch = agent_in(tmp_path, chat_at(server.base_url, model=server.model))
        await agent.compact()
        assert agent.state.budget.limits.window == 10_000
        assert len(watch.of(events.WindowLearned)) == 1
        await agent.compact()
        assert len(watch.of(events.WindowLearned)) == 1
        await agent.aclose()


async def test_an_overflow_that_cannot_be_cured_names_the_largest_items_and_ends(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(always=too_long(), window=100_000)
    agent, watch = agent_in(tmp_path, llm)
    with pytest.raises(
        FoldlineError,
        match=rf"{ALL_COMPACTED} Largest items: entry \d+ \(user, ",
    ) as end:
        await agent.prompt("a long request " * 1_000)
    assert "\n" not in str(end.value)
    assert len(llm.requests) == 1
    assert watch.ends == [("run_agent", "failed")]
    assert (
        agent.state.budget.limits.window == 100_000
    )  # it was not the size, as far as anybody knows
    assert (
        len(
            [entry for entry in agent.session.entries if isinstance(entry, UserMessage)]
        )
        == 1
    )
    await agent.aclose()


async def test_every_attempt_after_an_overflow_is_strictly_smaller(
    tmp_path: Path,
) -> None:
    for n in range(5):
        write_lines(tmp_path / f"f{n}.txt", 150)
    llm = PlayedLLM(*long_turn(5)[:-1], always=too_long(), window=100_000)
    agent, _ = agent_in(tmp_path, llm)
    with pytest.raises(FoldlineError, match="Largest items: entry"):
        await agent.prompt("read them all")
    sizes = [sum(len(m.text) for m in request.messages) for request in llm.requests[5:]]
    assert 2 <= len(sizes) < 10
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    assert broken(agent.session.projection) == []
    llm.script.append("fine now")
    assert (await agent.prompt("are you there?")).text == "fine now"
    await agent.aclose()


async def test_with_compaction_off_an_overflow_changes_nothing(tmp_path: Path) -> None:
    write_lines(tmp_path / "f0.txt", 150)
    llm = PlayedLLM(tool_reply(("read", {"path": "f0.txt"})), too_long(), window=32_768)
    agent, watch = agent_in(tmp_path, llm, mode="off")
    with pytest.raises(FoldlineError, match=f"{AUTO_OFF} Largest items: "):
        await agent.prompt("read it")
    assert not any(isinstance(entry, Compaction) for entry in agent.session.entries)
    assert watch.of(events.CompactionStart) == []
    await agent.aclose()


async def test_a_request_too_large_in_bytes_says_nothing_about_the_window(
    tmp_path: Path,
) -> None:
    llm = PlayedLLM(too_long(413), "hello")
    agent, _ = agent_in(tmp_path, llm, mode="off")
    with pytest.raises(FoldlineError):
        await agent.prompt("hello")
    assert agent.state.budget.limits.window == 32_768
    await agent.aclose()


# --- other failures -----------------------------------------------------------------------------------


async def test_a_stream_that_breaks_keeps_its_text_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    script = [
        {
            "times": 9,
            "answer": {
                "text": "The first half of a thought",
                "chunk": 9,
                "fault": {"cut_after": 3},
            },
        }
    ]
    with running_server(script=script, then_default=True, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=32_768, sleep=Waits())
        agent, watch = agent_in(tmp_path, llm)
        with pytest.raises(FoldlineError, match=pattern(BROKEN)):
            await agent.prompt("think")
        [partial] = [
            entry
            for entry in agent.session.entries
            if isinstance(entry, AssistantMessage)
        ]
        assert partial.stop_reason == "error"
        assert partial.text == "The first half of "[: len(partial.text)] != ""
        assert all(record.error for record in records(agent.session))
        assert [record.said for record in records(agent.session)] == [
            partial.text
        ] * 8 + [None]
        answer = await agent.prompt("Say it again")
        assert answer.text == "You said: Say it again"
        *_, eighth, ninth, after = server.requests()
        assert eighth.messages == ninth.messages
        assert partial.text in str(after.messages)
        assert (after.rejected, after.violations) == ("", ())
        assert watch.ends == [("run_agent", "failed"), ("run_agent", "done")]
        await agent.aclose()


async def test_a_stream_that_breaks_inside_a_tool_call_leaves_a_valid_view(
    tmp_path: Path,
) -> None:
    call = {"name": "read", "arguments": {"path": "a-file-with-a-long-name.txt"}}
    script = [
        {
            "times": 9,
            "answer": {
                "text": "I look.",
                "tool_calls": [call],
                "fault": {"cut_after": 4},
            },
        }
    ]
    with running_server(script=script, then_default=True, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=32_768, sleep=Waits())
        agent, _ = agent_in(tmp_path, llm)
        with pytest.raises(FoldlineError):
            await agent.prompt("look")
        assert broken(agent.session.projection) == []
        await agent.prompt("Say hello")
        assert {(seen.rejected, seen.violations) for seen in server.requests()} == {
            ("", ())
        }
        await agent.aclose()


async def test_a_wrong_key_is_one_sentence_and_the_session_stays_usable(
    tmp_path: Path,
) -> None:
    with running_server(key="right", strict=True) as server:
        llm = chat_at(
            server.base_url, model=server.model, key="wrong-key", window=32_768
        )
        agent, _ = agent_in(tmp_path, llm)
        with pytest.raises(
            FoldlineError, match=pattern(WRONG_KEY, key_name="OPENAI_API_KEY")
        ) as refusal:
            await agent.prompt("hello")
        assert "\n" not in str(refusal.value)
        assert agent.session.path is not None
        assert "wrong-key" not in agent.session.path.read_text()
        await agent.state.models.llm.aclose()
        agent.state.models.llm = chat_at(
            server.base_url, model=server.model, key="right", window=32_768
        )
        assert (await agent.prompt("hello again")).text.startswith("You said: hello")
        await agent.aclose()


async def test_throttling_shows_a_retry_and_then_goes_through(tmp_path: Path) -> None:
    fault = {
        "status": 429,
        "body": {"error": {"message": "Too many tokens per minute, please wait"}},
    }
    script = [
        {"times": 1, "answer": {"fault": {**fault, "headers": {"retry-after": "0"}}}}
    ]
    with running_server(script=script, then_default=True, strict=True) as server:
        llm = chat_at(server.base_url, model=server.model, window=32_768)
        agent, watch = agent_in(tmp_path, llm)
        assert (await agent.prompt("hello")).text == "You said: hello"
        [told] = watch.of(events.Retrying)
        assert says(told.sentence, RATE_LIMITED)
        assert (told.seconds, told.attempt, told.attempts) == (0.0, 1, 8)
        assert agent.session.projection.all_compactions == []
        await agent.aclose()


async def test_an_empty_answer_is_said_to_be_one_and_never_an_older_one(
    tmp_path: Path,
) -> None:
    agent, watch = agent_in(tmp_path, PlayedLLM("an older answer", reply("")))
    await agent.prompt("hello")
    with pytest.raises(FoldlineError, match="empty answer"):
        await agent.prompt("and?")
    assert any("empty answer" in text for text in watch.notices)
    assert broken(agent.session.projection) == []
    await agent.aclose()


async def test_a_disk_that_fills_up_stops_the_turn_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "f0.txt", 10)
    llm = PlayedLLM(
        tool_reply(("read", {"path": "f0.txt"})), "never asked for", "room again"
    )
    agent, watch = agent_in(tmp_path, llm)
    append = agent.session.append

    async def full(*entries: Entry, durable: bool = False) -> list[Entry]:
        if any(isinstance(entry, ToolResultMessage) for entry in entries):
            raise WriteFailed("Nothing after entry 2 is on disk: no space left.", 0)
        return await append(*entries, durable=durable)

    monkeypatch.setattr(agent.session, "append", full)
    with pytest.raises(FoldlineError, match="no space left"):
        await agent.prompt("read it")
    assert len(llm.requests) == 1
    assert watch.ends == [("run_agent", "failed")]
    monkeypatch.undo()
    llm.script.popleft()
    assert (await agent.prompt("now?")).text == "room again"
    assert "interrupted" in texts(
        llm.requests[-1].messages
    )  # the call whose result was lost has a stated one
    await agent.aclose()


async def test_a_session_for_reading_only_refuses_the_prompt_and_asks_no_model(
    tmp_path: Path,
) -> None:
    first, _ = agent_in(tmp_path, PlayedLLM("hi"))
    await first.prompt("hello")
    session = Session.from_entries(first.session.header, first.session.entries)
    llm = PlayedLLM(Hang())
    from foldline.agent import Agent

    agent = Agent(session, llm=llm)
    with pytest.raises(FoldlineError, match=pattern(IN_MEMORY)):
        await agent.prompt("more")
    assert llm.requests == []
    await agent.aclose()
    await first.aclose()
