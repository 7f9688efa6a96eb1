"""The arms of a comparison: strategies by name, and two references that need no strategy of ours."""

from foldline.compaction import BUILT_IN, Dependencies, TruncateTurns, load_strategy
from foldline.protocol import FoldlineError

from .headroom import HeadroomCompaction
from .replay import Arm

RAW = "raw"
"""The whole history with each request: what would be remembered and paid if windows had no end."""
TRUNCATE = "truncate"
HEADROOM = "headroom"
REFERENCES = {
    RAW: "nothing is ever folded; marked where it exceeds the window",
    TRUNCATE: "leaves out the oldest turns, down to half of the window",
    HEADROOM: "headroom-ai's compress(), which is installed by itself",
}
"""Arms beside the strategies, and what each is."""


def default_arms() -> list[str]:
    """What is compared where nobody says: all that comes along, and the references that need nothing else."""
    return [RAW, *BUILT_IN, TRUNCATE]


def arm_named(name: str, window: int, dependencies: Dependencies) -> Arm:
    """The arm of this name, made anew: strategies may remember what they did.

    Raises:
        FoldlineError: there is no such strategy, or it cannot be made.
    """
    match name:
        case "raw":
            return Arm(name, None)
        case "truncate":
            return Arm(name, TruncateTurns(window // 2))
        case "headroom":
            return Arm(name, HeadroomCompaction())
        case _:
            if name not in BUILT_IN and ":" not in name:
                known = ", ".join([*REFERENCES, *BUILT_IN])
                raise FoldlineError(
                    f"There is no strategy {name}; there are {known}, and your own as module:ClassName."
                )
            return Arm(name, load_strategy(name, dependencies))
