"""`make size`: how much there is to read, held against what was reached. A number may only go down.

A statement is an `ast.stmt`. A circle is a set of modules that import each other when they are loaded."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
HELD = {
    "lines": 92_730,
    "statements": 58_462,
    "files": 617,
    "lines in tui": 33_764,
    "files in tui": 218,
    "files under 40 lines": 35,
    "files over 700 lines": 0,
    "import circles": 0,
}


def module(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def loaded(body: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
    """The imports that run when a module does: none of functions, none for the type checker."""
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.Try):
            yield from loaded(statement.body)


def imported(path: Path, tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of ours that this one loads."""
    name = module(path)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for statement in loaded(tree.body):
        origin = ".".join([*package[: len(package) - statement.level + 1], statement.module or ""]).strip(".")
        origin = origin if statement.level else statement.module or ""
        inner = {f"{origin}.{alias.name}" for alias in statement.names} & modules
        found |= inner or {origin} & modules
    return found - {name}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One of the circles, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [error.args[1]]
    return []


def main() -> int:
    """Prints the table; 1 where a number has grown."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = {path: text.count("\n") for path, text in texts.items()}
    tui = [path for path in lines if "tui" in path.parts]
    modules = {module(path) for path in texts}
    found = circles({module(path): imported(path, tree, modules) for path, tree in trees.items()})
    sizes = {
        "lines": sum(lines.values()),
        "statements": sum(isinstance(node, ast.stmt) for tree in trees.values() for node in ast.walk(tree)),
        "files": len(lines),
        "lines in tui": sum(lines[path] for path in tui),
        "files in tui": len(tui),
        "files under 40 lines": sum(
            count < 40 and not path.stem.startswith("__") for path, count in lines.items()
        ),
        "files over 700 lines": sum(count > 700 for count in lines.values()),
        "import circles": len(found),
    }
    for name, size in sizes.items():
        grown = "  has grown" if size > HELD[name] else ""
        sys.stdout.write(f"{name:22}{size:>8,}{HELD[name]:>10,}{grown}\n")
    for circle in found:
        sys.stdout.write(" → ".join(circle) + "\n")
    return int(any(size > HELD[name] for name, size in sizes.items()))


sys.exit(main())
