"""What is dear to make is made once, whole, and stays as it was made."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import cache
from harness.model import HarnessError


class Maker:
    """Writes one file, and counts how often it had to."""

    def __init__(self, text: str = "whole") -> None:
        self.text = text
        self.calls = 0

    def __call__(self, folder: Path) -> dict[str, str]:
        self.calls += 1
        (folder / "file.txt").write_text(self.text)
        return {"text": self.text}


@pytest.fixture
def said() -> list[str]:
    return []


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- places ---------------------------------------------------------------------------------------------------------


def test_the_variable_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "elsewhere"))
    assert cache.room("inputs") == tmp_path / "elsewhere" / "inputs"


def test_the_folder_named_may_be_relative_or_begin_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("HARNESS_CACHE", "kept")
    assert cache.home() == tmp_path / "kept"
    monkeypatch.setenv("HARNESS_CACHE", "~/kept")
    assert cache.home() == tmp_path / "me" / "kept"


@pytest.mark.parametrize("unset", [None, ""])
def test_without_the_variable_it_is_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unset: str | None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HARNESS_CACHE", raising=False)
    if unset is not None:
        monkeypatch.setenv("HARNESS_CACHE", unset)
    assert cache.home() == tmp_path / "backend-harness"


ODD_NAMES = ["", ".", "..", "../../etc", "a/b", "a\\b", "a\0b", "ü" * 500, "two words", "\udc80", "-rf", "CON"]


def test_any_text_gives_a_short_plain_name_of_its_own() -> None:
    names = [cache.safe_name(text) for text in ODD_NAMES]
    assert len(set(names)) == len(ODD_NAMES)
    for name in names:
        assert len(name) < 90
        assert name.isascii()
        assert name[0] not in ".-"
        assert not set(name) & set("/\\\0 ")


# --- entries --------------------------------------------------------------------------------------------------------


def test_an_entry_is_made_once_and_found_again_with_its_facts(tmp_path: Path, said: list[str]) -> None:
    maker = Maker()
    first = cache.keep(tmp_path / "room" / "entry", maker, said.append)
    second = cache.keep(tmp_path / "room" / "entry", maker, said.append)
    assert maker.calls == 1
    assert first == second
    assert (second.folder / "file.txt").read_text() == "whole"
    assert second.facts == {"text": "whole"}
    assert said == []


def test_the_digest_is_of_names_and_bytes_and_not_of_the_place(tmp_path: Path, said: list[str]) -> None:
    here = cache.keep(tmp_path / "here", Maker("a"), said.append)
    there = cache.keep(tmp_path / "there", Maker("a"), said.append)
    other = cache.keep(tmp_path / "other", Maker("b"), said.append)
    assert here.sha256 == there.sha256 != other.sha256


def test_an_entry_is_read_only(tmp_path: Path, said: list[str]) -> None:
    entry = cache.keep(tmp_path / "entry", Maker(), said.append)
    assert mode_of(entry.folder) == 0o555
    assert mode_of(entry.folder / "file.txt") == 0o444


def test_a_hard_link_leaves_the_mode_of_the_users_own_file_alone(tmp_path: Path, said: list[str]) -> None:
    own = tmp_path / "own.txt"
    own.write_text("mine")
    own.chmod(0o640)

    def link(folder: Path) -> dict[str, str]:
        os.link(own, folder / "linked.txt")
        return {}

    cache.keep(tmp_path / "entry", link, said.append)
    assert mode_of(own) == 0o640


def test_a_failed_making_leaves_nothing_and_may_be_tried_again(tmp_path: Path, said: list[str]) -> None:
    def fail(folder: Path) -> dict[str, str]:
        (folder / "half.txt").write_text("half")
        raise HarnessError("no such thing")

    with pytest.raises(HarnessError, match="no such thing"):
        cache.keep(tmp_path / "entry", fail, said.append)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    assert cache.keep(tmp_path / "entry", Maker(), said.append).facts == {"text": "whole"}


def test_what_a_killed_process_left_is_never_taken_for_whole(tmp_path: Path, said: list[str]) -> None:
    killed = "import os, signal; from pathlib import Path; from harness import cache\n"
    killed += "def make(folder):\n (folder / 'half.txt').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    killed += f"cache.keep(Path({str(tmp_path / 'entry')!r}), make, print)"
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    entry = cache.keep(tmp_path / "entry", Maker(), said.append)
    assert [path.name for path in entry.folder.iterdir()] == ["file.txt"]


def shorten(content: Path) -> None:
    """As a crash may, times and all."""
    status = (content / "file.txt").stat()
    (content / "file.txt").write_text("wh")
    os.utime(content / "file.txt", ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(content: Path) -> None:
    (content / "file.txt").write_text("WHOLE")
    os.utime(content / "file.txt", (0, 0))


def lose(content: Path) -> None:
    (content / "file.txt").unlink()


def add(content: Path) -> None:
    (content / "another.txt").write_text("")


def lose_manifest(content: Path) -> None:
    (content.parent / "manifest.json").unlink()


def spoil_manifest(content: Path) -> None:
    (content.parent / "manifest.json").write_text("{")


def age_manifest(content: Path) -> None:
    manifest = json.loads((content.parent / "manifest.json").read_text())
    (content.parent / "manifest.json").write_text(json.dumps({**manifest, "schema_version": 2}))


@pytest.mark.parametrize("damage", [shorten, replace, lose, add, lose_manifest, spoil_manifest, age_manifest])
def test_what_is_not_as_it_was_made_is_made_anew_and_told(
    tmp_path: Path, said: list[str], damage: Callable[[Path], None]
) -> None:
    maker = Maker()
    entry = cache.keep(tmp_path / "entry", maker, said.append)
    entry.folder.chmod(0o755)
    for path in entry.folder.iterdir():
        path.chmod(0o644)
    damage(entry.folder)
    again = cache.keep(tmp_path / "entry", maker, said.append)
    assert maker.calls == 2
    assert again == entry
    assert said == ["entry is not as it was made: making it anew"]


def test_a_copied_cache_with_new_times_is_still_whole(tmp_path: Path, said: list[str]) -> None:
    maker = Maker()
    entry = cache.keep(tmp_path / "entry", maker, said.append)
    os.utime(entry.folder / "file.txt", (0, 0))
    assert cache.keep(tmp_path / "entry", maker, said.append) == entry
    assert maker.calls == 1


def test_two_processes_that_want_one_entry_make_it_once(tmp_path: Path) -> None:
    script = "import time; from pathlib import Path; from harness import cache\n"
    script += f"log = Path({str(tmp_path / 'log')!r})\n"
    script += "def make(folder):\n log.open('a').write('made\\n'); time.sleep(0.5); return {}\n"
    script += f"cache.keep(Path({str(tmp_path / 'entry')!r}), make, lambda text: print(text, flush=True))"
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "made\n"
    assert any("waiting for another harness that is making entry" in text for text in said)


def test_an_entry_is_found_where_nothing_can_be_written(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = cache.keep(tmp_path / "entry", Maker(), said.append)

    def refuse(*_: object) -> None:
        raise AssertionError("a lock was asked for")

    monkeypatch.setattr(cache, "FileLock", refuse)  # as root, no mode refuses
    assert cache.keep(tmp_path / "entry", Maker(), said.append) == entry


# --- what the disk refuses ------------------------------------------------------------------------------------------


def test_a_full_disk_says_so_and_how_to_go_on(tmp_path: Path, said: list[str]) -> None:
    def fill(folder: Path) -> dict[str, str]:
        (folder / "full").symlink_to("/dev/full")
        (folder / "full").write_text("more")
        return {}

    with pytest.raises(HarnessError, match=r"No space left on device.*free some space, or set HARNESS_CACHE"):
        cache.keep(tmp_path / "entry", fill, said.append)
    assert not (tmp_path / "entry").exists()


def test_a_cache_that_is_a_file_is_an_error_of_the_user(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match=r"cannot keep entry in .*HARNESS_CACHE"):
        cache.keep(tmp_path / "file" / "entry", Maker(), said.append)


def test_a_read_only_folder_can_be_removed(tmp_path: Path, said: list[str]) -> None:
    cache.keep(tmp_path / "entry", Maker(), said.append)
    cache.remove(tmp_path / "entry")
    cache.remove(tmp_path / "entry")
    assert not (tmp_path / "entry").exists()
