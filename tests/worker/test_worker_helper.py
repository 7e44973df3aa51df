"""A helper's process, seen from the runner; a few lines of Python stand in for a framework."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from harness.worker.api import Unsupported
from harness.worker.helper import Helper, HelperError

SERVING = """
import os
from harness.worker.api import Unsupported
from harness.worker.helper import serve

def double(number):
    os.write(1, b"a library prints\\n")
    return {"doubled": 2 * number}

def refuse():
    raise Unsupported("there is no operator for it")

def fail():
    raise ValueError("no such model")

if __name__ == "__main__":
    serve({"double": double, "refuse": refuse, "fail": fail, "nothing": lambda: None})
"""


@pytest.fixture(scope="module")
def helper() -> Iterator[Helper]:
    helper = Helper("-c", SERVING)
    yield helper
    helper.close()


def test_a_step_goes_there_and_its_answer_comes_back_whatever_else_is_printed(helper: Helper) -> None:
    assert [helper.ask("double", number=number) for number in (2, 4)] == [{"doubled": 4}, {"doubled": 8}]
    assert helper.ask("nothing") == {}


def test_why_a_step_cannot_be_done_is_unsupported_here_too(helper: Helper) -> None:
    with pytest.raises(Unsupported, match=r"^there is no operator for it$"):
        helper.ask("refuse")


def test_what_a_step_raises_is_raised_here_with_its_traceback_and_the_helper_goes_on(helper: Helper) -> None:
    with pytest.raises(HelperError, match=r"(?s)^ValueError: no such model\n.*in fail"):
        helper.ask("fail")
    assert helper.ask("double", number=1) == {"doubled": 2}


def test_a_step_that_there_is_not_is_named(helper: Helper) -> None:
    with pytest.raises(HelperError, match=r"^KeyError: 'halve'"):
        helper.ask("halve")


def test_closing_ends_the_process_and_may_be_done_again() -> None:
    helper = Helper("-c", SERVING)
    helper.close()
    helper.close()
    assert helper._process.returncode == 0


@pytest.mark.parametrize("said_before", ["", "{}"])
def test_an_exit_without_an_answer_is_an_error_that_tells_the_code(said_before: str) -> None:
    with pytest.raises(HelperError, match="exited with code 3"):
        Helper("-c", f"print('{said_before}') if '{said_before}' else None; raise SystemExit(3)").ask("export")


def test_the_runner_dies_of_what_killed_its_helper() -> None:
    script = """
        from harness.worker.helper import Helper
        Helper("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    """
    done = subprocess.run([sys.executable, "-I", "-c", textwrap.dedent(script)], check=False, timeout=30)
    assert done.returncode == -9
