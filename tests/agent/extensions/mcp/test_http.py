"""Servers at an address: as those that are programs, and what only HTTP can refuse."""

import asyncio

import pytest

from foldline.agent.extensions.mcp import ServerConfig
from foldline.agent.extensions.mcp.connection import UNREACHABLE
from foldline.agent.extensions.mcp.servers import PARTLY_RUN, RETRIED_LATER, SENTENCE
from foldline.agent.extensions.mcp.transport import status_words
from support.agents import PATIENCE
from support.mcp_server import http_server
from support.sentences import says

from .conftest import ServerHarness

pytestmark = pytest.mark.quick_cases(1)

KEY = "planted-bearer-key"
SENT = {"Authorization": "Bearer ${KEY}"}
OLD_AND_NEW = pytest.mark.parametrize(
    "era", [(), ("--old",)], ids=["without session", "with session"]
)


@OLD_AND_NEW
async def test_an_address_lends_its_tools_to_who_has_the_key(
    harness: ServerHarness, era: tuple[str, ...]
) -> None:
    with http_server(harness.diary, "--key", KEY, *era) as (url, _):
        web, without = (
            ServerConfig("web", url=url, headers=SENT),
            ServerConfig("without", url=url),
        )
        servers = await harness.start(web, without, KEY=KEY)
        assert [str(state) for state in servers.states] == [
            "connected, 10 tools",
            f"failed: {status_words(401)}",
        ]
        assert (await harness.call(servers, "web:echo", text="hello")).text == "hello"
        await harness.call(servers, "web:grow")
        await harness.until(
            lambda: any(tool.spec.name == "mcp__web__grown_0" for tool in servers.tools)
        )
        call = asyncio.create_task(harness.call(servers, "web:slow", number=600))
        await harness.until(lambda: "slow" in harness.log.of("called"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await harness.until(lambda: harness.log.of("cancelled"))
        assert (await harness.call(servers, "web:echo", text="still")).text == "still"
        await servers.aclose()
    said = "".join(path.read_text() for path in (harness.folder / "logs").iterdir())
    assert KEY not in said + "".join(harness.notices)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--status", "500"), status_words(500)),
        (("--status", "404"), status_words(404)),
    ],
)
async def test_what_a_server_refuses_is_one_sentence(
    harness: ServerHarness, options: tuple[str, ...], words: str
) -> None:
    with http_server(harness.diary, *options) as (url, _):
        await harness.start(ServerConfig("web", url=url))
    assert harness.notices == [SENTENCE.format(server="web", words=words)]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", "nonsense"])
async def test_an_address_that_leads_nowhere_is_one_sentence(
    harness: ServerHarness, url: str
) -> None:
    servers = await harness.start(ServerConfig("web", url=url))
    assert [
        says(notice, SENTENCE, server="web") and says(notice, UNREACHABLE)
        for notice in harness.notices
    ] == [True]
    assert servers.tools == []


@OLD_AND_NEW
async def test_gone_in_mid_call_it_is_a_result_and_back_it_is_found_again(
    harness: ServerHarness, era: tuple[str, ...]
) -> None:
    with http_server(harness.diary, *era) as (url, process):
        servers = await harness.start(ServerConfig("web", url=url))
        call = asyncio.create_task(harness.call(servers, "web:slow", number=600))
        await harness.until(lambda: "slow" in harness.log.of("called"))
        process.kill()
        outcome = await call
        assert outcome.is_error
        assert says(outcome.text, PARTLY_RUN)
        process.wait()
    refused = await harness.call(servers, "web:echo", text="no")
    assert says(refused.text, UNREACHABLE)
    port = int(url.split(":")[2].split("/")[0])
    with http_server(harness.diary, *era, port=port):
        servers.begin_turn()
        assert (await harness.call(servers, "web:echo", text="back")).text == "back"


@pytest.mark.slow
@OLD_AND_NEW
async def test_restarted_between_two_calls_nobody_notices_in_the_result(
    harness: ServerHarness, era: tuple[str, ...]
) -> None:
    with http_server(harness.diary, *era) as (url, _):
        servers = await harness.start(ServerConfig("web", url=url))
        assert (await harness.call(servers, "web:echo", text="one")).text == "one"
    port = int(url.split(":")[2].split("/")[0])
    with http_server(harness.diary, *era, port=port):
        assert (await harness.call(servers, "web:echo", text="two")).text == "two"


@pytest.mark.parametrize("status", ["404", "400"])
async def test_a_session_that_was_forgotten_is_begun_anew_and_the_call_made_again(
    harness: ServerHarness, status: str
) -> None:
    """404 by the protocol; 400 is what the example of the official SDK for TypeScript answers."""
    with http_server(harness.diary, "--old", "--status", status, "--forgets", "1") as (
        url,
        _,
    ):
        servers = await harness.start(ServerConfig("web", url=url))
        assert (await harness.call(servers, "web:echo", text="hello")).text == "hello"


async def test_a_server_that_forgets_each_session_is_asked_twice_and_no_more(
    harness: ServerHarness,
) -> None:
    with http_server(harness.diary, "--old", "--status", "404", "--forgets", "9") as (
        url,
        _,
    ):
        servers = await harness.start(ServerConfig("web", url=url))
        async with asyncio.timeout(PATIENCE):
            outcome = await harness.call(servers, "web:echo", text="hello")
    words = RETRIED_LATER.format(trouble=status_words(404))
    assert outcome.text == SENTENCE.format(server="web", words=words)
