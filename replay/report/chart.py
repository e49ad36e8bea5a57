"""The grid of settings as an SVG file: bars by limit, one for each `dynamic`. No script, nothing from elsewhere.

Drawn with xml.etree, so that the text in it cannot become markup, and the same cells give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from replay import files
from replay.findings.recompiles import Cell
from replay.report.grid import WORDS, by_accumulated, columns, limits, name_dynamic, parts
from replay.report.text import clean_line, shorten

OPTION = "--svg"
ENDINGS = (".svg",)

WIDTH, LEFT, RIGHT = 760, 48, 16
TOP, PLOT, BOTTOM = 96, 200, 44
"""Of one panel, in units of the picture: above the bars, the bars, below them."""
BAR, SPACE = 26, 4
TICKS = 5
REFUSED = "\u00d7"

# Okabe and Ito's colours, which people with any colour vision tell apart; on dark, lighter ones of the same hues.
_STYLE = """
svg { background: #ffffff; font: 13px system-ui, sans-serif; }
text { fill: #1f2328; } .small { font-size: 11px; } .title { font-size: 15px; font-weight: 600; }
.axis { stroke: #57606a; } .guide { stroke: #d0d7de; } .paper { fill: #ffffff; }
.c0 { fill: #0072b2; stroke: #0072b2; } .c1 { fill: #d55e00; stroke: #d55e00; } .c2 { fill: #00795a; stroke: #00795a; }
.hits { fill-opacity: .22; } .uncompiled { fill-opacity: 0; stroke-dasharray: 3 2; } .errors { fill: #1f2328; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; } text { fill: #e6edf3; } .paper { fill: #0d1117; }
.axis { stroke: #8b949e; } .guide { stroke: #30363d; } .errors { fill: #e6edf3; }
.c0 { fill: #56b4e9; stroke: #56b4e9; } .c1 { fill: #f0a35e; stroke: #f0a35e; } .c2 { fill: #3fd0a0; stroke: #3fd0a0; }
}
"""


def check(path: Path) -> None:
    """UsageError unless the file's name and its directory will do."""
    files.check_place(path, ENDINGS, option=OPTION)


def write_chart(path: Path, cells: Sequence[Cell], title: str) -> None:
    """Write the picture, over one that is there. UsageError if it cannot be written."""
    check(path)
    files.write(path, chart(cells, title).encode("utf-8"), option=OPTION)


def chart(cells: Sequence[Cell], title: str) -> str:
    """The picture's text: a panel for each accumulated limit."""
    panels = list(by_accumulated(cells))
    height = (TOP + PLOT + BOTTOM) * max(1, len(panels))
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH} {height}",
            "role": "img",
            "aria-labelledby": "title desc",
        },
    )
    ElementTree.SubElement(root, "title", id="title").text = clean_line(title)
    ElementTree.SubElement(root, "desc", id="desc").text = "; ".join(map(_told, cells))
    ElementTree.SubElement(root, "style").text = _STYLE
    _box(root, (0, 0, WIDTH, height), "paper")
    for number, (accumulated, part) in enumerate(panels):
        beside = "" if accumulated is None else f", with an accumulated limit of {accumulated}"
        panel = _Panel(root, number * (TOP + PLOT + BOTTOM), part)
        panel.draw(shorten(title, 72), f"recompile limit{beside}")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


class _Panel:
    """The bars of one accumulated limit."""

    def __init__(self, root: ElementTree.Element, top: int, cells: Sequence[Cell]) -> None:
        self._root, self._top = root, top
        self._columns, self._limits = columns(cells), limits(cells)
        totals = [sum(parts(one.count).values()) for one in cells if one.count is not None]
        self._step = _step(max(totals, default=1))
        self._most = max(1, math.ceil(max(totals, default=1) / self._step)) * self._step
        self._base = top + TOP + PLOT
        self._group = (WIDTH - LEFT - RIGHT) / max(1, len(self._limits))
        self._bar = min(BAR, self._group * 0.9 / max(1, len(self._columns)) - SPACE)
        self._refused = any(one.count is None for one in cells)
        self._shown = [name for name in WORDS if any(one.count and parts(one.count)[name] for one in cells)]

    def draw(self, title: str, below: str) -> None:
        """Everything, from the back to the front."""
        _text(self._root, 16, self._top + 26, title, "title")
        self._draw_legend()
        self._draw_axis()
        for number, limit in enumerate(self._limits):
            middle = LEFT + (number + 0.5) * self._group
            _text(self._root, middle, self._base + 16, str(limit), "", anchor="middle")
            left = middle - len(self._columns) * (self._bar + SPACE) / 2
            for place, column in enumerate(self._columns.values()):
                if limit in column:
                    self._draw_bar(left + place * (self._bar + SPACE), column[limit], f"c{place % 3}")
        _text(self._root, WIDTH / 2, self._base + 36, below, "small", anchor="middle")

    def _draw_legend(self) -> None:
        x = 16.0
        for place, dynamic in enumerate(self._columns):
            x = self._legend(x, self._top + 48, name_dynamic(dynamic), f"c{place % 3}")
        x = 16.0
        for name in self._shown:
            x = self._legend(x, self._top + 70, f"calls that {WORDS[name]}", f"c0 {name}")
        told = "above each bar: compilations" + (f"; {REFUSED}: refused" if self._refused else "")
        _text(self._root, WIDTH - RIGHT, self._top + 48, told, "small", anchor="end")

    def _legend(self, x: float, y: float, words: str, kind: str) -> float:
        _box(self._root, (x, y - 10, 12, 12), kind)
        _text(self._root, x + 18, y, words, "small")
        return x + 38 + 5.8 * len(words)

    def _draw_axis(self) -> None:
        for value in range(0, self._most + 1, self._step):
            y = self._height_of(value)
            _line(self._root, (LEFT, y, WIDTH - RIGHT, y), "axis" if value == 0 else "guide")
            _text(self._root, LEFT - 8, y + 4, str(value), "small", anchor="end")

    def _draw_bar(self, x: float, cell: Cell, colour: str) -> None:
        if cell.count is None:
            _text(self._root, x + self._bar / 2, self._base - 6, REFUSED, "", anchor="middle")
            return
        group = ElementTree.SubElement(self._root, "g")
        ElementTree.SubElement(group, "title").text = _told(cell)
        bottom, so_far = self._base * 1.0, 0
        for name, number in parts(cell.count).items():
            if number:
                so_far += number
                top = self._height_of(so_far)
                _box(group, (x, top, self._bar, bottom - top), f"{colour} {name}")
                bottom = top
        _text(group, x + self._bar / 2, bottom - 5, str(cell.count.compiles), "small", anchor="middle")

    def _height_of(self, value: int) -> float:
        return self._base - PLOT * value / self._most


def _step(most: int) -> int:
    """Between two lines: 1, 2 or 5 times a power of ten, so that there are few lines."""
    raw = max(1, math.ceil(most / TICKS))
    power = int(10 ** math.floor(math.log10(raw)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)


def _told(cell: Cell) -> str:
    """A cell in words, for whoever does not see the picture."""
    where = f"{name_dynamic(cell.dynamic)}, limit {cell.limit}"
    if cell.count is None:
        return f"{where}: refused"
    return f"{where}: " + ", ".join(f"{number} {WORDS[name]}" for name, number in _there(cell))


def _there(cell: Cell) -> Iterator[tuple[str, int]]:
    assert cell.count is not None
    return ((name, number) for name, number in parts(cell.count).items() if number)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _box(root: ElementTree.Element, places: Sequence[float], kind: str) -> None:
    """A rectangle: x, y, width, height."""
    _shape(root, "rect", ("x", "y", "width", "height"), places, kind)


def _line(root: ElementTree.Element, places: Sequence[float], kind: str) -> None:
    """A line: from x, y to x, y."""
    _shape(root, "line", ("x1", "y1", "x2", "y2"), places, kind)


def _shape(
    root: ElementTree.Element, name: str, names: Sequence[str], places: Sequence[float], kind: str
) -> None:
    given = dict(zip(names, map(_number, places), strict=True))
    ElementTree.SubElement(root, name, {**given, "class": kind})


def _text(
    root: ElementTree.Element, x: float, y: float, words: str, kind: str, *, anchor: str = "start"
) -> None:
    given = {"x": _number(x), "y": _number(y), "text-anchor": anchor}
    ElementTree.SubElement(root, "text", {**given, "class": kind} if kind else given).text = clean_line(words)
