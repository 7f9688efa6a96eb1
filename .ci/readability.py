"""`make readability`: how the source reads, in figures that may only improve.

The same figures as of other code bases, so that they can be held beside those; the number of files and lines
is printed and not held. `--worst N` lists where each figure comes from. Lower a figure in HELD when your
change has improved it.
"""

import ast
import re
import statistics
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grimp

SOURCE = Path(__file__).parent.parent / "src"
HELD = {
    "riddles, % of docstrings": 0.8,
    "words of a docstring, median": 10.0,
    "bare names, per 1,000": 0.8,
    "nodes per code line": 4.09,
    "nodes": 334_130,
    "conditionals in conditionals": 0,
    "assignments of three": 0,
    "times bool()": 0,
    "largest circle": 1,
    "class names of several things": 1,
    "definitions of such classes": 2,
}
"""Reached so far. What to reach is in docs/decisions/0062-readability.md."""
_RIDDLE = re.compile(
    r"\b(what|who|whoever|whatever|whose|nobody|anybody|somebody|none|such|else|where there)\b",
    re.IGNORECASE,
)
_BARE = (
    "asked", "beside", "came", "each", "found", "given", "gone", "held", "known", "left", "made", "rest",
    "said", "stays", "taken", "told", "wanted", "whole",
)  # fmt: skip
"""Participles and pronouns that name no thing."""
_NO_CODE = (
    tokenize.COMMENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER, tokenize.INDENT,
    tokenize.NEWLINE, tokenize.NL,
)  # fmt: skip


@dataclass
class Counts:
    """What was counted, with the places for `--worst`."""

    docstrings: int = 0
    words: list[int] = field(default_factory=list)
    names: int = 0
    nodes: int = 0
    lines: int = 0
    code_lines: int = 0
    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Of each figure that counts places: file and line."""
    classes: dict[str, set[Path]] = field(default_factory=lambda: defaultdict(set))


def code_lines(path: Path, tree: ast.AST) -> int:
    """The lines with code on them, docstrings left out."""
    rows: set[int] = set()
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type not in _NO_CODE:
                rows.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            rows.difference_update(
                range(node.lineno, (node.end_lineno or node.lineno) + 1)
            )
    return len(rows)


def count_file(path: Path, counts: Counts) -> None:
    """Add one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    counts.lines += text.count("\n")
    counts.code_lines += code_lines(path, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.Constant):
            counts.nodes += 1
        place = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
        for figure in figures_at(node, counts):
            counts.places[figure].append(place)
        if isinstance(node, ast.ClassDef):
            counts.classes[node.name.lstrip("_")].add(path)


def figures_at(node: ast.AST, counts: Counts) -> Iterator[str]:
    """The figures that this node counts for."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if is_riddle(ast.get_docstring(node), counts):
                yield "riddles, % of docstrings"
        case ast.Name(ctx=ast.Store()):
            counts.names += 1
            if node.id in _BARE:
                yield "bare names, per 1,000"
        case (
            ast.IfExp(body=ast.IfExp())
            | ast.IfExp(orelse=ast.IfExp())
            | ast.IfExp(test=ast.IfExp())
        ):
            yield "conditionals in conditionals"
        case ast.Assign(targets=[ast.Tuple(elts=[_, _, _, *_])], value=ast.Tuple()):
            yield "assignments of three"
        case ast.BinOp(op=ast.Mult(), left=left, right=right) if is_bool_call(
            left
        ) or is_bool_call(right):
            yield "times bool()"


def is_bool_call(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "bool"
    )


def is_riddle(docstring: str | None, counts: Counts) -> bool:
    """Count a docstring, and return whether its first paragraph has a word of riddles."""
    if not docstring:
        return False
    first = docstring.strip().split("\n\n")[0].replace("\n", " ")
    counts.docstrings += 1
    counts.words.append(len(first.split()))
    return _RIDDLE.search(first) is not None


def largest_circle() -> int:
    """Modules in the largest set that import each other, for the type checker or inside functions too."""
    graph = grimp.build_graph(
        "foldline", "foldline_eval", exclude_type_checking_imports=False, cache_dir=None
    )
    sizes = [
        len(graph.find_upstream_modules(name) & graph.find_downstream_modules(name))
        for name in graph.modules
    ]
    return max(sizes)


def measured(counts: Counts) -> dict[str, float]:
    """The figures that are held."""
    places = {figure: len(found) for figure, found in counts.places.items()}
    homonyms = [len(files) for files in counts.classes.values() if len(files) > 1]
    riddles, bare = (
        places.get("riddles, % of docstrings", 0),
        places.get("bare names, per 1,000", 0),
    )
    return {
        "riddles, % of docstrings": round(100 * riddles / counts.docstrings, 1),
        "words of a docstring, median": statistics.median(counts.words),
        "bare names, per 1,000": round(1000 * bare / counts.names, 1),
        "nodes per code line": round(counts.nodes / counts.code_lines, 2),
        "nodes": counts.nodes,
        "conditionals in conditionals": places.get("conditionals in conditionals", 0),
        "assignments of three": places.get("assignments of three", 0),
        "times bool()": places.get("times bool()", 0),
        "largest circle": largest_circle(),
        "class names of several things": len(homonyms),
        "definitions of such classes": sum(homonyms),
    }


def main(arguments: list[str]) -> int:
    """Print the table; return 1 where a figure got worse."""
    worst = int(arguments[1]) if arguments[:1] == ["--worst"] else 0
    counts = Counts()
    files = sorted(SOURCE.rglob("*.py"))
    for path in files:
        count_file(path, counts)
    figures = measured(counts)
    sys.stdout.write(
        f"{'files':32}{len(files):>10,}\n{'lines':32}{counts.lines:>10,}\n"
    )
    for name, value in figures.items():
        note = "  is worse" if value > HELD[name] else ""
        sys.stdout.write(f"{name:32}{value:>10,}{HELD[name]:>10,}{note}\n")
    for figure, found in counts.places.items() if worst else ():
        sys.stdout.write(f"{figure}: {', '.join(found[:worst])}\n")
    return int(any(value > HELD[name] for name, value in figures.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
