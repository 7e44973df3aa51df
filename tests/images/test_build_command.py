"""`harness build`: what it answers where there is nothing to build with, and where there is nothing to build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import cli
from harness.engine import Engine, EngineLostError, ImageFacts
from harness.executors.containers import Cleaned
from harness.images import Image
from images.doubles import TinyPlugin


def build(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["harness", "build", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.fixture
def registered(plugin: TinyPlugin) -> TinyPlugin:
    """The tiny plugin as `--plugin tiny_images.plugin` finds it: two backends, one of which is no default."""
    plugin.write(
        "plugin.py",
        "from harness.hookspecs import hookimpl\n"
        "from harness.model import Backend, Stack\n"
        f"STACK = Stack({plugin.stack.name!r}, {plugin.stack.lock!r}, {plugin.stack.packages!r})\n"
        "@hookimpl\n"
        "def harness_register_backends():\n"
        "    yield Backend('tiny_a', STACK, 'm:R', '')\n"
        "    yield Backend('tiny_b', STACK, 'm:R', '', by_default=False)\n",
    )
    return plugin


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str, dict[str, object]]]:
    """What `images.ensure` was asked for, in place of building it."""
    calls: list[tuple[list[str], str, dict[str, object]]] = []

    def ensure(backends: list[object], device: str, *_: object, **options: object) -> list[Image]:
        names = [backend.name for backend in backends]  # type: ignore[attr-defined]
        calls.append((names, device, {name: value for name, value in options.items() if name != "note"}))
        return [
            Image(name, device, f"backend-harness/{name}:{device}", "sha256:x", {}, 10**9, (), 1.5) for name in names
        ]

    monkeypatch.setattr("harness.images.ensure", ensure)
    monkeypatch.setattr(Engine, "connect", lambda: None)
    return calls


@pytest.mark.usefixtures("registered")
def test_an_unknown_backend_is_answered_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(monkeypatch, "--plugin", "tiny_images.plugin", "tiny_aa") == cli.BAD_INPUT
    assert "there is no backend 'tiny_aa'; did you mean 'tiny_a'?" in capsys.readouterr().err


def test_without_an_engine_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def connect() -> Engine:
        raise EngineLostError(f"no Docker engine answers at unix://{tmp_path}/none.sock")

    monkeypatch.setattr(Engine, "connect", connect)
    assert build(monkeypatch) == cli.BAD_INPUT
    error = capsys.readouterr().err
    assert "no Docker engine answers" in error
    assert "Traceback" not in error


@pytest.mark.usefixtures("registered")
def test_without_names_the_backends_are_those_of_a_matrix_without(
    monkeypatch: pytest.MonkeyPatch, asked: list[tuple[list[str], str, dict[str, object]]]
) -> None:
    assert build(monkeypatch, "--plugin", "tiny_images.plugin") == cli.OK
    ((names, device, options),) = asked
    assert "tiny_a" in names
    assert "tiny_b" not in names
    assert (device, options) == ("cpu", {"offline": False, "local_base": False})


@pytest.mark.usefixtures("registered")
def test_names_and_options_reach_the_build_and_a_table_comes_out(
    monkeypatch: pytest.MonkeyPatch,
    asked: list[tuple[list[str], str, dict[str, object]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--device", "cuda", "--offline", "--local-base", "--plugin", "tiny_images.plugin"]
    assert build(monkeypatch, "tiny_b", "tiny_b", *options) == cli.OK
    assert asked == [(["tiny_b"], "cuda", {"offline": True, "local_base": True})]
    assert "backend-harness/tiny_b:cuda" in capsys.readouterr().out


def test_clean_counts_the_images_that_newer_ones_have_replaced_and_says_what_removes_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = ImageFacts("sha256:old", (), {}, 1000)
    monkeypatch.setattr(Engine, "connect", lambda: None)
    monkeypatch.setattr("harness.executors.containers.clean", lambda *_, **__: Cleaned((), ()))
    monkeypatch.setattr("harness.images.replaced", lambda _: [left, left])
    monkeypatch.setattr(sys, "argv", ["harness", "clean"])
    with pytest.raises(SystemExit):
        cli.main()
    removed, kept = capsys.readouterr().out.splitlines()
    assert removed == "removed: none"
    assert "2 image(s) that newer ones have replaced" in kept
    assert "`docker image prune --filter label=org.backend-harness.backend`" in kept
