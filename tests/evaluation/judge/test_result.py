"""The table: floor, ceiling and what lies between, and how far to trust it."""

import json

import pytest

from foldline.evaluation.judge.answers import Ground, Probe, Text
from foldline.evaluation.judge.exam import CEILING, ENOUGH, FLOOR, WEIGHTS, Exam, Point, Sheet
from foldline.evaluation.judge.sitting import CRITERIA, Judgement, Record, Reply, Row, half_width

RECALL = Probe("recall", "Which number?", Text("75"))
DECISION = Probe("decision", "What was decided?", Ground(("To retry.",)))
ARMS = (FLOOR, "mine", CEILING)


def sat(
    points: int, right: dict[str, int], *, probe: Probe = RECALL, grade: dict[str, float] | None = None
) -> Judgement:
    """One probe at each point; so many of the points are answered rightly from each arm's view."""
    sheets = [Sheet(point, (arm,), (), 0, (probe,)) for point in range(points) for arm in ARMS]
    places = tuple(Point("s", point, (), {"mine": ()}) for point in range(points))
    record = Record(Exam(places, tuple(sheets), WEIGHTS, 100))
    for number, sheet in enumerate(sheets):
        if sheet.arms[0] in right or grade:
            text = "75" if sheet.point < right.get(sheet.arms[0], 0) else "80"
            record.replies.append(Reply(number, 0, text))
    for number, reply in enumerate(record.replies):
        if grade:
            given = grade[sheets[reply.sheet].arms[0]]
            record.graded[number] = dict.fromkeys(CRITERIA, given)
    return Judgement(record)


def row(result: Judgement, arm: str, dimension: str = "recall") -> Row:
    return next(row for row in result.rows if (row.arm, row.dimension) == (arm, dimension))


def test_a_score_is_held_against_floor_and_ceiling() -> None:
    result = sat(10, {FLOOR: 2, "mine": 5, CEILING: 8})
    assert row(result, "mine").score == pytest.approx(0.5)
    assert row(result, "mine").norm == pytest.approx(0.5)
    assert (row(result, FLOOR).norm, row(result, CEILING).norm) == (0, 1)


def test_a_dimension_that_tells_nothing_apart_leaves_the_mean() -> None:
    result = sat(100, {FLOOR: 85, "mine": 88, CEILING: 94})
    assert row(result, "mine").norm is None
    assert row(result, "mine").remark == "not discriminating"
    assert not any(each.dimension.startswith("mean") for each in result.rows)


def test_half_a_point_of_five_between_floor_and_ceiling_is_enough() -> None:
    for ceiling, norm in ((2.5, 0.5), (2.4, None)):
        low = ceiling - 0.5 if norm else 2.0
        result = sat(4, {}, probe=DECISION, grade={FLOOR: low, "mine": (low + ceiling) / 2, CEILING: ceiling})
        assert row(result, "mine", "graded accuracy").norm == norm


def test_without_a_ceiling_there_is_no_norm() -> None:
    result = sat(10, {FLOOR: 2, "mine": 5})
    assert row(result, "mine").norm is None
    assert row(result, "mine").remark == "no floor and ceiling to hold it against"


def test_the_means_are_over_the_dimensions_that_tell_something() -> None:
    result = sat(10, {FLOOR: 0, "mine": 5, CEILING: 10})
    mean = row(result, "mine", "mean of the probes")
    assert (mean.n, mean.norm) == (1, pytest.approx(0.5))


def test_the_half_width_is_that_of_the_mean_over_points() -> None:
    result = sat(30, {FLOOR: 0, "mine": 15, CEILING: 30})
    assert row(result, "mine").n == 30
    assert row(result, "mine").half_width == pytest.approx(1.96 * 0.5085 / 30**0.5, rel=1e-3)
    assert half_width([1.0]) is None


def test_fewer_than_thirty_points_are_insufficient() -> None:
    assert sat(ENOUGH - 1, {"mine": 3}).insufficient
    assert not sat(ENOUGH, {"mine": 3}).insufficient


def test_everything_can_be_written_as_json() -> None:
    result = sat(3, {}, probe=DECISION, grade={FLOOR: 1.0, "mine": 3.0, CEILING: 5.0})
    read = json.loads(json.dumps(result.as_json()))
    assert read["insufficient"] is True
    assert read["rows"][0]["arm"] == FLOOR


def test_a_sitting_that_never_began_has_a_result_too() -> None:
    result = Judgement(Record(Exam((), (), WEIGHTS, 100)))
    assert result.rows == ()
    assert result.insufficient
