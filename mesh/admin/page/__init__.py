"""The status page: one self-contained document that reads /status, /metrics and /readyz of the process that served it.

The page has no data of the process, so it is served without the token; the addresses that it reads require the token.
Its Content-Security-Policy lets it run its own script and ask its own origin, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Final

from starlette.responses import Response

_FORBIDDEN: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@cache
def _document() -> tuple[bytes, str]:
    """Returns the page, and its Content-Security-Policy."""
    folder = resources.files(__package__)
    page, style, script = ((folder / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    whole = page.replace("/*STYLE*/", style).replace("/*SCRIPT*/", script)
    policy = f"{_FORBIDDEN}; connect-src 'self'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    return whole.encode(), policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page() -> Response:
    whole, policy = _document()
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return Response(whole, media_type="text/html", headers=headers)
