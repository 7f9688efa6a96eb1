"""A picture of a comparison as SVG: the size of each request, and what was remembered for which price.

Charts by pygal (pure Python), without the script it would load from elsewhere.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .figures import USUAL, Figures
from .record import Run

if TYPE_CHECKING:
    from pygal.graph.graph import Graph

WIDTH, HEIGHT = 1_200, 520
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)
"""Only what a script from elsewhere would read."""
_POINTS = 400
"""Of a line at most: a picture has no room for more."""


def plotted(runs: Sequence[Run], figures: Sequence[Figures], *, title: str) -> str:
    """One SVG with both charts, one above the other. The first draws one session: that of the first run."""
    charts = [_sizes(runs, title), _worth(figures)]
    nested = (
        _SCRIPT.sub("", chart.render(is_unicode=True)).replace("<svg ", f'<svg y="{at * HEIGHT}" ', 1)
        for at, chart in enumerate(charts)
    )
    height = HEIGHT * len(charts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">\n' + "\n".join(nested) + "\n</svg>\n"
    )


def _sizes(runs: Sequence[Run], title: str) -> "Graph":
    first = runs[0].session
    chart = _chart(f"{title}: tokens of each request, {first}", "request", "tokens", stroke=True)
    for run in runs:
        if run.session == first and run.window == runs[0].window:
            sizes = [sent.tokens for sent in run.requests if sent.kind == "step"]
            every = max(1, len(sizes) // _POINTS)
            chart.add(run.strategy, [(at, size) for at, size in enumerate(sizes) if at % every == 0])
    return chart


def _worth(figures: Sequence[Figures]) -> "Graph":
    chart = _chart(
        "what was needed again and still there, against cost (a dot a session)",
        "cost relative to raw, cached input at 0.1",
        "grounded recall, %",
        stroke=False,
    )
    for name in dict.fromkeys(row.strategy for row in figures):
        dots = [
            (round(row.relative[USUAL], 3), round(100 * row.recall.grounded, 2))
            for row in figures
            if row.strategy == name and row.recall.grounded is not None
        ]
        chart.add(name, dots)
    return chart


def _chart(title: str, x: str, y: str, *, stroke: bool) -> "Graph":
    import pygal
    from pygal.style import Style

    style = Style(
        font_family="sans-serif", background="#ffffff", plot_background="#ffffff", title_font_size=18,
        label_font_size=12, major_label_font_size=12, legend_font_size=13, guide_stroke_color="#dddddd",
        colors=(
            "#888888", "#1f77b4", "#17becf", "#2ca02c", "#98df8a", "#bcbd22", "#ff7f0e", "#d62728", "#9467bd",
            "#e377c2", "#8c564b", "#000000",
        ),
    )  # fmt: skip
    return pygal.XY(
        title=title, x_title=x, y_title=y, stroke=stroke, show_dots=not stroke, dots_size=4, style=style,
        width=WIDTH, height=HEIGHT, explicit_size=True, js=(), disable_xml_declaration=True,
        value_formatter=lambda value: f"{value:,.6g}",
    )  # fmt: skip
