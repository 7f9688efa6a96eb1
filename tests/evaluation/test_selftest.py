"""The instrument's own test passes where it is right, and says what is wrong where it is not."""

import pytest

from foldline.evaluation import selftest
from foldline.evaluation.recall import Needs
from foldline.evaluation.record import Run


def test_the_instrument_can_be_believed() -> None:
    assert selftest.self_test() == []


def test_an_instrument_that_finds_everything_everywhere_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = selftest.recall

    def flattering(run: Run, known: Needs) -> object:
        raw = selftest._run(run.history, lambda at: run.history[:at])
        return honest(raw, known)

    monkeypatch.setattr(selftest, "recall", flattering)
    faults = selftest.self_test()
    assert any("nothing but the system prompt" in fault for fault in faults)
    assert any("kept 25% of all names" in fault for fault in faults)


def test_an_instrument_without_rules_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "violations", lambda *_: [])
    assert any("breaks no rule" in fault for fault in selftest.self_test())


def test_a_cache_that_serves_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = selftest.cost
    same = {"cache": selftest.OPENAI_CACHE}

    def generous(run: Run, meter: object) -> object:
        repeated = Run(**{**{f: getattr(run, f) for f in run.__slots__}, "requests": (run.requests[0],) * 2})
        return honest(repeated, meter, same["cache"])

    monkeypatch.setattr(selftest, "cost", generous)
    assert any("another first message" in fault for fault in selftest.self_test())
