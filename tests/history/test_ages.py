"""When something was, as people say it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.history import age
from foldline.history.catalog import file_time

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (timedelta(), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=1), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=15), "15 h ago"),
        (timedelta(hours=16), "yesterday"),
        (timedelta(hours=39), "yesterday"),
        (timedelta(hours=40), "2 days ago"),
        (timedelta(days=9, hours=23), "10 days ago"),
        (timedelta(days=10), "2026-03-04"),
        (timedelta(days=4000), "2015-04-01"),
        (timedelta(seconds=-30), "just now"),
        (timedelta(days=-30), "2026-04-13"),
    ],
)
def test_an_age_is_said_as_people_say_it(before: timedelta, said: str) -> None:
    assert age(NOW - before, NOW) == said


def test_what_was_before_midnight_but_not_long_ago_is_counted_in_hours() -> None:
    early = NOW.replace(hour=2)
    assert age(early - timedelta(hours=5), early) == "5 h ago"


def test_days_are_those_of_the_reader() -> None:
    there = timezone(timedelta(hours=-9))
    then = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert age(then, NOW.astimezone(there)) == "2026-01-01"


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9000, 1, 1)))
def test_an_age_never_takes_more_than_eleven_cells(then: datetime) -> None:
    assert len(age(then.replace(tzinfo=UTC), NOW)) <= 11


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))])
@pytest.mark.parametrize("edge", [datetime.min, datetime.max])
def test_at_the_edges_of_the_calendar_there_is_a_date(edge: datetime, zone: timezone) -> None:
    said = age(edge.replace(tzinfo=UTC), NOW.astimezone(zone))
    assert said.startswith(f"{edge:%Y}-")


@pytest.mark.parametrize("seconds", [1e12, -1e12, 1e300])
def test_a_file_of_no_time_of_the_calendar_is_of_1970(seconds: float) -> None:
    assert file_time(seconds) == datetime(1970, 1, 1, tzinfo=UTC)
