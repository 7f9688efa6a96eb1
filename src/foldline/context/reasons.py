"""Why a unit matters, and how much: the one table of points. Which unit gets them is said elsewhere."""

from typing import Literal

Reason = Literal[
    "request", "wish", "constraint", "agreed", "decision", "error", "fix", "code", "plan", "report", "stumble"
]

Point = tuple[int, Reason, float]
"""The place of a unit, and what it gets points for."""

MOST: dict[Reason, float] = {
    "request": 3,
    "wish": 2,
    "constraint": 8,
    "agreed": 4,
    "decision": 5,
    "error": 6,
    "fix": 3,
    "code": 6,
    "plan": 4,
    "report": 1,
    "stumble": 1,
}
"""What one unit can get for each reason."""
WORTH = 2.0
"""A unit with fewer points is not kept for its own sake."""

DONE_REQUEST = 1.0
"""A request from long ago: what it asks for is done, or was asked for again."""
RULE = 4.0
DECISION = 1.5
REASONED = 2.5
"""A decision with its reason."""
FAILS = 4.0
"""A command that failed and has not been run again."""
FAILED = 2.0
"""One that has."""
QUOTED = 3.0
"""A failure the user tells of."""
NEWEST_FILE = 3.0
NEWEST_NAME = 1.0
"""Code in an answer, for each name it defines."""
