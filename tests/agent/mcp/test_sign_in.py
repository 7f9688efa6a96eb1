"""Signing in to a server at an address: the page, the answer, the file of tokens, new tokens, signing out."""

import asyncio
import json
import stat
from pathlib import Path

import httpx2
import pytest

from foldline.agent.mcp import ServerConfig, ToolServers
from support.mcp_server import http_server

from .conftest import House


def page_of(house: House) -> str:
    return next(
        (text.rpartition(": ")[2] for text in house.notices if "sign in" in text and "http" in text), ""
    )


async def visit(page: str) -> str:
    """What a browser does with the page: it follows where it is led, and shows what stands there."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        return (await browser.get(page)).text


def kept(house: House) -> Path:
    return house.folder / "logs" / "one.sign-in.json"


async def signed_in(house: House, url: str) -> ToolServers:
    servers = house.servers(ServerConfig("one", url=url))
    connecting = asyncio.create_task(servers.restart("one"))
    await house.until(lambda: page_of(house) or connecting.done())
    assert "You are signed in." in await visit(page_of(house))
    assert str(await connecting).startswith("connected")
    return servers


async def test_a_sign_in_leaves_tokens_that_only_their_owner_reads(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        servers = await signed_in(house, url)
        assert (await house.call(servers, "one:echo", text="in")).text == "in"
        assert stat.S_IMODE(kept(house).stat().st_mode) == 0o600
        await servers.aclose()
        house.notices.clear()
        again = await house.started(ServerConfig("one", url=url))
        assert (await house.call(again, "one:echo", text="again")).text == "again"
    assert house.noted.of("tokens") == ["by code"]
    assert len(house.noted.of("registered")) == 1
    assert house.notices == []


async def test_what_has_expired_is_renewed_without_a_word(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        await (await signed_in(house, url)).aclose()
        values = json.loads(kept(house).read_text())
        kept(house).write_text(json.dumps({**values, "until": 1}))
        house.notices.clear()
        servers = await house.started(ServerConfig("one", url=url))
        assert (await house.call(servers, "one:echo", text="x")).text == "x"
    assert house.noted.of("tokens") == ["by code", "by refresh"]
    assert house.notices == []


async def test_nobody_is_sent_to_a_page_who_has_not_asked_to_sign_in(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        servers = await house.started(ServerConfig("one", url=url))
        assert "401" in str(servers.states[0])
        assert "foldline mcp login" in str(servers.states[0])
        assert house.noted.of("registered") == []


async def test_tokens_that_are_refused_ask_for_a_sign_in_and_no_page_opens(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        await (await signed_in(house, url)).aclose()
    port = int(url.rpartition(":")[2].partition("/")[0])
    house.notices.clear()
    with http_server(house.diary, "--oauth", "3600", port=port) as (url, _):  # it has forgotten them all
        servers = await house.started(ServerConfig("one", url=url), seconds=20)
        assert "wants you to sign in" in str(servers.states[0])
        assert page_of(house) == ""


async def test_signed_out_by_the_server_in_mid_session_no_page_opens_unasked(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        servers = await signed_in(house, url)
    port = int(url.rpartition(":")[2].partition("/")[0])
    house.notices.clear()
    with http_server(house.diary, "--oauth", "3600", port=port) as (url, _):  # it has forgotten them all
        outcome = await house.call(servers, "one:echo", text="x")
        assert outcome.is_error
        assert page_of(house) == ""


async def test_tokens_go_to_no_other_address(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        await (await signed_in(house, url)).aclose()
    with http_server(house.folder / "other", "--oauth", "3600") as (url, _):
        servers = await house.started(ServerConfig("one", url=url))
        assert "401" in str(servers.states[0])


async def test_signed_out_nothing_is_left(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        servers = await signed_in(house, url)
    assert servers.by_name["one"].sign_out()
    assert not kept(house).exists()
    assert not servers.by_name["one"].sign_out()


async def test_who_declines_at_the_page_is_told(house: House) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        servers = house.servers(ServerConfig("one", url=url))
        connecting = asyncio.create_task(servers.restart("one"))
        await house.until(lambda: page_of(house) or connecting.done())
        answer = httpx2.URL(page_of(house)).params["redirect_uri"]
        assert "not signed in" in await visit(f"{answer}?error=access_denied&error_description=You+said+no")
        assert "You said no" in str(await connecting)


@pytest.mark.parametrize("asked", ["favicon.ico", "callback?code=x&state=forged"])
async def test_what_is_no_answer_to_our_question_signs_nobody_in(house: House, asked: str) -> None:
    with http_server(house.diary, "--oauth", "3600") as (url, _):
        servers = house.servers(ServerConfig("one", url=url))
        connecting = asyncio.create_task(servers.restart("one"))
        await house.until(lambda: page_of(house) or connecting.done())
        answer = httpx2.URL(page_of(house)).params["redirect_uri"]
        await visit(answer.replace("callback", asked))
        if "forged" in asked:
            assert str(await connecting).startswith("failed")
        else:
            assert "You are signed in." in await visit(page_of(house))
            assert str(await connecting).startswith("connected")
    assert house.noted.of("tokens") == ([] if "forged" in asked else ["by code"])
