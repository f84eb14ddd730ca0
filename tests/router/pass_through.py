"""A router, in its own package, that sends each request on to one of its routes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.routing.installing import install

MODULE = """
from pydantic import BaseModel
from mesh.routing.graph import Decides
from mesh.routing.spi import Respond, RespondWithoutReply, Router, RouterFactory
from mesh.wire.apis import ApiKey

class Config(BaseModel):
    route: str
    static: list[str] = []

class PassThrough(Router):
    def __init__(self, config):
        self.config = config

    def static_routes(self):
        return {ApiKey[name]: self.config.route for name in self.config.static}

    async def on_request(self, request, context):
        node = context.node
        if node is None or node.route != self.config.route:
            node = context.any_node(self.config.route)
        answer = await context.send(node, request)
        return Respond(answer) if request.wants_answer else RespondWithoutReply()

class Factory(RouterFactory):
    config, decides = Config, Decides.REQUESTS

    def initialize(self, context, config):
        return config

    def create_router(self, context, shared):
        return PassThrough(shared)
"""


def install_pass_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs the type `pass-through`, for processes that start from now on, too."""
    install(folder, "pass_through", MODULE, "pass-through = pass_through:Factory\n", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")]))
