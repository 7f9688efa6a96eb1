"""The largest of any run of numbers, in a list that grows: what a column shows that stands for many."""

from collections.abc import Sequence


class Peaks:
    """Numbers with the largest of each aligned run of 2, 4, 8 …: appending and asking are O(log n)."""

    def __init__(self) -> None:
        self._levels: list[list[int]] = [[]]

    def __len__(self) -> int:
        return len(self._levels[0])

    def extend(self, values: Sequence[int]) -> None:
        """Append many: O(1) for each where there is nothing yet."""
        if len(self):
            for value in values:
                self.append(value)
            return
        self._levels = [list(values)]
        for _ in range(1, len(values).bit_length()):
            below = self._levels[-1]
            self._levels.append([max(below[at : at + 2]) for at in range(0, len(below), 2)])

    def append(self, value: int) -> None:
        self._levels[0].append(value)
        for below, level in enumerate(range(1, len(self).bit_length())):
            if level == len(self._levels):
                self._levels.append([])
            pairs, peaks = self._levels[below], self._levels[level]
            largest = max(pairs[len(pairs) - 2 :]) if len(pairs) % 2 == 0 else pairs[-1]
            if len(peaks) < (len(pairs) + 1) // 2:
                peaks.append(largest)
            else:
                peaks[-1] = largest

    def most(self, start: int, stop: int) -> int:
        """The largest from `start` up to, not including, `stop`; 0 where that is nothing."""
        largest, level = 0, 0
        stop = min(stop, len(self))
        while start < stop:
            peaks = self._levels[level]
            if start % 2:
                largest = max(largest, peaks[start])
                start += 1
            if stop % 2:
                stop -= 1
                largest = max(largest, peaks[stop])
            start, stop, level = start // 2, stop // 2, level + 1
        return largest
