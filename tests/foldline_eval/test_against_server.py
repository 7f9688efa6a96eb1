"""The cost model compared with a server with its own count: every request of a replay is sent."""

import pytest

from foldline.formats import read_foreign
from foldline.llm import Request
from foldline_eval.cost import PromptCache, cached_prefixes, cost
from foldline_eval.record import ReplayRun
from foldline_eval.replay import recorded_messages
from support.clients import chat_at
from support.recordings import SHARED, needs_recorded
from support.replays import replay_session
from support.server import RunningServer, running_server

pytestmark = [needs_recorded, pytest.mark.slow]

CACHE = PromptCache(granularity=128, minimum=128, life=1e12)
SESSION = SHARED / "pi" / "prsui-v3-a.jsonl"


async def send_all(run: ReplayRun, server: RunningServer) -> None:
    client = chat_at(server.base_url, model=server.model, key="k", window=server.window)
    for request in run.requests:
        async for _ in client.stream(Request(messages=request.messages, max_output=64)):
            pass
    await client.aclose()


@pytest.mark.parametrize("arm", ["summary", "hide", "digest"])
async def test_the_server_accepts_every_request_and_caches_as_much_as_predicted(
    arm: str,
) -> None:
    history = recorded_messages(read_foreign(SESSION).entries)
    run = await replay_session(history, arm, window=12_288)
    assert run.compactions
    script = [{"answer": {"text": "ok"}}]
    with running_server(window=65_536, script=script) as server:
        await send_all(run, server)
        seen = server.requests()
    assert [one.violations for one in seen] == [()] * len(run.requests)
    # The two token counts differ, so shares are compared.
    theirs = sum(one.cached_tokens for one in seen) / sum(
        one.prompt_tokens for one in seen
    )
    ours = cost(run, CACHE).hit_rate
    assert ours == pytest.approx(theirs, abs=0.03)


async def test_server_and_model_agree_on_the_requests_that_lose_their_prefix() -> None:
    history = recorded_messages(read_foreign(SESSION).entries)
    run = await replay_session(history, "hide", window=12_288)
    with running_server(window=65_536, script=[{"answer": {"text": "ok"}}]) as server:
        await send_all(run, server)
        seen = server.requests()
    prefixes = list(cached_prefixes(run.requests, CACHE))
    ours = [
        at
        for at, (one, prefix) in enumerate(zip(run.requests, prefixes, strict=True))
        if prefix < one.tokens // 2
    ]
    theirs = [
        at for at, one in enumerate(seen) if one.cached_tokens < one.prompt_tokens // 2
    ]
    assert ours == theirs
