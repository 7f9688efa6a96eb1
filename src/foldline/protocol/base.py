"""What every record of the protocol has in common."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


def _in_reach(moment: datetime) -> datetime:
    return moment if 1 < moment.year < 9999 else moment.replace(year=min(max(moment.year, 2), 9998))


Moment = Annotated[datetime, AfterValidator(_in_reach)]
"""A time that can be said in any time zone, whoever wrote it down."""


def _reckonable(count: int) -> int:
    return count if -_ENDLESS < count < _ENDLESS else _ENDLESS


_ENDLESS = 10**15
Count = Annotated[int, AfterValidator(_reckonable)]
"""A number of tokens or the like. Whoever wrote it down, it can be divided: beyond all windows is endless."""


class Record(BaseModel):
    """An immutable value that travels as JSON. Fields a newer version wrote are kept, not dropped."""

    model_config = ConfigDict(frozen=True, extra="allow")


class FoldlineError(Exception):
    """A failure a person can act on. `str(error)` is the whole sentence shown to them."""


def system_words(error: OSError) -> str:
    """Why the system refused, as the end of a sentence: `no space left on device`."""
    return (error.strerror or str(error)).lower()
