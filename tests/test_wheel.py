"""What users install: the wheel has what the harness reads beside its modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.scaffold import package_files

ROOT = Path(__file__).parents[1]
TEMPLATE = "harness/scaffold/template/"


@pytest.mark.slow
def test_the_wheel_has_the_dockerfile_itself_and_not_a_link_and_the_whole_template(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("harness", "docker"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("harness/images/Dockerfile") == (ROOT / "docker" / "Dockerfile").read_bytes()
        templates = {name.removeprefix(TEMPLATE) for name in archive.namelist() if name.startswith(TEMPLATE)}
        assert templates == set(package_files("newcomer"))
