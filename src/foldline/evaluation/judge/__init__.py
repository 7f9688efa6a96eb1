"""Probes: questions about a session asked of a real model, from each strategy's view (`eval --judge`).

points = points_of(runs)
paper = exam_of(points, window=llm.info.window)           # asks nobody anything
bill = estimate(paper)                                    # to be shown and agreed to
sitting = Sitting(paper, answerer=llm, judge=other)
await sitting.run()
result = judgement(sitting.record)                        # also after a cancel or a failure
"""

from .asking import Progress, Record, Sitting
from .bill import Bill, estimate
from .exam import Exam, exam_of
from .points import CEILING, ENOUGH, FLOOR, Point, fold_positions, points_of, view_at
from .result import HandCheck, Judgement, Noise, Row, judgement
from .selftest import faults, self_test

__all__ = [
    "CEILING",
    "ENOUGH",
    "FLOOR",
    "Bill",
    "Exam",
    "HandCheck",
    "Judgement",
    "Noise",
    "Point",
    "Progress",
    "Record",
    "Row",
    "Sitting",
    "estimate",
    "exam_of",
    "faults",
    "fold_positions",
    "judgement",
    "points_of",
    "self_test",
    "view_at",
]
