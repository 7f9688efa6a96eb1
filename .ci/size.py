"""`make size`: how much there is to read, held against what was reached. A number may only go down.

A statement is an `ast.stmt`. A circle is a set of modules that import each other, inside functions too."""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

SOURCE = Path(__file__).parent.parent / "src"
HELD = {
    "lines": 102_060,
    "statements": 66_198,
    "files": 419,
    "lines in tui": 32_294,
    "files in tui": 132,
    "files under 40 lines": 2,
    "files over 700 lines": 0,
    "import circles": 0,
}


def circle() -> list[str]:
    """Modules that import each other in a circle, if there is one."""
    graph = grimp.build_graph("foldline", exclude_type_checking_imports=True, cache_dir=None)
    sorter = TopologicalSorter(
        {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def main() -> int:
    """Prints the table; 1 where a number has grown."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    lines = {path: text.count("\n") for path, text in texts.items()}
    tui = [count for path, count in lines.items() if "tui" in path.parts]
    nodes = (node for text in texts.values() for node in ast.walk(ast.parse(text)))
    found = circle()
    sizes = {
        "lines": sum(lines.values()),
        "statements": sum(isinstance(node, ast.stmt) for node in nodes),
        "files": len(lines),
        "lines in tui": sum(tui),
        "files in tui": len(tui),
        "files under 40 lines": sum(
            count < 40 and not path.stem.startswith("__") for path, count in lines.items()
        ),
        "files over 700 lines": sum(count > 700 for count in lines.values()),
        "import circles": bool(found),
    }
    for name, size in sizes.items():
        grown = "  has grown" if size > HELD[name] else ""
        sys.stdout.write(f"{name:22}{size:>8,}{HELD[name]:>10,}{grown}\n")
    if found:
        sys.stdout.write(" → ".join(found) + "\n")
    return int(any(size > HELD[name] for name, size in sizes.items()))


sys.exit(main())
