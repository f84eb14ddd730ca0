"""The configuration of other processes that serve the same virtual clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from mesh.config.base import Model
from mesh.config.values import Duration, matching

_URL = matching(r"https?://[^\s/:]+:[0-9]{1,5}", "http://HOST:PORT or https://HOST:PORT, of an admin address")


class PeersConfig(Model):
    """The other processes of the same pools. A process that stops asks them for their state, and sends its clients to
    them."""

    urls: tuple[Annotated[str, _URL], ...] = Field(description="Admin addresses; a name may stand for several.")
    token: Annotated[str, StringConstraints(min_length=16)] | None = Field(
        default=None, repr=False, description="Their token, if it differs from that of `admin`."
    )
    certificates: Path | None = Field(default=None, description="Certificates (PEM) to trust beside the system's.")
    interval: Annotated[Duration, Field(ge=0.1, le=60)] = Field(default=2.0, description="How often to ask them.")
