"""All that a projection says, as one value: two projections that say the same are equal."""

from dataclasses import dataclass

from foldline.context.projection import Projection
from foldline.context.view import Fate, ViewItem
from foldline.protocol import Compaction


@dataclass(frozen=True)
class State:
    view: tuple[ViewItem, ...]
    fates: tuple[Fate, ...]
    pins: frozenset[int]
    tokens: int
    folds: tuple[int, ...]
    anchor: object
    ratios: dict[str, float]

    @classmethod
    def of(cls, projection: Projection) -> "State":
        return cls(
            view=tuple(projection.view),
            fates=tuple(projection.fate(entry.index) for entry in projection.entries),
            pins=projection.pins,
            tokens=projection.tokens,
            folds=tuple(fold.index for fold in projection.compactions()),
            anchor=projection.anchor,
            ratios=dict(projection.calibration.ratios),
        )


def folds_of(projection: Projection) -> list[Compaction]:
    """Every compaction, undone ones included, with all that its outline leaves out."""
    return [
        fold
        for each in projection.all_compactions
        if isinstance(fold := projection.entry(each.index), Compaction)
    ]
