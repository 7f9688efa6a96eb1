"""The instrument's test of itself: it passes as it is, and notices what is broken."""

from collections.abc import Callable

import pytest

from foldline.evaluation.judge import answers, questions
from support.judge_trial import self_test


def test_the_instrument_is_in_order() -> None:
    assert self_test() == []


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("gives", lambda *_: True),
        ("gives", lambda *_: False),
        ("is_refusal", lambda _: False),
        ("is_refusal", lambda _: True),
        ("same_file", lambda *_: False),
    ],
    ids=["all right", "all wrong", "never refuses", "always refuses", "no file"],
)
def test_a_broken_score_is_noticed(
    name: str, broken: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, name, broken)
    assert self_test()


def test_probes_that_are_not_written_any_more_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_changed_values", lambda *_: [])
    assert self_test() == ["No probe was written of the kind superseded."]
