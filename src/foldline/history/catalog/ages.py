"""When something was, as people say it."""

from datetime import UTC, datetime, timedelta

_DAYS_SAID = 10
"""Days that are counted; what is older has a date."""


def age(then: datetime, now: datetime) -> str:
    """`just now`, `5 min ago`, `3 h ago`, `yesterday`, `4 days ago`, then the date; eleven cells at most.

    Both know their time zone; dates are those of `now`'s. What lies ahead of `now` was written by another
    clock: it has its date.
    """
    passed = now - then
    if passed < timedelta(minutes=-1) or passed >= timedelta(days=_DAYS_SAID):
        return f"{_local(then, now):%Y-%m-%d}"
    minutes = int(passed.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    days = (now.date() - _local(then, now).date()).days
    if minutes < 24 * 60 and (days < 1 or minutes < 12 * 60):
        return f"{minutes // 60} h ago"
    return "yesterday" if days <= 1 else f"{days} days ago"


def file_time(seconds: float) -> datetime:
    """The time of a file, which may be anything; 1970 where the calendar has none like it."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _local(then: datetime, now: datetime) -> datetime:
    try:
        return then.astimezone(now.tzinfo)
    except OverflowError:  # at the edge of the calendar, where this zone has no time any more
        return then
