"""Interpreting reported usage: a server that merely counts differently is not suspected of truncating."""

from dataclasses import dataclass

import pytest

from foldline.protocol import ModelChange, Usage, UserMessage, text_parts
from foldline.view.projection import Projection
from foldline.view.tokens import estimate_tokens
from foldline.view.usage_reading import PLAIN, CountingHabits, UsageReading
from foldline.view.weight import view_size
from support.history import History, history

TEXT = "a sentence of a conversation about orders " * 40
THOUGHT = "let me think about this once more, from the start " * 100
TOOLS = 3_000
"""Estimated tokens of the tool schemas."""
RATIO = 1.1
"""Tokens the model counts for each estimated one."""
OUTPUT = round(RATIO * (estimate_tokens(TEXT) + estimate_tokens(THOUGHT)))


@dataclass(frozen=True)
class Server:
    """Server that counts tokens like one observed on 28 November 2026."""

    habits: CountingHabits
    dialect: str = "strict-thinking"
    cached_share: float = 0.9
    window: int = 1_000_000

    def tokens(self, view: Projection) -> int:
        """Return the true input tokens of the model."""
        reasoning = 0
        if self.dialect != "strict" and self.habits.reasoning != "none":
            reasoning = view.thinking - (
                view._view.earlier_thinking if self.habits.reasoning == "turn" else 0
            )
        tools = TOOLS if self.habits.tools else 0
        return min(self.window, round(RATIO * (view.tokens + reasoning + tools)))

    def reported(self, tokens: int, cached: int) -> int:
        """Return the reported input tokens, including cached tokens for Anthropic's API."""
        match self.habits.cached:
            case "inside":
                return tokens
            case "beside":
                return tokens - cached
            case "twice":
                return tokens + cached


SERVERS = {
    "counts all of it": Server(PLAIN),
    "Claude by its own API": Server(PLAIN, "messages"),
    "Qwen 3.6, GLM 4.7 and 5.2: reasoning of earlier turns is forgotten": Server(
        CountingHabits(reasoning="turn"), cached_share=0
    ),
    "the same behind Anthropic's API": Server(
        CountingHabits(reasoning="turn"), "messages"
    ),
    "the same behind Responses": Server(CountingHabits(reasoning="turn"), "responses"),
    "DeepSeek without tools: no reasoning is kept": Server(
        CountingHabits(reasoning="none")
    ),
    "llama.cpp with a template that has no tools": Server(
        CountingHabits(tools=False), "strict", 0
    ),
    "a template without tools that forgets reasoning": Server(
        CountingHabits(tools=False, reasoning="turn")
    ),
    "ant2oai, agent-wire-proxy: cached tokens inside and beside": Server(
        CountingHabits(cached="twice"), "messages"
    ),
    "cached tokens beside the input alone": Server(
        CountingHabits(cached="beside"), "strict"
    ),
    "the same, half of them": Server(CountingHabits(cached="beside"), "strict", 0.5),
}


def play(
    server: Server, turns: int = 4
) -> tuple[History, list[UsageReading], list[int]]:
    """Play a session of two steps per turn; return each usage as interpreted and its true size."""
    built = history().system("s " * 400)
    readings: list[UsageReading] = []
    real: list[int] = []
    for turn in range(turns):
        built.user(f"{turn} {TEXT}")
        for step in range(2):
            view = built.projection()
            estimated = view.meter.sent + TOOLS
            tokens = server.tokens(view)
            cached = round(server.cached_share * tokens) if turn or step else 0
            reported = server.reported(tokens, cached)
            apart = server.dialect == "messages"
            reading = view.meter.read_usage(
                "m", estimated, reported, cached, apart=apart
            )
            readings.append(reading)
            real.append(tokens)
            usage = Usage(input=reading.input, cached=cached, output=OUTPUT)
            built.assistant(TEXT, thinking=THOUGHT, usage=usage, model="m")
            built.asked(estimated=estimated, dialect=server.dialect)
    return built, readings, real


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_each_server_is_trusted_and_its_way_of_counting_learnt(server: Server) -> None:
    built, readings, real = play(server)
    assert {reading.outcome for reading in readings} == {"trusted"}
    assert [reading.input for reading in readings] == pytest.approx(real, rel=0.02)
    learnt = built.projection().meter.habits("m")
    assert (learnt.tools, learnt.reasoning) == (
        server.habits.tools,
        server.habits.reasoning,
    )


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("anchored", [True, False], ids=["with a usage", "without one"])
def test_the_next_request_is_estimated_as_its_server_counts(
    server: Server, anchored: bool
) -> None:
    built, _, _ = play(server)
    built.user(TEXT)
    if not anchored:
        built.add(ModelChange(model="m"))
    projection = built.projection()
    size = view_size(
        projection, overhead=TOOLS if projection.meter.habits("m").tools else 0
    )
    assert size.estimated is not anchored
    assert size.tokens == pytest.approx(server.tokens(projection), rel=0.08)


@pytest.mark.parametrize("window", [2_000, 4_096, 8_192])
def test_a_truncating_server_is_detected_and_its_usage_is_not_the_anchor(
    window: int,
) -> None:
    server = Server(PLAIN, "strict", 0, window)
    built, readings, _ = play(server, turns=20)
    assert readings[-1].outcome == "cut"
    projection = built.projection()
    assert projection.meter.habits("m") == PLAIN
    assert view_size(projection, overhead=TOOLS).tokens > 1.5 * window


def test_a_report_of_zero_keeps_the_anchor() -> None:
    built, _, _ = play(Server(PLAIN))
    before = built.projection().meter.anchor
    reading = built.projection().meter.read_usage("m", 10_000, 0, 0)
    assert reading.outcome == "missing"
    estimate = Usage(input=9_000, output=3, source="estimated")
    built.user(TEXT).assistant("ok", usage=estimate, model="m").asked()
    after = built.projection()
    assert after.meter.anchor == before is not None
    assert after.meter.requests[-1].is_estimated
    pending = [UserMessage(parts=text_parts(TEXT))]
    assert view_size(after, pending=pending).tokens > view_size(after).tokens


def test_a_server_that_resumes_counting_reasoning_is_trusted_again() -> None:
    """For example, a chat template fixed under the same model name."""
    forgetful, mended = Server(CountingHabits(reasoning="turn")), Server(PLAIN)
    built, _, _ = play(forgetful)
    view = built.user(TEXT).projection()
    reading = view.meter.read_usage(
        "m", view.meter.sent + TOOLS, mended.tokens(view), 0
    )
    assert reading.outcome == "trusted"
    assert reading.habits == PLAIN


def test_cached_tokens_exceeding_the_input_are_counted_separately() -> None:
    view = history().user(TEXT).projection()
    assert view.meter.read_usage("m", 9_000, 40, 6_000).input == 6_040
