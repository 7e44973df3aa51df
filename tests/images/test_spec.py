"""What an image is to be made of, and when one that is there is stale."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.cache import Entry
from harness.engine import ImageFacts
from harness.executors import sources
from harness.images.building import labels_for
from harness.images.spec import DOCKERFILE, LABEL, Image, ImageSpec, Missing, Stale, compare, spec_of, tag_of
from harness.images.supplies import Supplies
from harness.model import HarnessError
from images.doubles import BASE, TinyPlugin

BASE_FACTS = ImageFacts(BASE.id, (BASE.name,), {}, 1)


def built(spec: ImageSpec, **labels: str) -> ImageFacts:
    """The image as it is labelled when it is built, but for some labels."""
    changed = {LABEL + name: value for name, value in labels.items()}
    return ImageFacts("sha256:it", (spec.tag,), {**labels_for(spec, BASE, no_supplies()), **changed}, 1000)


def no_supplies(wheels: str = "wheels") -> Supplies:
    return Supplies(Entry(DOCKERFILE.parent, wheels, {}), None)


def test_an_image_made_of_what_the_host_has_is_current(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    found = compare(spec, built(spec), BASE_FACTS)
    assert isinstance(found, Image)
    assert (found.tag, found.id, found.size_bytes, found.seconds) == (spec.tag, "sha256:it", 1000, None)


def test_nothing_under_the_tag_is_a_missing_image(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    assert compare(spec, None, None) == Missing("backend-harness/tiny_images:cpu")


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("lock_sha256", "the stack's lock has changed"),
        ("worker_sha256", "the worker's code has changed"),
        ("plugin_sha256", "the plugin's code has changed"),
        ("dockerfile_sha256", "the Dockerfile has changed"),
        ("system_packages", "the backend's system packages have changed"),
        ("stack", "the backend has moved to another stack"),
        ("device", "it is for another device"),
        ("protocol_version", "its worker speaks version other of the protocol"),
    ],
)
def test_a_stale_image_says_what_has_changed(plugin: TinyPlugin, label: str, reason: str) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    found = compare(spec, built(spec, **{label: "other"}), BASE_FACTS)
    assert isinstance(found, Stale)
    assert found.reason.startswith(reason)


def test_every_part_of_the_content_makes_an_image_stale(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    for label in spec.content:
        assert isinstance(compare(spec, built(spec, **{label: "other"}), BASE_FACTS), Stale), label


def test_what_only_tells_more_makes_nothing_stale(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    assert isinstance(compare(spec, built(spec, harness_version="0.0.1"), BASE_FACTS), Image)


def test_a_base_that_has_moved_on_makes_an_image_stale(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    found = compare(spec, built(spec), replace(BASE_FACTS, id="sha256:newer"))
    assert isinstance(found, Stale)
    assert found.reason == "its base python:3.11-slim has changed"


def test_a_base_that_is_gone_makes_nothing_stale(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    assert isinstance(compare(spec, built(spec), None), Image)


def test_an_image_of_somebody_else_under_our_tag_is_stale(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    found = compare(spec, ImageFacts("sha256:it", (spec.tag,), {LABEL + "backend": "tiny_images"}, 1), None)
    assert found == Stale(spec.tag, "sha256:it", "it was not built by `harness build`")


def test_identity_follows_content_and_not_what_only_tells_more(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    identity = labels_for(spec, BASE, no_supplies())[LABEL + "identity"]
    told = replace(spec, about={**spec.about, "harness_version": "9"})
    assert labels_for(told, BASE, no_supplies())[LABEL + "identity"] == identity
    others = [
        labels_for(replace(spec, content={**spec.content, "lock_sha256": "other"}), BASE, no_supplies()),
        labels_for(spec, replace(BASE, id="sha256:other"), no_supplies()),
        labels_for(spec, BASE, no_supplies("other wheels")),
    ]
    assert len({identity, *(labels[LABEL + "identity"] for labels in others)}) == 4


def test_a_device_has_its_own_lock_and_tag(plugin: TinyPlugin) -> None:
    cpu, cuda = (spec_of(plugin.backend(), device) for device in ("cpu", "cuda"))
    assert (cpu.lock.name, cuda.lock.name) == ("tiny.lock", "tiny-cuda.lock")
    assert (cpu.tag, cuda.tag) == ("backend-harness/tiny_images:cpu", "backend-harness/tiny_images:cuda")
    assert cpu.content["lock_sha256"] != cuda.content["lock_sha256"]


def test_a_device_without_a_lock_of_its_own_has_the_stacks(plugin: TinyPlugin) -> None:
    backend = plugin.backend(stack=replace(plugin.stack, device_locks={}))
    assert spec_of(backend, "cuda").lock.name == "tiny.lock"


def test_a_misspelt_device_is_answered_with_the_right_one(plugin: TinyPlugin) -> None:
    with pytest.raises(HarnessError, match=r"no images for the device 'cudda'; did you mean 'cuda'\?"):
        spec_of(plugin.backend(), "cudda")


def test_versions_of_harness_and_plugins_are_labels(plugin: TinyPlugin) -> None:
    labels = labels_for(spec_of(plugin.backend(), "cpu"), BASE, no_supplies())
    assert labels["org.opencontainers.image.version"] == labels[LABEL + "harness_version"]
    assert labels[LABEL + "plugin_versions"] == '{"tiny_images": null}'
    assert labels[LABEL + "base_image"] == "python:3.11-slim"


@pytest.mark.parametrize("name", ["eager", "torch_compile", "a__b", "x1"])
def test_a_name_that_docker_takes_is_in_the_tag_as_it_is(name: str) -> None:
    assert tag_of(name, "cpu") == f"backend-harness/{name}:cpu"


@pytest.mark.parametrize("name", ["Eager", "_a", "a_", "a___b", "naïve", "_"])
def test_a_name_that_docker_refuses_gets_a_tag_that_is_nobody_elses(name: str) -> None:
    assert re.fullmatch(r"backend-harness/[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{8}:cpu", tag_of(name, "cpu"))
    assert tag_of(name, "cpu") != tag_of(name.upper() + "x", "cpu")


def test_the_dockerfile_copies_all_that_the_worker_is_made_of() -> None:
    copied = re.findall(r"^COPY ((?:harness/\S+ )+)", DOCKERFILE.read_text(), re.MULTILINE)
    sent = {path for line in copied for path in line.split()}
    assert sent == {"/".join(name.split("/")[:2]) for name in sources.worker_files()}


def test_the_dockerfile_uses_nothing_that_docker_20_10_does_not_know() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    assert not [line for line in lines if re.match(r"#\s*syntax\s*=", line)]
    assert not [line for line in lines if re.search(r"<<|--link", line) and not line.startswith("#")]


def test_a_backend_may_bring_a_dockerfile_of_its_own(plugin: TinyPlugin) -> None:
    plugin.write("Dockerfile", "FROM scratch\n")
    own, shared = (spec_of(plugin.backend(dockerfile=each), "cpu") for each in ("tiny_images:Dockerfile", None))
    assert (own.dockerfile.read_text(), shared.dockerfile) == ("FROM scratch\n", DOCKERFILE)
    assert own.content["dockerfile_sha256"] != shared.content["dockerfile_sha256"]


def test_a_dockerfile_that_is_not_there_is_told_with_what_to_do(plugin: TinyPlugin) -> None:
    with pytest.raises(HarnessError, match=r"backend tiny_images: its Dockerfile is given as 'tiny_images:None', but"):
        spec_of(plugin.backend(dockerfile="tiny_images:None"), "cpu")
