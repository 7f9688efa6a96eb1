"""Learning how far the estimate is off, and not learning from servers that truncate silently."""

import pytest

from foldline.context.tokens import HIGHEST, LOWEST, MARGIN, START, Calibration


def test_an_unknown_model_starts_high_and_the_first_report_replaces_that() -> None:
    assert Calibration().ratio("m") == START
    assert Calibration().learn("m", 1_000, 1_210).ratio("m") == pytest.approx(1.21)


def test_later_reports_move_the_ratio_towards_what_they_say() -> None:
    learnt = Calibration().learn("m", 1_000, 1_000)
    for _ in range(20):
        learnt = learnt.learn("m", 1_000, 1_200)
    assert learnt.ratio("m") == pytest.approx(1.2, abs=0.001)


def test_each_model_has_a_ratio_of_its_own() -> None:
    learnt = Calibration().learn("m", 1_000, 1_000)
    assert (learnt.ratio("m"), learnt.ratio("other")) == (1.0, START)


def test_a_usage_below_seventy_per_cent_of_a_calibrated_estimate_is_never_learnt() -> None:
    learnt = Calibration().learn("m", 1_000, 1_200)
    assert learnt.learn("m", 1_000, 839) is learnt
    assert learnt.learn("m", 1_000, 841).ratio("m") < 1.2


def test_the_ratio_stays_within_sense() -> None:
    assert Calibration().learn("m", 100, 10_000).ratio("m") == HIGHEST
    assert Calibration().learn("m", 1_000, 600).ratio("m") == LOWEST


def test_decisions_err_high() -> None:
    assert Calibration().learn("m", 1_000, 1_200).scale("m") == pytest.approx(1.2 * MARGIN)
