"""What a prompt has from tool servers: resources that it names, prompts of theirs that it calls."""

import pytest

from foldline.agent import Agent
from foldline.agent.session.server_prompts import resource_rows
from foldline.agent.session.skill_loading import look_around
from foldline.protocol import FoldlineError, ImagePart, UserMessage, text_parts
from foldline.text.tags import piped_part
from support.agents import PlayedLLM, agent_in
from support.mcp_server import Diary, stdio_server

from .conftest import ServerHarness


def agent_of(
    harness: ServerHarness, *options: str, answers: int = 1
) -> tuple[Agent, PlayedLLM]:
    llm = PlayedLLM(*(f"answer {nth}" for nth in range(answers)))
    agent, _ = agent_in(
        harness.folder,
        llm,
        servers=harness.servers(stdio_server("one", harness.diary, *options)),
    )
    return agent, llm


def sent(agent: Agent) -> UserMessage:
    return next(
        entry
        for entry in reversed(agent.session.entries)
        if isinstance(entry, UserMessage)
    )


@pytest.mark.slow
@pytest.mark.parametrize("old", [(), ("--old",)])
async def test_a_resource_that_is_named_goes_along_marked_as_the_servers(
    harness: ServerHarness, old: tuple[str]
) -> None:
    agent, _ = agent_of(harness, *old)
    await agent.prompt("Look at @one:memo://page, please.")
    assert sent(agent).typed == "Look at @one:memo://page, please."
    assert '<resource source="one:memo://page">' in sent(agent).attached_text
    assert "what page says" in sent(agent).attached_text
    assert harness.log.of("read") == ["memo://page"]
    await agent.aclose()


@pytest.mark.slow
async def test_a_picture_is_shown_and_what_is_piped_in_stays_behind_it(
    harness: ServerHarness,
) -> None:
    agent, _ = agent_of(harness)
    await agent.prompt([*text_parts("See @one:memo://picture"), piped_part("data")])
    assert any(isinstance(part, ImagePart) for part in sent(agent).parts)
    assert sent(agent).typed == "See @one:memo://picture"
    assert sent(agent).attached_text.endswith("<stdin>\ndata\n</stdin>")
    await agent.aclose()


async def test_a_resource_can_neither_leave_its_tags_nor_fill_the_window(
    harness: ServerHarness,
) -> None:
    agent, _ = agent_of(harness)
    await agent.prompt("See @one:memo://hostile and @one:memo://big")
    text = sent(agent).attached_text
    assert text.count("\n</resource>") == text.count('<resource source="') == 2
    assert "\x1b" not in text
    assert len(text) < 100_000
    await agent.aclose()


async def test_one_that_cannot_be_read_is_said_and_the_prompt_is_not_sent(
    harness: ServerHarness,
) -> None:
    agent, llm = agent_of(harness)
    with pytest.raises(
        FoldlineError,
        match=r"@one:memo://missing could not be read: .* there is no such memo",
    ):
        await agent.prompt("See @one:memo://missing")
    assert llm.requests == []
    await agent.aclose()


async def test_what_names_no_server_is_text(harness: ServerHarness) -> None:
    agent, _ = agent_of(harness)
    await agent.prompt("Mail me@one:memo://page or @two:memo://page")
    assert sent(agent).attached_text == ""
    assert harness.log.of("read") == []
    await agent.aclose()


async def test_resources_are_offered_and_a_template_up_to_what_is_to_be_typed(
    harness: ServerHarness,
) -> None:
    agent, _ = agent_of(harness)
    await agent.prompt("hello")
    rows = {name: is_whole for name, _, is_whole in resource_rows(agent.state.tools)}
    assert rows["one:memo://page"]
    assert not rows["one:memo://day/"]
    await agent.aclose()


async def test_a_name_that_two_servers_could_be_typed_by_is_that_of_the_one_called_so(
    harness: ServerHarness,
) -> None:
    other = harness.folder / "other"
    servers = harness.servers(
        stdio_server("a_b", harness.diary), stdio_server("a~b", other)
    )
    agent, _ = agent_in(harness.folder, PlayedLLM("answer"), servers=servers)
    await agent.prompt("See @a_b:memo://page")
    assert (harness.log.of("read"), Diary(other).of("read")) == (["memo://page"], [])
    await agent.aclose()


async def test_a_servers_prompt_is_called_like_a_command(
    harness: ServerHarness,
) -> None:
    agent, _ = agent_of(harness)
    await agent.prompt("/one:review 'src/a b.py' very kind")
    assert sent(agent).typed == "/one:review 'src/a b.py' very kind"
    assert '<slash-command source="MCP server one">' in sent(agent).attached_text
    assert "Review src/a b.py in a very kind tone." in sent(agent).attached_text
    await agent.aclose()


async def test_a_prompt_without_what_it_needs_is_not_sent(
    harness: ServerHarness,
) -> None:
    agent, llm = agent_of(harness)
    with pytest.raises(FoldlineError, match="/one:review needs file"):
        await agent.prompt("/one:review")
    assert llm.requests == []
    await agent.aclose()


@pytest.mark.parametrize("old", [(), ("--old",)])
async def test_new_prompts_and_resources_are_there_once_the_server_says_so(
    harness: ServerHarness, old: tuple[str]
) -> None:
    agent, _ = agent_of(harness, *old)
    await agent.prompt("hello")
    servers = agent.state.tools.servers
    assert servers is not None
    assert "one:grown_0" not in agent.state.tools.catalogue.by_name
    await harness.call(servers, "one:grow")
    await harness.until(
        lambda: any(
            name.endswith("grown_0") for name, *_ in resource_rows(agent.state.tools)
        )
    )
    await look_around(agent.state)
    assert agent.state.tools.catalogue.by_name["one:grown_0"].shown == "MCP server one"
    await agent.aclose()
