"""What servers report of a request, and how it is read: no server is accused that only counts otherwise."""

from dataclasses import dataclass

import pytest

from foldline.context.projection import Projection
from foldline.context.tokens import estimate_tokens
from foldline.context.usage_reading import PLAIN, CountingHabits, UsageReading
from foldline.context.weight import view_size
from foldline.protocol import ModelChange, Usage, UserMessage, text_parts
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
    """Counts the tokens of a request as one seen on 28 November 2026 does."""

    habits: CountingHabits
    dialect: str = "strict-thinking"
    cached_share: float = 0.9
    window: int = 1_000_000

    def tokens(self, view: Projection) -> int:
        """What its model really reads."""
        reasoning = 0
        if self.dialect != "strict" and self.habits.reasoning != "none":
            reasoning = view.thinking - (view.earlier_thinking if self.habits.reasoning == "turn" else 0)
        tools = TOOLS if self.habits.tools else 0
        return min(self.window, round(RATIO * (view.tokens + reasoning + tools)))

    def reported(self, tokens: int, cached: int) -> int:
        """Its input as our wires read it: of Anthropic's API with the cached tokens added."""
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
    "the same behind Anthropic's API": Server(CountingHabits(reasoning="turn"), "messages"),
    "the same behind Responses": Server(CountingHabits(reasoning="turn"), "responses"),
    "DeepSeek without tools: no reasoning is kept": Server(CountingHabits(reasoning="none")),
    "llama.cpp with a template that has no tools": Server(CountingHabits(tools=False), "strict", 0),
    "a template without tools that forgets reasoning": Server(CountingHabits(tools=False, reasoning="turn")),
    "ant2oai, agent-wire-proxy: cached tokens inside and beside": Server(
        CountingHabits(cached="twice"), "messages"
    ),
    "cached tokens beside the input alone": Server(CountingHabits(cached="beside"), "strict"),
    "the same, half of them": Server(CountingHabits(cached="beside"), "strict", 0.5),
}


def play(server: Server, turns: int = 4) -> tuple[History, list[UsageReading], list[int]]:
    """A session with it: two steps a turn. Also how each usage was read, and what it really was."""
    built = history().system("s " * 400)
    readings: list[UsageReading] = []
    real: list[int] = []
    for turn in range(turns):
        built.user(f"{turn} {TEXT}")
        for step in range(2):
            view = built.projection()
            estimated = view.sent + TOOLS
            tokens = server.tokens(view)
            cached = round(server.cached_share * tokens) if turn or step else 0
            reported = server.reported(tokens, cached)
            apart = server.dialect == "messages"
            reading = view.read_usage("m", estimated, reported, cached, apart=apart)
            readings.append(reading)
            real.append(tokens)
            usage = Usage(input=reading.input, cached=cached, output=OUTPUT)
            built.assistant(TEXT, thinking=THOUGHT, usage=usage, model="m")
            built.asked(estimated=estimated, dialect=server.dialect)
    return built, readings, real


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_each_server_is_believed_and_its_habit_learnt(server: Server) -> None:
    built, readings, real = play(server)
    assert {reading.outcome for reading in readings} == {"trusted"}
    assert [reading.input for reading in readings] == pytest.approx(real, rel=0.02)
    learnt = built.projection().habits("m")
    assert (learnt.tools, learnt.reasoning) == (server.habits.tools, server.habits.reasoning)


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("anchored", [True, False], ids=["with a usage", "without one"])
def test_the_next_request_is_as_large_as_its_server_counts_it(server: Server, anchored: bool) -> None:
    built, _, _ = play(server)
    built.user(TEXT)
    if not anchored:
        built.add(ModelChange(model="m"))
    projection = built.projection()
    size = view_size(projection, overhead=TOOLS if projection.habits("m").tools else 0)
    assert size.estimated is not anchored
    assert size.tokens == pytest.approx(server.tokens(projection), rel=0.08)


@pytest.mark.parametrize("window", [2_000, 4_096, 8_192])
def test_a_server_that_cuts_is_accused_and_its_usage_is_not_the_anchor(window: int) -> None:
    server = Server(PLAIN, "strict", 0, window)
    built, readings, _ = play(server, turns=20)
    assert readings[-1].outcome == "cut"
    projection = built.projection()
    assert projection.habits("m") == PLAIN
    assert view_size(projection, overhead=TOOLS).tokens > 1.5 * window


def test_a_report_of_zero_keeps_the_anchor() -> None:
    built, _, _ = play(Server(PLAIN))
    before = built.projection().anchor
    reading = built.projection().read_usage("m", 10_000, 0, 0)
    assert reading.outcome == "missing"
    estimate = Usage(input=9_000, output=3, source="estimated")
    built.user(TEXT).assistant("ok", usage=estimate, model="m").asked()
    after = built.projection()
    assert after.anchor == before is not None
    assert after.requests[-1].is_estimated
    pending = [UserMessage(parts=text_parts(TEXT))]
    assert view_size(after, pending=pending).tokens > view_size(after).tokens


def test_a_server_that_counts_reasoning_again_is_believed_again() -> None:
    """A template was mended under the same name."""
    forgetful, mended = Server(CountingHabits(reasoning="turn")), Server(PLAIN)
    built, _, _ = play(forgetful)
    view = built.user(TEXT).projection()
    reading = view.read_usage("m", view.sent + TOOLS, mended.tokens(view), 0)
    assert reading.outcome == "trusted"
    assert reading.habits == PLAIN


def test_more_cached_tokens_than_input_were_counted_beside_it() -> None:
    view = history().user(TEXT).projection()
    assert view.read_usage("m", 9_000, 40, 6_000).input == 6_040
