"""From what is missing or stale to an image: what is decided, said and refused on the way. The engine's part stands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from harness.engine import Engine, ImageFacts
from harness.executors import pip
from harness.images import Image, building, ensure, obstacle, supplies
from harness.images.building import build_command
from harness.images.client import Client, Hear, Outcome
from harness.images.spec import DOCKERFILE, Stale, spec_of
from harness.model import HarnessError
from images.doubles import BASE, BUILDKIT, Commands, Images, Spoken, TinyPlugin, unheard
from images.test_base import probed

LOG = """\
#6 [stack 1/3] RUN python3 -m venv
#6 DONE 1.2s
#7 [stack 2/3] COPY stack.lock
#7 2.043 Installing collected packages: mpmath, urllib3, torch
#8 [packages 1/1] RUN if there are any
#9 [code 1/3] COPY harness/__init__.py
#16 exporting to image
""".splitlines()


class Builds(Spoken):
    """A client whose builds put an image into an engine."""

    def __init__(self, images: Images, **answers: Outcome) -> None:
        super().__init__({"run": probed(), **answers})
        self._images = images
        self.contexts: list[set[str]] = []
        self.dockerfiles: list[str] = []

    def run(self, arguments: Sequence[str], hear: Hear | None = None) -> Outcome:
        outcome = super().run(arguments, hear)
        if arguments[0] == "build" and outcome.returncode == 0:
            options = dict(word.removeprefix("--").split("=", 1) for word in arguments if word.startswith("--"))
            labels = dict(word.split("=", 2)[1:] for word in arguments if word.startswith("--label="))
            tag = options["tag"]
            self._images.images[tag] = ImageFacts(f"sha256:{len(self.asked)}", (tag,), labels, 7)
            self.contexts.append({path.name for path in Path(arguments[-1]).iterdir()})
            self.dockerfiles.append((Path(arguments[-1]) / "Dockerfile").read_text())
        return outcome


class Case:
    """An engine that has a base, and a client that builds into it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Outcome) -> None:
        self.images = Images()
        self.images.add(BASE.name, BASE.id)
        self.client = Builds(self.images, **answers)
        self.notes: list[str] = []
        self.progress: list[str] = []
        monkeypatch.setattr(building, "find_client", lambda _host: self.client)
        monkeypatch.setattr(pip, "download", lambda _lock, folder, *_: (folder / "a-1-py3-none-any.whl").touch())

    def ensure(self, *backends: object, device: str = "cpu", **options: bool) -> list[Image]:
        engine = cast(Engine, self.images)
        return ensure(backends, device, engine, self.progress.append, note=self.notes.append, **options)  # type: ignore[arg-type]


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(monkeypatch)


def test_a_missing_image_is_built_and_it_is_said(case: Case, plugin: TinyPlugin) -> None:
    (image,) = case.ensure(plugin.backend())
    assert image.seconds is not None
    assert image.identity == case.images.images[image.tag].labels["org.backend-harness.identity"]
    assert case.notes == ["image backend-harness/tiny_images:cpu is not there yet; building it"]


def test_an_image_that_is_there_is_not_built_again(case: Case, plugin: TinyPlugin) -> None:
    (first,) = case.ensure(plugin.backend())
    (second,) = case.ensure(plugin.backend())
    assert (second.id, second.seconds) == (first.id, None)


def test_a_stale_image_is_never_handed_out_and_the_reason_is_said(case: Case, plugin: TinyPlugin) -> None:
    (old,) = case.ensure(plugin.backend())
    plugin.write("runner.py", "changed = True\n")
    (new,) = case.ensure(plugin.backend())
    assert new.id != old.id
    assert case.notes[-1].endswith("is stale: the plugin's code has changed; building it")


def test_a_stale_image_that_cannot_be_built_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, plugin: TinyPlugin
) -> None:
    case = Case(monkeypatch)
    case.ensure(plugin.backend())
    plugin.lock("changed==1.0\n")
    with pytest.raises(
        HarnessError, match=r"tiny_images:cpu is stale: the stack's lock has changed.*; it cannot be built: the wheels"
    ):
        case.ensure(plugin.backend(), offline=True)


def test_one_base_serves_all_images_of_a_command(case: Case, plugin: TinyPlugin) -> None:
    case.ensure(plugin.backend("one"), plugin.backend("two"))
    assert [asked[0] for asked in case.client.asked] == ["run", "build", "build"]


def test_a_build_is_given_dockerfile_lock_worker_plugins_and_supplies(case: Case, plugin: TinyPlugin) -> None:
    case.ensure(plugin.backend())
    assert case.client.contexts == [{"Dockerfile", "docker", "harness", "plugins", "stack.lock"}]


def test_a_build_is_given_the_backends_own_dockerfile_where_it_has_one(case: Case, plugin: TinyPlugin) -> None:
    plugin.write("Dockerfile", "FROM its/own\n")
    case.ensure(plugin.backend(), plugin.backend("other", dockerfile="tiny_images:Dockerfile"))
    assert case.client.dockerfiles == [DOCKERFILE.read_text(), "FROM its/own\n"]


def test_a_build_has_no_network_and_no_index(plugin: TinyPlugin) -> None:
    command = build_command(Path("context"), spec_of(plugin.backend(), "cpu"), BASE, {"a": "b c"})
    assert {
        "--network=none",
        "--build-arg=PIP_NO_INDEX=1",
        "--label=a=b c",
        "--tag=backend-harness/tiny_images:cpu",
    } <= {*command}


def test_a_gpu_image_is_built_from_its_own_lock_under_its_own_tag(case: Case, plugin: TinyPlugin) -> None:
    (image,) = case.ensure(plugin.backend(), device="cuda")
    assert (image.tag, image.device) == ("backend-harness/tiny_images:cuda", "cuda")
    assert "--build-arg=DEVICE=cuda" in case.client.asked[-1]


def test_what_buildkit_does_is_told_in_few_words(monkeypatch: pytest.MonkeyPatch, plugin: TinyPlugin) -> None:
    case = Case(monkeypatch, build=Outcome(0, tuple(LOG)))
    case.ensure(plugin.backend())
    told = [line for line in case.progress if line.startswith("tiny_images: ")]
    assert told == [
        "tiny_images: installing the stack",
        "tiny_images: installing 3 packages",
        "tiny_images: compiling worker and plugin",
        "tiny_images: writing the image",
    ]


def test_debian_packages_are_told_of_where_there_are_any(monkeypatch: pytest.MonkeyPatch, plugin: TinyPlugin) -> None:
    case = Case(monkeypatch, build=Outcome(0, tuple(LOG)))
    monkeypatch.setattr(supplies, "_fetch_debs", lambda *_: None)
    case.ensure(plugin.backend(system_packages=("tree",)))
    assert "tiny_images: installing Debian packages" in case.progress


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("#9 3.1 OSError: [Errno 28] No space left on device", "the engine's disk is full: `docker system prune`"),
        ("ERROR: failed to solve: it broke", "`docker build`: ERROR: failed to solve: it broke"),
    ],
)
def test_a_build_that_fails_gives_cause_and_last_lines(
    monkeypatch: pytest.MonkeyPatch, plugin: TinyPlugin, said: str, cause: str
) -> None:
    case = Case(monkeypatch, build=Outcome(1, ("#9 1.0 all is well", "------", said)))
    with pytest.raises(HarnessError) as caught:
        case.ensure(plugin.backend())
    first, *shown = str(caught.value).split("\n")
    assert cause in first
    assert shown[0] == "  all is well"
    assert len(shown) == 2


def test_an_image_that_is_not_what_was_built_is_not_taken(
    case: Case, plugin: TinyPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_find", lambda spec, _engine: Stale(spec.tag, "sha256:x", "of something"))
    with pytest.raises(HarnessError, match="the engine does not have it as it was built"):
        case.ensure(plugin.backend())


def test_without_buildkit_nothing_can_be_built_and_that_is_the_obstacle(commands: Callable[[int], Commands]) -> None:
    commands(1)
    told = obstacle(cast(Engine, Images()), unheard)
    assert told is not None
    assert "there is no command `docker`" in told


def test_with_buildkit_and_a_base_there_is_no_obstacle(commands: Callable[[int], Commands]) -> None:
    commands(1).write(BUILDKIT + f"echo '{probed().lines[-1]}'\n")
    images = Images()
    images.add(BASE.name, BASE.id)
    assert obstacle(cast(Engine, images), unheard) is None


def test_a_client_is_what_the_double_stands_in_for() -> None:
    assert Client.run.__annotations__.keys() == Spoken.run.__annotations__.keys()
