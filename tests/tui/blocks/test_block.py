from hypothesis import given
from hypothesis import strategies as st

from foldline.tui.blocks.block import Heights

heights = st.lists(st.integers(0, 9), max_size=40)
steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "append", "insert", "delete"]),
        st.integers(0, 60),
        heights,
    ),
    max_size=25,
)


def check(fast: Heights, naive: list[int]) -> None:
    assert len(fast) == len(naive)
    assert [fast[index] for index in range(len(naive))] == naive
    assert fast.total == sum(naive)
    assert [fast.offset(index) for index in range(len(naive) + 1)] == [
        sum(naive[:index]) for index in range(len(naive) + 1)
    ]
    places = [
        (index, line) for index, height in enumerate(naive) for line in range(height)
    ]
    assert [fast.locate(line) for line in range(fast.total)] == places


@given(heights, steps)
def test_sums_and_places_are_those_of_a_plain_list(
    start: list[int], changes: list[tuple[str, int, list[int]]]
) -> None:
    fast, naive = Heights(start), list(start)
    check(fast, naive)
    for what, where, values in changes:
        at = where % (len(naive) + 1)
        if what == "set" and naive:
            at %= len(naive)
            fast.set(at, where)
            naive[at] = where
        elif what == "append":
            fast.append(where)
            naive.append(where)
        elif what == "insert":
            fast.splice(at, at, values)
            naive[at:at] = values
        elif what == "delete":
            stop = min(at + len(values), len(naive))
            fast.splice(at, stop, ())
            del naive[at:stop]
        check(fast, naive)


@given(st.lists(st.integers(0, 9), min_size=1).filter(any))
def test_lines_outside_are_taken_as_the_first_and_the_last(values: list[int]) -> None:
    fast = Heights(values)
    assert fast.locate(-5) == fast.locate(0)
    assert fast.locate(fast.total + 5) == fast.locate(fast.total - 1)
