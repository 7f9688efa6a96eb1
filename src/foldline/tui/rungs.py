"""The rungs of the failure ladder in as few words as a row has room for.

Not taken from `foldline.compaction`: the first paint does not pay for that.
"""

RUNGS = {
    "chunks": "in chunks",
    "hide": "old results hidden",
    "clip": "large results clipped",
    "digest": "digest without a model",
    "truncate": "oldest turns left out",
}


def rung_words(rung: str) -> str:
    """How a fold was made; empty where the strategy itself made it, as always meant."""
    return "" if rung == "strategy" else RUNGS.get(rung, rung)
