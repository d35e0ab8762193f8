"""Colours of all pictures, and how they are saved.

Pictures are drawn without a display, once for PNG files, dark on white, and once for a page, where
lines and words take the colour of the page's text, so that they can be read on dark and on light.
The colours are those of Okabe and Ito, which the colour-blind tell apart.
"""

import html
import io
import re

import matplotlib
from matplotlib.figure import Figure

BLUE, SKY, GREEN = "#0072b2", "#56b4e9", "#009e73"
ORANGE, VERMILION, GREY = "#e69f00", "#d55e00", "#b0b0b0"

_INK = "#010203"  # of lines and words; nothing else has this colour
_INKED = (
    *("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"),
    *("grid.color", "legend.labelcolor"),
)
_STYLE = {
    **dict.fromkeys(_INKED, _INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "font.size": 9,
    "legend.framealpha": 0,
    "svg.fonttype": "none",  # words stay words, that can be searched for and copied
}
_DPI = 120
# Names in an SVG, and references to them.
_NAME = re.compile(r'(\bid="|\burl\(#|href="#)')
_HEADER = re.compile(r"^.*?(?=<svg)", re.DOTALL)


def png(draw, path):
    """Saves a picture as a PNG file.

    Args:
        draw: Function without arguments that returns a `matplotlib` figure.
        path: Name of the file, or a file opened for writing bytes.
    """
    with matplotlib.rc_context(_STYLE):
        draw().savefig(path, dpi=_DPI, format="png", facecolor="white")


def svg(draw, name, words):
    """Returns a picture as an `<svg>` element to stand in a page.

    Args:
        draw: Function without arguments that returns a `matplotlib` figure.
        name: Letters and digits that no other picture of the page has: the names inside the
            picture begin with it, so that they do not clash.
        words: Text that stands in for the picture where it is not seen.
    """
    file = io.BytesIO()
    without = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        draw().savefig(file, format="svg", metadata=without)
    text = _HEADER.sub("", file.getvalue().decode(), count=1)
    text = _NAME.sub(rf"\g<1>{name}-", text).replace(_INK, "currentColor")
    # Its words are read as one text, and not one by one.
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(words)}"', 1)


def new(width, height):
    """Returns an empty figure whose parts make room for each other; sizes are in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def ink():
    """Returns the colour of lines and words."""
    return _INK


def plain(words):
    """Returns words that `matplotlib` shows as they are, and does not read as mathematics."""
    return str(words).replace("$", r"\$")


def thinned(values, limit):
    """Returns `limit` of many values at most, evenly spaced, the first and the last among them."""
    if len(values) <= limit:
        return list(values)
    return [values[round(i * (len(values) - 1) / (limit - 1))] for i in range(limit)]
