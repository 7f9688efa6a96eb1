"""Servers at an address: as those that are programs, and what only HTTP can refuse."""

import asyncio

import pytest

from foldline.agent.mcp import ServerConfig
from support.agents import PATIENCE
from support.mcp_server import http_server

from .conftest import House

KEY = "planted-bearer-key"
SENT = {"Authorization": "Bearer ${KEY}"}
OLD_AND_NEW = pytest.mark.parametrize("era", [(), ("--old",)], ids=["without session", "with session"])


@OLD_AND_NEW
async def test_an_address_lends_its_tools_to_who_has_the_key(house: House, era: tuple[str, ...]) -> None:
    with http_server(house.diary, "--key", KEY, *era) as (url, _):
        web, without = ServerConfig("web", url=url, headers=SENT), ServerConfig("without", url=url)
        servers = await house.started(web, without, KEY=KEY)
        assert [str(state) for state in servers.states] == [
            "connected, 10 tools",
            "failed: answered 401 Unauthorized: check its headers in the settings, or sign in with "
            "`foldline mcp login NAME`",
        ]
        assert (await house.call(servers, "web:echo", text="hello")).text == "hello"
        await house.call(servers, "web:grow")
        await house.until(lambda: any(tool.spec.name == "mcp__web__grown_0" for tool in servers.tools))
        call = asyncio.create_task(house.call(servers, "web:slow", number=600))
        await house.until(lambda: "slow" in house.noted.of("called"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await house.until(lambda: house.noted.of("cancelled"))
        assert (await house.call(servers, "web:echo", text="still")).text == "still"
        await servers.aclose()
    said = "".join(path.read_text() for path in (house.folder / "logs").iterdir())
    assert KEY not in said + "".join(house.notices)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--status", "500"), "answered 500 Internal Server Error."),
        (("--status", "404"), "answered 404 Not Found."),
    ],
)
async def test_what_a_server_refuses_is_one_sentence(
    house: House, options: tuple[str, ...], says: str
) -> None:
    with http_server(house.diary, *options) as (url, _):
        await house.started(ServerConfig("web", url=url))
    assert house.notices == [f"The MCP server web {says}"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", "nonsense"])
async def test_an_address_that_leads_nowhere_is_one_sentence(house: House, url: str) -> None:
    servers = await house.started(ServerConfig("web", url=url))
    assert [notice.startswith("The MCP server web cannot be reached: ") for notice in house.notices] == [True]
    assert servers.tools == []


@OLD_AND_NEW
async def test_gone_in_mid_call_it_is_a_result_and_back_it_is_found_again(
    house: House, era: tuple[str, ...]
) -> None:
    with http_server(house.diary, *era) as (url, process):
        servers = await house.started(ServerConfig("web", url=url))
        call = asyncio.create_task(house.call(servers, "web:slow", number=600))
        await house.until(lambda: "slow" in house.noted.of("called"))
        process.kill()
        outcome = await call
        assert outcome.is_error
        assert "the call may have run in part" in outcome.text
        process.wait()
    refused = await house.call(servers, "web:echo", text="no")
    assert "cannot be reached" in refused.text
    port = int(url.split(":")[2].split("/")[0])
    with http_server(house.diary, *era, port=port):
        servers.begin_turn()
        assert (await house.call(servers, "web:echo", text="back")).text == "back"


@OLD_AND_NEW
async def test_restarted_between_two_calls_nobody_notices_in_the_result(
    house: House, era: tuple[str, ...]
) -> None:
    with http_server(house.diary, *era) as (url, _):
        servers = await house.started(ServerConfig("web", url=url))
        assert (await house.call(servers, "web:echo", text="one")).text == "one"
    port = int(url.split(":")[2].split("/")[0])
    with http_server(house.diary, *era, port=port):
        assert (await house.call(servers, "web:echo", text="two")).text == "two"


@pytest.mark.parametrize("status", ["404", "400"])
async def test_a_session_that_was_forgotten_is_begun_anew_and_the_call_made_again(
    house: House, status: str
) -> None:
    """404 by the protocol; 400 is what the example of the official SDK for TypeScript answers."""
    with http_server(house.diary, "--old", "--status", status, "--forgets", "1") as (url, _):
        servers = await house.started(ServerConfig("web", url=url))
        assert (await house.call(servers, "web:echo", text="hello")).text == "hello"


async def test_a_server_that_forgets_each_session_is_asked_twice_and_no_more(house: House) -> None:
    with http_server(house.diary, "--old", "--status", "404", "--forgets", "9") as (url, _):
        servers = await house.started(ServerConfig("web", url=url))
        async with asyncio.timeout(PATIENCE):
            outcome = await house.call(servers, "web:echo", text="hello")
    assert outcome.text == "The MCP server web answered 404 Not Found; it is tried again at the next prompt."
