"""The process: builds everything from the configuration, starts it, changes it while it runs, and stops it."""

from mesh.app.application import Application, run
from mesh.app.readiness import Readiness

__all__ = ["Application", "Readiness", "run"]
