"""What do the images cost? MB of each and of all; with --build also seconds to build each, from nothing and again.

`--build` removes our images, and the base made here too with --local-base, empties the engine's whole build cache, and fetches into
an empty cache of the harness's own: run it where nobody else uses the engine. Images are built one after the other in the order
given, so the first of a stack pays for what the others share. "Again" is with every layer in the builder's cache.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time

from docker.api import APIClient

from harness import cache, plugins
from harness.engine import Engine, ImageFacts
from harness.images import Image, ensure
from harness.images.base import LOCAL
from harness.images.client import Client, find_client
from harness.images.spec import tag_of
from harness.model import Backend

BACKENDS = ("eager", "sdpa", "compile", "onnxruntime", "flax")

_NO_LAYER = re.compile(r"(/bin/sh -c #\(nop\) +)?(ARG|CMD|ENTRYPOINT|ENV|LABEL|USER)\b")
"""Steps of a history that change settings only. WORKDIR makes a layer."""


def layer_sizes_bytes(image: ImageFacts, api: APIClient) -> dict[str, int]:
    """Layer digest -> its size: the history has the sizes, the image the digests, both from the base upwards."""
    steps = [step for step in reversed(api.history(image.id)) if not _NO_LAYER.match(step["CreatedBy"])]
    if len(steps) != len(image.layers):
        raise SystemExit(f"{image.tags[0]}: {len(steps)} steps with layers, but {len(image.layers)} layers")
    return {layer: step["Size"] for layer, step in zip(image.layers, steps, strict=True)}


def empty(client: Client, *, base_too: bool) -> None:
    """Leave nothing that a build could start from but the official base."""
    client.run(["builder", "prune", "--all", "--force"])
    if base_too:
        client.run(["rmi", "--force", LOCAL])


def built(backends: list[Backend], engine: Engine, client: Client, *, local_base: bool) -> list[Image]:
    """The images, each built anew: their tags are taken away first, which leaves the builder's cache as it is."""
    client.run(["rmi", "--force", *(tag_of(backend.name, "cpu") for backend in backends)])
    return ensure(backends, "cpu", engine, lambda _line: None, note=print, local_base=local_base)


def timed(title: str, backends: list[Backend], engine: Engine, client: Client, *, local_base: bool) -> None:
    started_s = time.perf_counter()
    images = built(backends, engine, client, local_base=local_base)
    each = ", ".join(f"{image.backend} {image.seconds:.1f}" for image in images)
    print(f"{title}: {time.perf_counter() - started_s:.1f} s in all; {each}")


def there(backends: list[Backend], engine: Engine) -> list[ImageFacts]:
    found = [engine.image(tag_of(backend.name, "cpu")) for backend in backends]
    return [image for image in found if image is not None]


def report_sizes(images: list[ImageFacts], engine: Engine) -> None:
    on_disk: dict[str, int] = {}
    with APIClient(base_url=engine.host, version="auto") as api:
        for image in images:
            layers = layer_sizes_bytes(image, api)
            added = {layer: size for layer, size in layers.items() if layer not in on_disk}
            on_disk |= added
            print(
                f"{image.tags[0]}: {sum(layers.values()) / 1e6:,.0f} MB, {sum(added.values()) / 1e6:,.1f} MB of its own so far"
            )
    print(f"all: {sum(on_disk.values()) / 1e6:,.0f} MB on the disk")


def build_twice(backends: list[Backend], engine: Engine, client: Client, *, local_base: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as folder:
        os.environ[cache.VARIABLE] = folder
        empty(client, base_too=local_base)
        timed("from nothing", backends, engine, client, local_base=local_base)
        timed("again", backends, engine, client, local_base=local_base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="empties the engine's build cache")
    parser.add_argument("--local-base", action="store_true")
    parser.add_argument("backends", nargs="*", default=BACKENDS)
    arguments = parser.parse_args()
    known = plugins.load().backends
    backends = [known[name] for name in arguments.backends]
    engine = Engine.connect()
    if arguments.build:
        build_twice(backends, engine, find_client(engine.host), local_base=arguments.local_base)
    report_sizes(there(backends, engine), engine)


if __name__ == "__main__":
    main()
