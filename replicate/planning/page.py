"""Makes the page that `python -m replicate plan` writes: a drawing that needs no network."""

from __future__ import annotations

import html
import json
import pathlib
from typing import Any

_TEMPLATE = pathlib.Path(__file__).with_name("page.html")


def render(plan: Any, title: str) -> str:
    """Returns the page of a `Plan`, as HTML.

    Args:
        plan: The `Plan`.
        title: The name of the model, any text.
    """
    # Inside a script element, only `</script>` could end it.
    data = json.dumps(plan.as_dict()).replace("<", "\\u003c")
    text = _TEMPLATE.read_text(encoding="utf-8")
    return text.replace("{{title}}", html.escape(title)).replace("{{data}}", data)
