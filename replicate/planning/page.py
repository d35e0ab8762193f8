"""Makes the page that `python -m replicate plan` writes: a drawing that needs no network."""

from __future__ import annotations

import html
import json
import pathlib
import re
from typing import Any

_FOLDER = pathlib.Path(__file__).parent


def render(plan: Any, title: str) -> str:
    """Returns the page of a `Plan`, as HTML.

    Args:
        plan: The `Plan`.
        title: The name of the model, any text.
    """
    parts = {
        "title": html.escape(title),
        "style": _read("page.css"),
        # Inside a script element, only `</script>` could end it.
        "data": json.dumps(plan.as_dict()).replace("<", "\\u003c"),
        "script": _read("page_edges.js") + _read("page.js"),
    }
    # All at once: a title may look like a place for another part.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
