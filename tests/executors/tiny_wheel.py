"""Makes a wheel without a build backend. Standard library only: a source distribution of the tests uses it too."""

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel of one module `name` with a `VERSION`."""
    information = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{information}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{information}/RECORD": record}.items():
            wheel.writestr(path, text)
