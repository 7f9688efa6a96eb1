"""Where a model fails for good, the next of `fallback` takes over, and the user is asked first."""

from pathlib import Path
from typing import Any

import pytest

from foldline.agent.agent import retune
from foldline.agent.settings.settings import load_settings
from foldline.agent.turn.fallback import COMPACTING, CONTINUE
from foldline.llm import LLMError, ModelInfo
from foldline.llm.base import STAND_IN
from foldline.llm.failures import LONG_WAIT
from foldline.protocol import events, operations
from support.agents import PlayedLLM, agent_in, other_tasks_done, reply, tool_reply
from support.clients import client_of, scripted_server
from support.sentences import says


class Named(PlayedLLM):
    def __init__(
        self, name: str, *script: Any, window: int = 32_768, **more: Any
    ) -> None:
        super().__init__(*script, window=window, **more)
        self.info = ModelInfo(id=name, window=window, provider=name)


FAILS = LLMError("The server is overloaded (503).", 503)


async def test_the_user_is_asked_and_one_key_goes_on_with_the_same_request(
    tmp_path: Path,
) -> None:
    broken = reply("half an ans", stop_reason="error")
    first = Named(
        "first", LLMError("The server is overloaded (503).", 503, partial=broken)
    )
    second = Named("second", "the answer")
    agent, watch = agent_in(
        tmp_path,
        first,
        interactive=True,
        fallback=["second"],
        connect={"second": second}.__getitem__,
    )
    task = agent.executor.submit(operations.RunAgent(parts=reply("hello").parts))
    asked = await watch.first(events.ChoiceRequested)
    assert "overloaded" in asked.title
    assert [(option.key, option.label) for option in asked.options] == [
        ("f", CONTINUE.format(name="second", remark=""))
    ]
    agent.executor.submit(operations.Choose(choice=asked.choice, key="f"))
    assert (await agent.executor.wait_for(task)).outcome == "done"
    [sent] = second.requests
    assert sent.messages == first.requests[0].messages, (
        "nothing of the broken answer is in it"
    )
    assert agent.state.models.llm is second and first.closed
    await agent.aclose()
    await other_tasks_done()


async def test_a_server_that_asks_to_wait_for_hours_is_asked_once_and_another_model_offered(
    tmp_path: Path,
) -> None:
    limited = {
        "status": 429,
        "body": {"error": {"message": "slow down"}},
        "headers": {"retry-after": "7200"},
    }
    with scripted_server({"fault": limited}) as server:
        first, second = client_of(server), Named("second", "the answer")
        agent, watch = agent_in(
            tmp_path,
            first,
            interactive=True,
            fallback=["second"],
            connect=lambda _: second,
        )
        task = agent.executor.submit(operations.RunAgent(parts=reply("hello").parts))
        asked = await watch.first(events.ChoiceRequested)
        assert LONG_WAIT.format(duration="2 h") in asked.title
        assert len(server.requests()) == 1
        agent.executor.submit(operations.Choose(choice=asked.choice, key="f"))
        assert (await agent.executor.wait_for(task)).outcome == "done"
        await agent.aclose()


async def test_left_alone_the_turn_fails_as_ever_and_can_be_tried_again(
    tmp_path: Path,
) -> None:
    first, second = Named("first", FAILS, "now"), Named("second")
    agent, watch = agent_in(
        tmp_path, first, interactive=True, fallback=["second"], connect=lambda _: second
    )
    task = agent.executor.submit(operations.RunAgent(parts=reply("hello").parts))
    asked = await watch.first(events.ChoiceRequested)
    agent.executor.submit(operations.Choose(choice=asked.choice, key=""))
    assert (await agent.executor.wait_for(task)).outcome == "failed"
    assert second.requests == [] and second.closed and agent.state.models.llm is first
    assert (
        await agent.executor.wait_for(agent.executor.submit(operations.Retry()))
    ).outcome == "done"
    await agent.aclose()


async def test_a_smaller_window_is_made_to_fit_with_the_model_that_takes_over(
    tmp_path: Path,
) -> None:
    steps = [
        tool_reply(("bash", {"command": f"seq {n} {n + 900}"}), stem=f"c{n}-")
        for n in range(6)
    ]
    first, second = Named("first", *steps, FAILS), Named("second", "done", window=8_192)
    agent, watch = agent_in(
        tmp_path,
        first,
        interactive=True,
        fallback=["second"],
        connect=lambda _: second,
        compaction="summary",
    )
    task = agent.executor.submit(operations.RunAgent(parts=reply("count").parts))
    asked = await watch.first(events.ChoiceRequested)
    remark = COMPACTING.format(window=8_192)
    label = CONTINUE.format(name="second", remark=remark)
    assert asked.options[0].label == label
    agent.executor.submit(operations.Choose(choice=asked.choice, key="f"))
    assert (await agent.executor.wait_for(task)).outcome == "done"
    assert second.summary_requests and not first.summary_requests
    assert agent.state.budget.size() < 8_192
    await agent.aclose()


async def test_with_compaction_off_what_does_not_fit_is_said(tmp_path: Path) -> None:
    steps = [
        tool_reply(("bash", {"command": f"seq {n} {n + 900}"}), stem=f"c{n}-")
        for n in range(6)
    ]
    first, second = Named("first", *steps, FAILS), Named("second", window=8_192)
    agent, watch = agent_in(
        tmp_path, first, mode="off", fallback=["second"], connect=lambda _: second
    )
    task = agent.executor.submit(operations.RunAgent(parts=reply("count").parts))
    assert (await agent.executor.wait_for(task)).outcome == "failed"
    assert any("more than the 8,192 of second" in notice for notice in watch.notices)
    assert second.requests == [] and agent.state.models.llm is first
    await agent.aclose()


@pytest.mark.parametrize("interactive", [True, False])
async def test_another_model_takes_over_in_a_subagent_and_its_parent_keeps_its_own(
    tmp_path: Path, interactive: bool
) -> None:
    first = Named(
        "first",
        tool_reply(("task", {"prompt": "look", "agent": "explore"})),
        FAILS,
        "so it is",
    )
    second = Named("second", "found")
    agent, watch = agent_in(
        tmp_path,
        first,
        interactive=interactive,
        fallback=["second"],
        connect=lambda _: second,
    )
    task = agent.executor.submit(operations.RunAgent(parts=reply("go").parts))
    if interactive:
        asked = await watch.first(events.ChoiceRequested)
        assert asked.title == "explore: The server is overloaded (503)."
        agent.executor.submit(operations.Choose(choice=asked.choice, key="f"))
    assert (await agent.executor.wait_for(task)).outcome == "done"
    assert "found" in first.requests[-1].messages[-1].text
    assert agent.state.models.llm is first and not first.closed and second.closed
    assert interactive or any(
        each.startswith("explore: The server") for each in watch.notices
    )
    await agent.aclose()
    await other_tasks_done()


# --- summaries -----------------------------------------------------------------------------------------


async def test_the_sessions_own_model_writes_the_summary_where_another_fails(
    tmp_path: Path,
) -> None:
    own = Named(
        "own", *["word after word " * 900] * 3, summaries=("## Goal\n- by its own",)
    )
    other = Named("other", summaries=(FAILS,))
    agent, watch = agent_in(tmp_path, own, summariser=other, compaction="summary")
    for _ in range(3):
        await agent.prompt("go on")
    await agent.compact()
    [made] = agent.session.projection.all_compactions
    entry = agent.session.projection.entry(made.index)
    assert entry is not None and "by its own" in str(entry) and made.rung == "strategy"
    assert getattr(entry, "model", "") == "own"
    assert any(
        says(event.sentence, STAND_IN, model="own")
        for event in watch.of(events.Retrying)
    )
    await agent.aclose()


# --- what may be set -----------------------------------------------------------------------------------


def test_it_is_a_list_in_a_file_and_has_commas_in_the_environment(
    tmp_path: Path,
) -> None:
    environ = {
        "FOLDLINE_FALLBACK": "gpt-5-mini@openai, m@deepseek",
        "FOLDLINE_HOME": str(tmp_path),
    }
    assert load_settings(tmp_path, environ).fallback == [
        "gpt-5-mini@openai",
        "m@deepseek",
    ]


@pytest.mark.parametrize("given", ["m@depseek", "gpt-5@opnai"])
def test_a_provider_nobody_knows_is_refused_at_the_start(
    tmp_path: Path, given: str
) -> None:
    (tmp_path / "config.toml").write_text(f'fallback = ["{given}"]\n')
    with pytest.raises(Exception, match="Did you mean"):
        load_settings(tmp_path, {"FOLDLINE_HOME": str(tmp_path)})


async def test_a_change_of_the_list_holds_from_the_next_turn_on(tmp_path: Path) -> None:
    first, second = Named("first", FAILS), Named("second", "the answer")
    agent, _ = agent_in(tmp_path, first, connect=lambda _: second)
    retune(agent.state, load_settings(tmp_path, {}, {"fallback": ["second"]}), {})()
    assert (await agent.prompt("hello")).text == "the answer"
    assert agent.state.models.llm is second
    await agent.aclose()
