"""The files of the reading job: generated, the same in every run.

Code, JSON lines, JSON, logs, Markdown and Chinese prose, 20 to 40 kB each. Every line with text is unique
within and across files, so the lines of a request can be identified.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

SMALLEST, LARGEST = 20_000, 40_000
"""Bytes of one file."""

_WORDS = """
nouns: account batch buffer cache cursor digest entry frame gateway handle index journal key lease mirror node
nouns: order packet queue record session shard socket table token upload vault worker
verbs: accept close compare copy drain expire fetch flush join load merge open parse prune read render replay
verbs: reset resolve retry rotate seal send split store sync trim update verify write
states: ready waiting stale sealed broken partial late idle
"""


def _words(kind: str) -> list[str]:
    lines = (line.partition(": ") for line in _WORDS.strip().splitlines())
    return [word for name, _, words in lines if name == kind for word in words.split()]


_NOUNS = _words("nouns")
_VERBS = _words("verbs")
_STATES = _words("states")
_PHRASES = (
    "写入之前要先让缓存失效",
    "读取时不会等待另一个进程的锁",
    "队列满了以后新的任务排在后面",
    "日志按日期分开保存",
    "失败的请求最多重试三次",
    "这里的时间都以毫秒计算",
    "索引损坏时从头重建",
    "合并之后旧的分片可以删除",
    "每个会话只有一个写入者",
    "备份放在另一台机器上",
)


class _Words:
    """Pseudo-random words that depend only on the seed."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)

    def noun(self) -> str:
        return self.draw.choice(_NOUNS)

    def verb(self) -> str:
        return self.draw.choice(_VERBS)

    def state(self) -> str:
        return self.draw.choice(_STATES)

    def number(self, most: int) -> int:
        return self.draw.randrange(most)


def _code(words: _Words, tag: str) -> Iterator[str]:
    yield f'"""How module {tag} works on its {words.noun()}s."""\n\n'
    row = 0
    while True:
        verb = words.verb()
        noun = words.noun()
        other = words.noun()
        name = f"{tag}_{row}"
        yield f"def {verb}_{noun}_{name}({noun}: str, {other}_limit_{row}=_LIMIT_{words.number(900)}):\n"
        yield f'    """Whether the {noun} of {name} is {words.state()} after it went to the {other}."""\n'
        yield f"    found_{name} = {other}_store.get({noun}, default={words.number(64)})  # see {tag}/{row}\n"
        yield f"    if found_{name} is None or found_{name}.{verb}s > {other}_limit_{row}:\n"
        yield f'        raise LookupError("no {noun} to {verb} in {name}")\n'
        yield f"    return found_{name}.{words.verb()}({noun}) and not {other}_{words.state()}_{name}\n\n\n"
        row += 1


def _json_lines(words: _Words, tag: str) -> Iterator[str]:
    row = 0
    while True:
        record = {
            "id": f"{tag}-{row}",
            "kind": words.noun(),
            "state": words.state(),
            "ms": words.number(90_000) / 10,
            "tags": [words.noun(), words.verb()],
            "note": f"{words.verb()} the {words.noun()} before the {words.noun()} is {words.state()}",
        }
        yield json.dumps(record) + "\n"
        row += 1


def _json(words: _Words, tag: str) -> Iterator[str]:
    yield f'{{"{tag}": [\n'
    row = 0
    while True:
        yield f'  {{"name": "{words.noun()}_{tag}_{row}", "size": {words.number(100_000)},\n'
        yield f'   "path": "{words.noun()}/{words.noun()}/{tag}_{row}.bin", "{words.state()}": true}},\n'
        row += 1


def _log(words: _Words, tag: str) -> Iterator[str]:
    row = 0
    while True:
        row += 1
        level = words.draw.choice(("INFO", "INFO", "INFO", "DEBUG", "WARNING", "ERROR"))
        minute = f"{row // 60 % 24:02}:{row % 60:02}"
        clock = f"2025-03-{1 + row // 800:02}T{minute}:{words.number(60):02}.{row:06}Z"
        yield (
            f"{clock} {level:7} {words.noun()}.{words.verb()} [{tag}] {words.noun()} {words.number(9999)} is "
            f"{words.state()}, {words.verb()} took {words.number(5000)} ms\n"
        )


def _markdown(words: _Words, tag: str) -> Iterator[str]:
    yield f"# Notes on {tag}\n\n"
    row = 0
    while True:
        row += 1
        yield f"## {row}. How to {words.verb()} a {words.noun()} ({tag})\n\n"
        yield (
            f"Before {tag} can {words.verb()} step {row}, the {words.noun()} has to be {words.state()}; "
            f"where it is {words.state()}, the {words.noun()} waits for the {words.noun()} and says so.\n\n"
        )
        yield f"- **{words.noun()}**: {words.verb()} it with `{words.verb()} --{words.noun()} {tag}/{row}`\n"
        yield f"- `{words.noun()}_{row}` of {tag} stays {words.state()} for {words.number(600)} seconds\n\n"


def _chinese(words: _Words, tag: str) -> Iterator[str]:
    row = 0
    while True:
        row += 1
        sentence = "，".join(words.draw.sample(_PHRASES, 4))
        number = words.number(10_000)
        yield f"第{row}节（{tag}）。{sentence}；编号{number}的{words.noun()}在第{row}步之后处理。\n\n"


KINDS: dict[str, Callable[[_Words, str], Iterator[str]]] = {
    "py": _code,
    "jsonl": _json_lines,
    "log": _log,
    "md": _markdown,
    "json": _json,
    "txt": _chinese,
}


def make_files(
    folder: Path, count: int, kinds: Sequence[str] = tuple(KINDS)
) -> list[Path]:
    """Create `count` files of 20 to 40 kB, cycling through the kinds."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(count):
        ending = kinds[number % len(kinds)]
        tag = f"part{number:02}"
        size = SMALLEST + 500 + number * 7_919 % (LARGEST - SMALLEST - 1_500)
        path = folder / f"{tag}.{ending}"
        path.write_text(_up_to(size, KINDS[ending](_Words(tag), tag)), encoding="utf-8")
        assert SMALLEST <= path.stat().st_size <= LARGEST
        files.append(path)
    return files


def sample(kind: str, size: int) -> str:
    """Return a text of one kind, of about `size` bytes."""
    return _up_to(size, KINDS[kind](_Words("sample"), "sample"))


def _up_to(size: int, pieces: Iterator[str]) -> str:
    """Join pieces until they have at least `size` bytes."""
    text: list[str] = []
    while size > 0:
        text.append(next(pieces))
        size -= len(text[-1].encode())
    return "".join(text)


class Coverage:
    """Tracks the file lines seen.

    It compares lines and does not depend on a tool's output format.
    """

    def __init__(self, files: list[Path]) -> None:
        self._lines = [path.read_text(encoding="utf-8").splitlines() for path in files]
        self._names = [path.name for path in files]
        self._places: dict[str, tuple[int, int]] = {}
        for number, lines in enumerate(self._lines):
            for row, line in enumerate(lines):
                assert not line or line not in self._places, (
                    f"two lines are alike: {line}"
                )
                if line:
                    self._places[line] = (number, row)
        self._seen: set[tuple[int, int]] = set()

    def add(self, text: str) -> None:
        """Add a sent text. Only whole lines count; an empty line counts next to a seen neighbour."""
        lines = text.splitlines()
        for step, ordered in ((1, lines), (-1, lines[::-1])):
            before: tuple[int, int] | None = None
            for line in ordered:
                before = (
                    self._places.get(line) if line else self._empty_beside(before, step)
                )
                if before is not None:
                    self._seen.add(before)

    def _empty_beside(
        self, place: tuple[int, int] | None, step: int
    ) -> tuple[int, int] | None:
        """Return the place `step` lines away if its line is empty."""
        if place is None:
            return None
        number, row = place[0], place[1] + step
        lines = self._lines[number]
        return (number, row) if 0 <= row < len(lines) and not lines[row] else None

    @property
    def share(self) -> float:
        """Share of all bytes seen, line ends included."""
        everything = [
            (n, row) for n, lines in enumerate(self._lines) for row in range(len(lines))
        ]
        return sum(map(self._size, self._seen)) / sum(map(self._size, everything))

    def missing(self) -> list[str]:
        """The unseen lines as `name: lines`, for an assertion message."""
        return [
            f"{name}: {len(rows)} of {len(lines)} lines, from {rows[0] + 1}"
            for number, (name, lines) in enumerate(
                zip(self._names, self._lines, strict=True)
            )
            if (
                rows := [
                    row for row in range(len(lines)) if (number, row) not in self._seen
                ]
            )
        ]

    def _size(self, place: tuple[int, int]) -> int:
        number, row = place
        return len(self._lines[number][row].encode()) + 1
