"""Streamed answers in every kind of Markdown, of any length."""

from collections.abc import Iterator
from typing import Final

_PROSE: Final = "The key is looked up in *one* transaction, the order inserted in `another`: **both** pass. "
_CHINESE: Final = "键在一个事务中查询，**订单**在另一个事务中插入 👩‍💻。"


def prose(lines: int) -> str:
    return "\n\n".join(_PROSE * 3 for _ in range(lines // 4))


def fence(lines: int) -> str:
    body = "\n".join(
        f'    order = await self.insert(draft, key="{n}")  # {n}' for n in range(lines)
    )
    return f"Before.\n\n```python\n{body}\n```\n\nAfter."


def bullets(lines: int) -> str:
    return "\n".join(f"- item {n} with **bold** and `code`" for n in range(lines))


def nested(lines: int) -> str:
    return "\n".join(
        f"{'  ' * (n % 3)}{'1.' if n % 3 else '-'} item {n}" for n in range(lines)
    )


def rows(lines: int) -> str:
    return "| a | number | what |\n|---|--:|:-:|\n" + "\n".join(
        f"| row {n} | {n} | some `words` |" for n in range(lines)
    )


def chinese(lines: int) -> str:
    return "\n\n".join(f"第{n}段：{_CHINESE * 3}" for n in range(lines // 2))


KINDS: Final = {
    "prose": prose,
    "fence": fence,
    "list": bullets,
    "nested lists": nested,
    "table": rows,
    "Chinese": chinese,
}


def split_chunks(text: str, size: int) -> Iterator[str]:
    """Split a text into streamed chunks of `size` characters."""
    return (text[at : at + size] for at in range(0, len(text), size))
