"""Chinese after English: a ratio learnt on one language lets no session in another overflow."""

from pathlib import Path
from typing import Any

import pytest

from support.agents import agent_in
from support.clients import chat_at
from support.server import running_server

WINDOW = 16_384
ENGLISH = "changed request handler returns message without payload because " * 24
"""Words of seven letters, one token each for this server: less than half of what they are estimated at."""
SENTENCE = "请检查订单服务的取消流程并说明每一步为什么这样处理"
SCRIPT: list[dict[str, Any]] = [
    {
        "when": {"system_contains": "You write the working notes"},
        "answer": {"builtin": "summary"},
    },
    {"when": {}, "answer": {"text": "Understood."}},
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("characters", [3_000, 6_500, 8_000])
async def test_a_session_that_learnt_on_english_takes_chinese_text_without_a_refused_request(
    tmp_path: Path, characters: int
) -> None:
    chinese = (SENTENCE * (characters // len(SENTENCE) + 1))[:characters]
    with running_server(window=WINDOW, script=SCRIPT) as server:
        llm = chat_at(server.base_url, model=server.model, window=WINDOW)
        agent, _ = agent_in(tmp_path, llm)
        while agent.state.budget.size() < WINDOW // 2:
            await agent.prompt(ENGLISH)
        projection = agent.session.projection
        assert projection.meter.calibration.ratio(projection.meter.model) < 0.95
        for nth in range(4):
            await agent.prompt(f"{nth}: {chinese}")
        assert [seen.rejected for seen in server.requests() if seen.rejected] == []
        assert projection.all_compactions
        assert (
            0.95 * WINDOW
            > max(seen.prompt_tokens for seen in server.requests())
            > characters
        )
        await agent.aclose()
