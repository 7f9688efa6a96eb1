"""The model of cost held against a server that counts by itself: every request of a replay, sent for real."""

import pytest

from foldline.evaluation.cost import PromptCache, cached_prefixes, cost
from foldline.evaluation.record import Run
from foldline.evaluation.replay import recorded_messages
from foldline.formats import read_foreign
from foldline.llm import Request
from support.clients import chat_at
from support.compared import METER, replayed
from support.recorded import SHARED, needs_recorded
from support.server import RunningServer, running_server

pytestmark = [needs_recorded, pytest.mark.slow]

CACHE = PromptCache(granularity=128, minimum=128, life=1e12)
SESSION = SHARED / "pi" / "prsui-v3-a.jsonl"


async def sent(run: Run, server: RunningServer) -> None:
    client = chat_at(server.base_url, model=server.model, key="k", window=server.window)
    for request in run.requests:
        async for _ in client.stream(Request(messages=request.messages, max_output=64)):
            pass
    await client.aclose()


@pytest.mark.parametrize("arm", ["summary", "hide", "digest"])
async def test_the_server_accepts_every_request_and_finds_as_much_in_its_cache(arm: str) -> None:
    history = recorded_messages(read_foreign(SESSION).entries)
    run = await replayed(history, arm, window=12_288)
    assert run.compactions
    script = [{"answer": {"text": "ok"}}]
    with running_server(window=65_536, script=script) as server:
        await sent(run, server)
        seen = server.requests()
    assert [one.violations for one in seen] == [()] * len(run.requests)
    # Both count in their own tokens: shares are compared.
    theirs = sum(one.cached_tokens for one in seen) / sum(one.prompt_tokens for one in seen)
    ours = cost(run, METER, CACHE).hit_rate
    assert ours == pytest.approx(theirs, abs=0.03)


async def test_request_by_request_the_same_ones_lose_their_prefix() -> None:
    history = recorded_messages(read_foreign(SESSION).entries)
    run = await replayed(history, "hide", window=12_288)
    with running_server(window=65_536, script=[{"answer": {"text": "ok"}}]) as server:
        await sent(run, server)
        seen = server.requests()
    prefixes = list(cached_prefixes(run.requests, METER, CACHE))
    ours = [
        at
        for at, (one, prefix) in enumerate(zip(run.requests, prefixes, strict=True))
        if prefix < one.tokens // 2
    ]
    theirs = [at for at, one in enumerate(seen) if one.cached_tokens < one.prompt_tokens // 2]
    assert ours == theirs
