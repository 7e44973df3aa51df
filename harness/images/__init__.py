"""Images: one for each backend and device, from one Dockerfile, made by `ensure` and never used when they are stale."""

from harness.images.building import ensure, find, obstacle
from harness.images.spec import Image, Missing, Stale

__all__ = ["Image", "Missing", "Stale", "ensure", "find", "obstacle"]
