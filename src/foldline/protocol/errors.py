"""Errors that are for people: one sentence with what happened, where, and what to do."""


class FoldlineError(Exception):
    """A failure a person can act on. `str(error)` is the whole sentence shown to them."""


def system_words(error: OSError) -> str:
    """Why the system refused, as the end of a sentence: `no space left on device`."""
    return (error.strerror or str(error)).lower()
