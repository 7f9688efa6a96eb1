"""Signing in to a server at an address: the page, the answer, the file of tokens, new tokens, signing out."""

import asyncio
import json
import stat
from pathlib import Path

import httpx2
import pytest

from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from foldline.agent.extensions.mcp.sign_in import (
    NEEDS_SIGN_IN,
    NOT_SIGNED_IN_PAGE,
    SIGNED_IN_PAGE,
)
from foldline.agent.extensions.mcp.transport import OR_SIGN_IN
from support.mcp_server import http_server

from .conftest import ServerHarness


def page_of(harness: ServerHarness) -> str:
    return next(
        (
            text.rpartition(": ")[2]
            for text in harness.notices
            if "sign in" in text and "http" in text
        ),
        "",
    )


async def visit(page: str) -> str:
    """What a browser does with the page: it follows where it is led, and shows what stands there."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        return (await browser.get(page)).text


def kept(harness: ServerHarness) -> Path:
    return harness.folder / "logs" / "one.sign-in.json"


async def signed_in(harness: ServerHarness, url: str) -> ToolServers:
    servers = harness.servers(ServerConfig("one", url=url))
    connecting = asyncio.create_task(servers.restart("one"))
    await harness.until(lambda: page_of(harness) or connecting.done())
    assert SIGNED_IN_PAGE in await visit(page_of(harness))
    assert str(await connecting).startswith("connected")
    return servers


async def test_a_sign_in_leaves_tokens_that_only_their_owner_reads(
    harness: ServerHarness,
) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        servers = await signed_in(harness, url)
        assert (await harness.call(servers, "one:echo", text="in")).text == "in"
        assert stat.S_IMODE(kept(harness).stat().st_mode) == 0o600
        await servers.aclose()
        harness.notices.clear()
        again = await harness.start(ServerConfig("one", url=url))
        assert (await harness.call(again, "one:echo", text="again")).text == "again"
    assert harness.log.of("tokens") == ["by code"]
    assert len(harness.log.of("registered")) == 1
    assert harness.notices == []


async def test_what_has_expired_is_renewed_without_a_word(
    harness: ServerHarness,
) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        await (await signed_in(harness, url)).aclose()
        values = json.loads(kept(harness).read_text())
        kept(harness).write_text(json.dumps({**values, "until": 1}))
        harness.notices.clear()
        servers = await harness.start(ServerConfig("one", url=url))
        assert (await harness.call(servers, "one:echo", text="x")).text == "x"
    assert harness.log.of("tokens") == ["by code", "by refresh"]
    assert harness.notices == []


async def test_nobody_is_sent_to_a_page_who_has_not_asked_to_sign_in(
    harness: ServerHarness,
) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        servers = await harness.start(ServerConfig("one", url=url))
        assert "401" in str(servers.states[0])
        assert OR_SIGN_IN in str(servers.states[0])
        assert harness.log.of("registered") == []


async def test_tokens_that_are_refused_ask_for_a_sign_in_and_no_page_opens(
    harness: ServerHarness,
) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        await (await signed_in(harness, url)).aclose()
    port = int(url.rpartition(":")[2].partition("/")[0])
    harness.notices.clear()
    with http_server(harness.diary, "--oauth", "3600", port=port) as (
        url,
        _,
    ):  # it has forgotten them all
        servers = await harness.start(ServerConfig("one", url=url), seconds=20)
        assert NEEDS_SIGN_IN in str(servers.states[0])
        assert page_of(harness) == ""


async def test_signed_out_by_the_server_in_mid_session_no_page_opens_unasked(
    harness: ServerHarness,
) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        servers = await signed_in(harness, url)
    port = int(url.rpartition(":")[2].partition("/")[0])
    harness.notices.clear()
    with http_server(harness.diary, "--oauth", "3600", port=port) as (
        url,
        _,
    ):  # it has forgotten them all
        outcome = await harness.call(servers, "one:echo", text="x")
        assert outcome.is_error
        assert page_of(harness) == ""


async def test_tokens_go_to_no_other_address(harness: ServerHarness) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        await (await signed_in(harness, url)).aclose()
    with http_server(harness.folder / "other", "--oauth", "3600") as (url, _):
        servers = await harness.start(ServerConfig("one", url=url))
        assert "401" in str(servers.states[0])


async def test_signed_out_nothing_is_left(harness: ServerHarness) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        servers = await signed_in(harness, url)
    assert servers.by_name["one"].sign_out()
    assert not kept(harness).exists()
    assert not servers.by_name["one"].sign_out()


async def test_who_declines_at_the_page_is_told(harness: ServerHarness) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        servers = harness.servers(ServerConfig("one", url=url))
        connecting = asyncio.create_task(servers.restart("one"))
        await harness.until(lambda: page_of(harness) or connecting.done())
        answer = httpx2.URL(page_of(harness)).params["redirect_uri"]
        assert NOT_SIGNED_IN_PAGE in await visit(
            f"{answer}?error=access_denied&error_description=You+said+no"
        )
        assert "You said no" in str(await connecting)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("asked", ["favicon.ico", "callback?code=x&state=forged"])
async def test_what_is_no_answer_to_our_question_signs_nobody_in(
    harness: ServerHarness, asked: str
) -> None:
    with http_server(harness.diary, "--oauth", "3600") as (url, _):
        servers = harness.servers(ServerConfig("one", url=url))
        connecting = asyncio.create_task(servers.restart("one"))
        await harness.until(lambda: page_of(harness) or connecting.done())
        answer = httpx2.URL(page_of(harness)).params["redirect_uri"]
        await visit(answer.replace("callback", asked))
        if "forged" in asked:
            assert str(await connecting).startswith("failed")
        else:
            assert SIGNED_IN_PAGE in await visit(page_of(harness))
            assert str(await connecting).startswith("connected")
    assert harness.log.of("tokens") == ([] if "forged" in asked else ["by code"])
