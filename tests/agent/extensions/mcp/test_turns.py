"""Tools of servers in the agent's own turns: offered, asked for, cancelled, lost; and a prefix that holds."""

import asyncio
import os
import signal
from itertools import pairwise

import pytest

from foldline.agent.extensions.mcp.connection import HAS_STOPPED
from foldline.agent.extensions.mcp.servers import PARTLY_RUN, SENTENCE
from foldline.agent.turn import toolset
from foldline.agent.turn.calls import CANCELLED
from foldline.agent.turn.toolset import BY_SEARCH, CHANGED, OTHER_TOOLS
from foldline.llm import Request, spec_tokens
from foldline.protocol import (
    NoticeRecord,
    RequestRecord,
    ToolResultMessage,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.view.calls import unannounced_tool_changes
from foldline.view.rules import broken
from support.agents import PlayedLLM, agent_in, reload_session, tool_reply
from support.clients import chat_at
from support.mcp_server import is_alive, stdio_server
from support.server import running_server

from .conftest import ServerHarness

ECHO, SLOW, GROW = "mcp__one__echo", "mcp__one__slow", "mcp__one__grow"


def offered(request: Request) -> list[str]:
    return [spec.name for spec in request.tools]


def results(entries: object) -> list[str]:
    assert hasattr(entries, "__iter__")
    return [entry.text for entry in entries if isinstance(entry, ToolResultMessage)]


async def test_a_servers_tool_is_called_as_one_of_ours(harness: ServerHarness) -> None:
    llm = PlayedLLM(tool_reply((ECHO, {"text": "hello"})), "done", "again")
    agent, watch = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    agent.start()
    await agent.prompt("Say hello")
    await agent.prompt("And now?")
    assert results(agent.session.entries) == ["hello"]
    assert [event.title for event in watch.of(events.ToolStarted)] == [
        'one: echo {"text": "hello"}'
    ]
    names = offered(llm.requests[0])
    ours = [name for name in names if not name.startswith("mcp__")]
    assert names == ours + sorted(set(names) - set(ours))
    assert all(request.tools == llm.requests[0].tools for request in llm.requests)
    records = [
        entry for entry in agent.session.entries if isinstance(entry, RequestRecord)
    ]
    assert len({record.tools for record in records}) == 1
    assert broken(agent.session.projection) == []
    await agent.aclose()
    assert list(unannounced_tool_changes(reload_session(agent).entries)) == []
    assert not any(map(is_alive, harness.log.pids))


async def test_it_asks_whatever_its_server_says_of_itself_and_always_holds_for_one_tool(
    harness: ServerHarness,
) -> None:
    answers = [tool_reply((ECHO, {"text": text}), stem=text) for text in "ab"]
    llm = PlayedLLM(*answers, tool_reply(("mcp__one__where", {}), stem="c"), "done")
    servers = harness.servers(stdio_server("one", harness.diary))
    agent, watch = agent_in(harness.folder, llm, servers=servers, approvals="edits")
    turn = asyncio.create_task(agent.prompt("go"))
    first = await watch.first(events.ApprovalRequested)
    assert (first.name, first.title) == (ECHO, 'one: echo {"text": "a"}')
    agent.executor.submit(operations.Approve(call_id=first.call_id, answer="always"))
    second = await watch.first(events.ApprovalRequested, 2)
    assert second.name == "mcp__one__where"
    agent.executor.submit(operations.Approve(call_id=second.call_id, answer="deny"))
    await turn
    assert results(agent.session.entries)[:2] == ["a", "b"]
    assert harness.log.of("called") == ["echo", "echo"]
    await agent.aclose()


async def test_esc_in_mid_call_tells_the_server_and_leaves_a_result(
    harness: ServerHarness,
) -> None:
    llm = PlayedLLM(tool_reply((SLOW, {"number": 600})), "done")
    agent, watch = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    agent.executor.submit(operations.RunAgent(parts=text_parts("sleep")))
    await watch.first(events.ToolOutput)
    agent.executor.submit(operations.Interrupt())
    await watch.first(events.TaskFinished)
    assert watch.ends == [("run_agent", "cancelled")]
    assert results(agent.session.entries) == [CANCELLED.text]
    await harness.until(lambda: harness.log.of("cancelled") == ["slow"])
    assert (await agent.prompt("go on")).text == "done"
    assert broken(agent.session.projection) == []
    await agent.aclose()


async def test_killed_in_mid_call_the_turn_goes_on(harness: ServerHarness) -> None:
    llm = PlayedLLM(
        tool_reply((SLOW, {"number": 600})),
        tool_reply((ECHO, {"text": "back"}), stem="d"),
        "done",
    )
    agent, watch = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    turn = asyncio.create_task(agent.prompt("sleep"))
    await watch.first(events.ToolOutput)
    os.kill(harness.log.pids[0], signal.SIGKILL)
    assert (await turn).text == "done"
    lost, back = results(agent.session.entries)
    assert lost == SENTENCE.format(
        server="one", words=PARTLY_RUN.format(error=HAS_STOPPED)
    )
    assert back == "back"
    assert len(watch.notices) == 1
    assert all(request.tools == llm.requests[0].tools for request in llm.requests)
    await agent.aclose()


async def test_what_changes_in_mid_turn_counts_from_the_next_one_and_is_on_record(
    harness: ServerHarness,
) -> None:
    llm = PlayedLLM(
        tool_reply((GROW, {})),
        tool_reply((ECHO, {"text": "x"}), stem="d"),
        "done",
        "two",
        "three",
    )
    agent, _ = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    servers = agent.state.servers
    assert servers is not None
    turn = asyncio.create_task(agent.prompt("grow"))
    await harness.until(
        lambda: any(tool.spec.name == "mcp__one__grown_0" for tool in servers.tools)
    )
    await turn
    assert not any("mcp__one__grown_0" in offered(request) for request in llm.requests)
    await agent.prompt("and now?")
    await agent.prompt("still")
    assert ["mcp__one__grown_0" in offered(request) for request in llm.requests] == [
        False
    ] * 3 + [True] * 2
    [said] = [
        entry for entry in agent.session.entries if isinstance(entry, NoticeRecord)
    ]
    assert said.text == "Tools added: mcp__one__grown_0."
    await agent.aclose()
    entries = list(reload_session(agent).entries)
    assert list(unannounced_tool_changes(entries)) == []
    assert (
        len(
            list(
                unannounced_tool_changes([entry for entry in entries if entry != said])
            )
        )
        == 1
    )


async def test_a_server_that_is_late_comes_with_a_later_turn(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset, "PATIENCE", 0.001)
    llm = PlayedLLM("one", "two")
    servers = harness.servers(stdio_server("one", harness.diary))
    agent, watch = agent_in(harness.folder, llm, servers=servers, interactive=True)
    await agent.prompt("first")
    await harness.until(lambda: servers.tools)
    await agent.prompt("second")
    assert [ECHO in offered(request) for request in llm.requests] == [False, True]
    assert [event.servers for event in watch.of(events.ServersAwaited)] == [("one",)]
    assert [
        e.text[:26] for e in agent.session.entries if isinstance(e, NoticeRecord)
    ] == ["Tools added: mcp__one__big"]
    await agent.aclose()


async def test_where_nobody_looks_on_the_first_turn_waits_for_a_late_server(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset, "PATIENCE", 0.001)
    llm = PlayedLLM("one")
    agent, _ = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    await agent.prompt("the only one")
    assert ECHO in offered(llm.requests[0])
    await agent.aclose()


async def test_what_a_server_offers_counts_before_the_first_prompt_as_it_does_after_it(
    harness: ServerHarness,
) -> None:
    llm = PlayedLLM("one")
    agent, watch = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    ours = agent.state.overhead
    agent.start()
    await watch.first(events.ToolsListed)
    listed = agent.state.overhead
    await agent.prompt("first")
    assert (
        listed
        == sum(map(spec_tokens, llm.requests[0].tools))
        == agent.state.overhead
        > ours
    )
    await agent.aclose()


async def test_esc_does_not_wait_for_a_server_and_gives_the_prompt_back(
    harness: ServerHarness,
) -> None:
    hangs = stdio_server("one", harness.diary, "--fault", "hang")
    agent, watch = agent_in(
        harness.folder, PlayedLLM("hello"), servers=harness.servers(hangs)
    )
    agent.executor.submit(operations.RunAgent(parts=text_parts("hello")))
    await watch.first(events.ServersAwaited)
    agent.executor.submit(operations.Interrupt())
    await watch.first(events.TaskFinished)
    assert watch.ends == [("run_agent", "cancelled")]
    assert not any(isinstance(entry, UserMessage) for entry in agent.session.entries)
    assert (await agent.prompt("hello")).text == "hello"  # nor does anybody again
    await agent.aclose()
    assert not any(map(is_alive, harness.log.pids))


async def test_resumed_without_its_server_the_session_says_so(
    harness: ServerHarness,
) -> None:
    config = stdio_server("one", harness.diary)
    agent, _ = agent_in(
        harness.folder, PlayedLLM("one"), servers=harness.servers(config)
    )
    await agent.prompt("first")
    await agent.aclose()
    session = reload_session(agent)
    second = type(agent)(session, llm=PlayedLLM("two", "three"))
    await second.prompt("second")
    await second.prompt("third")
    notices = [
        entry.text for entry in session.entries if isinstance(entry, NoticeRecord)
    ]
    assert notices == [CHANGED.format(change=OTHER_TOOLS, remark="")]
    assert list(unannounced_tool_changes(session.entries)) == []
    await second.aclose()


async def test_tools_that_would_fill_the_window_are_searched_and_those_found_stay(
    harness: ServerHarness,
) -> None:
    llm = PlayedLLM(
        tool_reply(("tool_search", {"query": "count 7"})),
        tool_reply(("mcp__one__count_7", {"text": "x"}), stem="d"),
        "done",
        "again",
    )
    servers = harness.servers(stdio_server("one", harness.diary, "--many", "60"))
    agent, _ = agent_in(harness.folder, llm, servers=servers)
    await agent.prompt("Count")
    await agent.prompt("And now?")
    first, second, *later = llm.requests
    assert "tool_search" in offered(first)
    assert not any(name.startswith("mcp__") for name in offered(first))
    assert "mcp__one__count_7" in offered(second)
    assert len([name for name in offered(second) if name.startswith("mcp__")]) <= 8
    assert all(request.tools == second.tools for request in later)
    said = [
        entry.text for entry in agent.session.entries if isinstance(entry, NoticeRecord)
    ]
    assert len(said) == 1
    assert said[0].endswith(BY_SEARCH)
    assert harness.log.of("called") == ["count_7"]
    await agent.aclose()
    entries = reload_session(agent)
    assert list(unannounced_tool_changes(entries.entries)) == []
    assert broken(entries.projection) == []


async def test_few_tools_are_offered_and_nothing_is_searched(
    harness: ServerHarness,
) -> None:
    llm = PlayedLLM("done")
    agent, _ = agent_in(
        harness.folder, llm, servers=harness.servers(stdio_server("one", harness.diary))
    )
    await agent.prompt("hello")
    assert ECHO in offered(llm.requests[0])
    assert "tool_search" not in offered(llm.requests[0])
    await agent.aclose()


async def test_a_search_that_finds_nothing_says_what_there_is(
    harness: ServerHarness,
) -> None:
    llm = PlayedLLM(tool_reply(("tool_search", {"query": "xyzzy"})), "done")
    servers = harness.servers(stdio_server("one", harness.diary, "--many", "60"))
    agent, _ = agent_in(harness.folder, llm, servers=servers)
    await agent.prompt("Find it")
    assert "one: 70 tools" in results(agent.session.entries)[0]
    assert llm.requests[0].tools == llm.requests[1].tools
    await agent.aclose()


async def test_a_real_server_takes_the_tools_and_its_cache_holds_between_turns(
    harness: ServerHarness,
) -> None:
    echo, grow = {"name": ECHO, "arguments": {"text": "hi"}}, {"name": GROW}
    script = [
        {"when": {"role": "user", "content": "echo"}, "answer": {"tool_calls": [echo]}},
        {"when": {"role": "user", "content": "grow"}, "answer": {"tool_calls": [grow]}},
        {"answer": {"text": "fine"}},
    ]
    with running_server(script=script, strict=True, window=65_536) as server:
        llm = chat_at(server.base_url, model=server.model, window=65_536)
        servers = harness.servers(stdio_server("one", harness.diary))
        agent, _ = agent_in(harness.folder, llm, servers=servers)
        for prompt in ("echo", "grow", "go on"):
            await agent.prompt(prompt)
            await harness.until(
                lambda p=prompt: (
                    p != "grow" or any("grown" in t.spec.name for t in servers.tools)
                )
            )
        seen = server.requests()
        assert [(each.rejected, each.violations) for each in seen] == [("", ())] * len(
            seen
        )
        misses = [
            later
            for earlier, later in pairwise(seen)
            if later.cached_tokens < earlier.prompt_tokens - 128
        ]
        assert len(misses) == 1  # where the tools have changed, between two turns
        await agent.aclose()
    assert list(unannounced_tool_changes(agent.session.entries)) == []
