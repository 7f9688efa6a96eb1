"""Errors of the token estimate, against reported usage and against a real vocabulary.

The vocabulary is that of `bpe-openai`, which needs no network once installed: `pip install -e '.[bench]'`. It
is no dependency of the product or its tests: usage of real models corrects the estimate, a vocabulary would
not (docs/design/budget.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import mean

import pytest

from bench.tables import table
from bench.texts import texts
from foldline.formats.reader import read_foreign
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    RequestRecord,
)
from foldline.view.projection import Projection
from foldline.view.tokens import (
    MARGIN,
    Calibration,
    estimate_text_tokens,
    estimate_tokens,
    start_ratio,
)
from support.recordings import SHARED, recordings

Benchmark = Callable[..., object]

RECORDED = recordings("pi")
"""Recordings with the usage of each step, in supported formats."""
MOST_OFF = 0.3
"""Allowed error for one kind of text, before calibration."""
FAR_OFF = {"Hindi": (0.0, 0.5), "Tamil": (0.0, 0.5)}
"""Kinds with a known larger error. Other vocabularies count up to four times as many tokens."""
TOO_LOW_AT_FIRST = 0.12
"""Allowed underestimate of a kind before calibration."""


@dataclass
class Errors:
    """Signed errors of an estimate as shares of the context; below 0 is too low."""

    shares: list[float] = field(default_factory=list)

    def add(self, estimated: float, reported: int) -> None:
        self.shares.append((estimated - reported) / reported)

    @property
    def mean(self) -> float:
        return mean(map(abs, self.shares))

    @property
    def worst(self) -> float:
        return max(self.shares, key=abs)

    def __str__(self) -> str:
        return f"{self.mean:.2%} ({self.worst:+.1%})"


@dataclass
class Replay:
    """Estimated and reported tokens of a recorded session, step by step."""

    model: str = ""
    raw: Errors = field(default_factory=Errors)
    """Estimate of the whole request, uncalibrated."""
    calibrated: Errors = field(default_factory=Errors)
    """Calibrated by the earlier steps, as right after a compaction."""
    anchored: Errors = field(default_factory=Errors)
    """Last reported usage plus the calibrated estimate of later messages, as at other steps."""


def replay(entries: list[Entry]) -> Replay:
    """Replay the messages up to the first compaction, with a request record per answer.

    Recordings lack system prompt and tools; the first step reveals their size and is not judged.
    """
    errors = Replay()
    projection, calibration = Projection(), Calibration()
    overhead: int | None = None
    for entry in takewhile(lambda entry: not isinstance(entry, Compaction), entries):
        usage = entry.usage if isinstance(entry, AssistantMessage) else None
        record: list[Entry] = []
        if isinstance(entry, AssistantMessage) and usage is not None and usage.input:
            model = errors.model = entry.model or ""
            if overhead is None:
                overhead = usage.input - projection.tokens
            total = projection.tokens + overhead
            if projection.meter.anchor is not None:
                ratio = calibration.ratio(model)
                errors.raw.add(total, usage.input)
                errors.calibrated.add(total * ratio, usage.input)
                after = max(0, projection.tokens - projection.meter.anchor.estimated)
                errors.anchored.add(
                    projection.meter.anchor.reported + after * ratio, usage.input
                )
            calibration = calibration.learn(model, total, usage.input)
            record = [
                RequestRecord(
                    digest="",
                    model=model,
                    index=2 * entry.index + 1,
                    estimated=max(0, total),
                    usage=usage,
                )
            ]
        if isinstance(entry, BaseMessage):
            for added in (entry.model_copy(update={"index": 2 * entry.index}), *record):
                projection.append(added)
    return errors


@pytest.mark.parametrize(
    "path", RECORDED or [None], ids=lambda path: path.stem if path else "none"
)
def test_the_estimate_of_a_recorded_session_is_off_by_little_of_the_context(
    benchmark: Benchmark, path: Path | None
) -> None:
    output = table(
        "Estimate against reported usage (error in % of the context: mean, and worst in brackets)",
        *(
            "recorded session",
            "model",
            "steps",
            "raw",
            "calibrated",
            "after the last usage",
        ),
    )
    if path is None:
        reason = f"skipped: the recorded sessions are not here ({SHARED})"
        output.note(reason)
        pytest.skip(reason)
    entries = read_foreign(path).entries
    errors: Replay = benchmark.pedantic(replay, args=(entries,), rounds=1)  # type: ignore[attr-defined]
    steps = len(errors.raw.shares)
    output.row(
        path.stem, errors.model, steps, errors.raw, errors.calibrated, errors.anchored
    )
    assert errors.anchored.mean <= 0.01
    assert errors.anchored.mean <= errors.calibrated.mean <= errors.raw.mean


def test_the_estimate_of_a_text_is_near_the_count_of_a_real_vocabulary(
    benchmark: Benchmark,
) -> None:
    output = table(
        "Estimate of a text against the vocabulary o200k_base (signed error of the total)",
        *(
            "text",
            "tokens",
            "characters a token",
            "published rule",
            "estimate",
            "estimate × start ratio",
        ),
    )
    try:
        import bpe_openai  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        reason = "skipped: no vocabulary installed (pip install -e '.[bench]')"
        output.note(reason)
        pytest.skip(reason)
    vocabulary = bpe_openai.get_encoding("o200k_base")
    samples, ratio = texts(), start_ratio("gpt")
    estimates: dict[str, int] = benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: {kind: estimate_tokens(text) for kind, text in samples.items()},
        rounds=3,
    )
    errors = {}
    for kind, text in samples.items():
        tokens = len(vocabulary.encode_ordinary(text))
        errors[kind] = estimates[kind] / tokens - 1
        rule = estimate_text_tokens(text) / tokens - 1
        careful = estimates[kind] * ratio * MARGIN / tokens - 1
        output.row(
            kind,
            f"{tokens:,}",
            f"{len(text) / tokens:.2f}",
            *(f"{error:+.0%}" for error in (rule, errors[kind], careful)),
        )
    output.note(
        f"start ratio: {ratio} × {MARGIN}, before anything is learnt of a model of OpenAI's"
    )
    for kind, error in errors.items():
        lowest, highest = FAR_OFF.get(kind, (-MOST_OFF, MOST_OFF))
        assert lowest <= error <= highest, kind
        if kind not in FAR_OFF:
            assert (1 + error) * ratio * MARGIN >= 1 - TOO_LOW_AT_FIRST, (
                f"{kind} is too low at first"
            )
