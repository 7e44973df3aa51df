"""Bad plugins beside good ones: each is one sentence with plugin, distribution and version, and the good ones go on."""

from __future__ import annotations

import json

import pytest
from run_bench import Bench

from harness.model import Status

PRELUDE = """\
from dataclasses import replace
from harness.hookspecs import hookimpl
from harness_fake import plugin as fake

FAKE = list(fake.harness_register_backends())[0]
"""


def register(*backends: str) -> str:
    return f"{PRELUDE}\n@hookimpl\ndef harness_register_backends():\n    return [{', '.join(backends)}]\n"


@pytest.fixture
def site(bench: Bench) -> Site:
    return Site(bench)


class Site:
    """Where plugins are installed for a bench: a module each, and the metadata of its distribution."""

    def __init__(self, bench: Bench) -> None:
        self.folder = bench.folder / "site"
        self.folder.mkdir()
        bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{self.folder}"

    def install(self, name: str, body: str) -> str:
        """Returns what messages call it."""
        (self.folder / f"bad_{name}.py").write_text(body)
        info = self.folder / f"harness_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: harness-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[harness]\n{name} = bad_{name}\n")
        return f"plugin {name!r} (harness-{name} 1.0)"


BROKEN = {
    "absent": "import no_such_framework\n",
    "misspelt": f"{register('FAKE')}\n@hookimpl\ndef harness_evnt(event): ...\n",
    "raising": f"{PRELUDE}\n@hookimpl\ndef harness_register_backends():\n    1 / 0\n",
    "twice_a": register("replace(FAKE, name='twice')"),
    "twice_b": register("replace(FAKE, name='twice')"),
    "outdated": register("replace(FAKE, name='outdated', runner_version=0)"),
    "selecting": f"{PRELUDE}\n@hookimpl\ndef harness_select_cells(cells):\n    1 / 0\n",
    "feeling": f"{PRELUDE}\n@hookimpl\ndef harness_environment():\n    1 / 0\n",
}

WHY = {
    "absent": "cannot be imported (ModuleNotFoundError: No module named 'no_such_framework')",
    "misspelt": "there is no hook 'harness_evnt'; did you mean 'harness_event'?",
    "raising": "harness_register_backends raised ZeroDivisionError",
    "twice_a": "and plugin 'twice_b' (harness-twice_b 1.0) both offer a backend 'twice'",
    "outdated": "is written for version 0 of harness.worker.api",
    "selecting": "harness_select_cells raised ZeroDivisionError: division by zero; its selection is left out",
    "feeling": "harness_environment raised ZeroDivisionError: division by zero; its facts are left out",
}


def test_broken_plugins_are_each_a_sentence_and_the_others_are_measured(bench: Bench, site: Site) -> None:
    names = {name: site.install(name, body) for name, body in BROKEN.items()}
    bench.write_matrix(protocol={"blocks": 1})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert {result.status for result in bench.by_backend().values()} == {Status.OK}
    warnings = [line for line in run.stderr.splitlines() if "warning: " in line]
    assert len(warnings) == len(WHY)
    for name, why in WHY.items():
        (warning,) = [line for line in warnings if names[name] in line and why in line]
        assert warning.startswith("harness: warning: plugin")
    assert "Traceback" not in run.stderr
    _listed_and_refused(bench)


def _listed_and_refused(bench: Bench) -> None:
    listed = json.loads(bench.harness("backends", "--format", "json").stdout)
    broken = {each["plugin"]["distribution"]: each for each in listed if each["broken"]}
    assert broken["harness-outdated"]["name"] == "outdated"
    assert broken["harness-absent"]["name"] is None
    assert "fake" in [each["name"] for each in listed if not each["broken"]]
    table = " ".join(bench.harness("backends").stdout.split())
    assert "broken why" in table
    doctor = bench.harness("doctor", "--format", "json").stdout
    assert "harness-outdated 1.0" in json.dumps(json.loads(doctor)["checks"])
    for name in ("outdated", "twice", "absent"):
        _refused(bench, name)


def _refused(bench: Bench, name: str) -> None:
    """In a matrix and on the command line, with one line more than the warnings."""
    path = bench.folder / "asking.yaml"
    path.write_text(f"defaults: {{model: 'path:{bench.folder / 'model'}'}}\nmatrix: {{backend: [fake, {name}]}}\n")
    for arguments in (["plan", "asking.yaml"], ["backends", name]):
        done = bench.harness(*arguments)
        assert done.returncode == 2
        last = done.stderr.splitlines()[-1]
        assert "which cannot be used: plugin" in last or f"the backend {name!r} cannot be used: plugin" in last


def test_what_only_shows_in_a_run_is_a_failed_row_that_names_the_plugin(bench: Bench, site: Site) -> None:
    mute = "replace(FAKE, name='mute', runner='harness_fake.incomplete:Mute')"
    misnamed = "replace(FAKE, name='misnamed', runner='harness_fake.runner:Nobody')"
    homeless = "replace(FAKE, name='homeless', stack=replace(FAKE.stack, name='homeless', lock='harness_fake:no.lock'))"
    moody = "replace(FAKE, name='moody', supports=lambda cell, config: 1 / 0)"
    called = {name: site.install(name, register(body)) for name, body in _named(mute, misnamed, homeless, moody)}
    path = bench.write_matrix(protocol={"blocks": 1})
    more = "".join(f"  - {name}\n" for name in called)
    path.write_text(path.read_text().replace("  - fake\n", f"  - fake\n{more}", 1))
    run = bench.run()
    assert run.returncode == 1, run.stderr
    found = bench.by_backend()
    assert (found["fake"].status, found["fake_b"].status) == (Status.OK, Status.OK)
    said = {name: found[name].metadata.reason or str(found[name].metadata.error) for name in called}
    assert {found[name].status for name in called} == {Status.FAILED}
    for name, why in {
        "mute": "Mute is no Runner: it lacks",
        "misnamed": "module harness_fake.runner has no class 'Nobody'",
        "homeless": "its stack cannot be made: stack homeless: its lock is given as 'harness_fake:no.lock'",
        "moody": "supports() of the backend 'moody' raised ZeroDivisionError",
    }.items():
        assert called[name] in said[name]
        assert why in said[name]


def _named(*backends: str) -> list[tuple[str, str]]:
    return [(backend.split("name='")[1].split("'")[0], backend) for backend in backends]
