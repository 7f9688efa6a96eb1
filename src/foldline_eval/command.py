"""The `foldline eval` command: its arguments, and the name of its handler.

The `eval` entry point in `foldline.commands` refers to `EVAL`. Showing the help imports nothing else
from this package.
"""

from argparse import ArgumentParser

from foldline.cli.arguments import add_format, add_json, names_of, windows_of
from foldline.cli.commands import Command


def _declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="FILE|ID|FOLDER",
        help="recorded sessions of any format",
    )
    add_format(parser)
    parser.add_argument(
        "--strategies",
        type=names_of,
        metavar="A,B",
        help="strategies to compare; by default all built-in ones",
    )
    parser.add_argument(
        "--window",
        dest="windows",
        type=windows_of,
        metavar="N,M",
        help="context windows in tokens: 32k,128k",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="measure many sessions in N parallel processes",
    )
    add_json(parser)


EVAL = Command(
    "eval",
    "FILE…",
    "compare strategies on recorded sessions",
    "foldline_eval.evaluate:evaluate",
    _declare,
)
