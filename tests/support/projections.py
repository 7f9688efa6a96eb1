"""The complete state of a projection as a comparable value."""

from dataclasses import dataclass

from foldline.protocol import Compaction
from foldline.view.items import Fate, ViewItem
from foldline.view.projection import Projection


@dataclass(frozen=True)
class State:
    view: tuple[ViewItem, ...]
    fates: tuple[Fate, ...]
    pins: frozenset[int]
    tokens: int
    compactions: tuple[int, ...]
    anchor: object
    ratios: dict[str, float]

    @classmethod
    def of(cls, projection: Projection) -> "State":
        return cls(
            view=tuple(projection.view),
            fates=tuple(projection.fate(entry.index) for entry in projection.entries),
            pins=projection.pins,
            tokens=projection.tokens,
            compactions=tuple(
                compaction.index for compaction in projection.compactions()
            ),
            anchor=projection.meter.anchor,
            ratios=dict(projection.meter.calibration.ratios),
        )


def compactions_of(projection: Projection) -> list[Compaction]:
    """Return every compaction in full, undone ones included."""
    return [
        compaction
        for outline in projection.all_compactions
        if isinstance(compaction := projection.entry(outline.index), Compaction)
    ]
