"""Images: one for each backend and device, from one Dockerfile, made by `ensure` and never used when they are stale."""

from harness.images.building import ensure, find, obstacle, replaced
from harness.images.spec import BACKEND_LABEL, Image, Missing, Stale

__all__ = ["BACKEND_LABEL", "Image", "Missing", "Stale", "ensure", "find", "obstacle", "replaced"]
