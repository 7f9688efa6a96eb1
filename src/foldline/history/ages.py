"""When something was, as people say it."""

from datetime import datetime, timedelta

_DAYS_SAID = 10
"""Days that are counted; what is older has a date."""


def age(then: datetime, now: datetime) -> str:
    """`just now`, `5 min ago`, `3 h ago`, `yesterday`, `4 days ago`, then the date; eleven cells at most.

    Both know their time zone; dates are those of `now`'s. What lies ahead of `now` was written by another
    clock: it has its date.
    """
    local = then.astimezone(now.tzinfo)
    passed = now - then
    if passed < timedelta(minutes=-1) or passed >= timedelta(days=_DAYS_SAID):
        return f"{local:%Y-%m-%d}"
    minutes = int(passed.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    days = (now.date() - local.date()).days
    if minutes < 24 * 60 and (days < 1 or minutes < 12 * 60):
        return f"{minutes // 60} h ago"
    return "yesterday" if days <= 1 else f"{days} days ago"
