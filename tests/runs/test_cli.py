"""The command line: every mistake is one sentence and exit code 2, and nothing is lost."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_bench import Bench

from harness.model import Status


def assert_refused(run: subprocess.CompletedProcess[str], *words: str) -> None:
    assert run.returncode == 2, (run.stdout, run.stderr)
    assert "Traceback" not in run.stderr
    message = run.stderr.strip().splitlines()
    assert len(message) == 1, run.stderr
    assert message[0].startswith("harness: ")
    assert "Value error" not in message[0]  # pydantic's
    assert "Input should" not in message[0]
    for word in words:
        assert word in message[0]


def test_no_such_matrix(bench: Bench) -> None:
    bench.write_matrix()
    assert_refused(bench.harness("run", "matrx.yaml"), "matrx.yaml", "matrix.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("matrix: [", ["matrix.yaml"]),
        ("", ["matrix.yaml", "empty"]),
        ("- a\n- b\n", ["matrix.yaml"]),
        ("matrx: {}\n", ["matrx", "matrix"]),
        ("matrix: {backend: [fakey], model: [random:bert]}\n", ["fakey", "fake"]),
        ("matrix: {backend: [fake], model: [random:bert], batch_size: [0]}\n", ["batch_size", "0"]),
        ("matrix: {backend: [fake], model: ['path:./nowhere']}\n", ["nowhere", "matrix.yaml:1"]),
    ],
)
def test_a_bad_matrix_is_refused_by_plan_and_run_before_anything_is_written(
    bench: Bench, text: str, words: list[str]
) -> None:
    (bench.folder / "matrix.yaml").write_text(text)
    assert_refused(bench.harness("plan", "matrix.yaml"), *words)
    assert_refused(bench.run(), *words)
    assert not bench.results.exists()


def test_a_matrix_that_is_not_utf_8(bench: Bench) -> None:
    (bench.folder / "matrix.yaml").write_bytes(b"name: caf\xe9\n")
    assert_refused(bench.run(), "matrix.yaml", "UTF-8")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("batchsize == 1", ["batchsize", "batch_size"]),
        ("batch_size", ["batch_size"]),
        ("backend == 'none of them'", ["leaves none of the 2 cells"]),
        ("", ["--only"]),
        ("__import__('os').system('true')", ["--only"]),
    ],
)
def test_an_only_expression_that_is_none_or_keeps_nothing(bench: Bench, expression: str, words: list[str]) -> None:
    bench.write_matrix()
    assert_refused(bench.run("--only", expression), *words)


def test_the_docker_executor_without_an_engine_says_what_to_do(bench: Bench) -> None:
    bench.write_matrix()
    bench.variables["DOCKER_HOST"] = f"unix://{bench.folder}/none.sock"
    assert_refused(bench.run("--executor", "docker"), "none.sock", "--executor venv")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "matrix.yaml", "--executor", "dockr"], ["--executor", "'dockr'", "docker", "`harness run --help`"]),
        (["run", "matrix.yaml", "--exeggutor", "docker"], ["--exeggutor", "--executor", "`harness run --help`"]),
        (["run"], ["missing argument 'MATRIX'", "`harness run --help`"]),
        (["calibrate", "--comparisons", "0"], ["--comparisons", "equal to 1"]),
        (["rnu"], ["'rnu'", "'run'", "`harness --help`"]),
    ],
)
def test_words_that_the_command_line_does_not_know_are_refused_like_any_mistake(
    bench: Bench, arguments: list[str], words: list[str]
) -> None:
    assert_refused(bench.harness(*arguments), *words)


def test_without_any_words_the_help_is_shown(bench: Bench) -> None:
    shown = bench.harness()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "check-backend" in shown.stdout


def test_a_plugin_that_cannot_be_imported_is_named(bench: Bench) -> None:
    bench.write_matrix()
    assert_refused(bench.run("-p", "no_such_plugin"), "no_such_plugin")


def test_a_results_directory_that_is_a_file(bench: Bench) -> None:
    bench.write_matrix()
    bench.results.write_text("mine")
    assert_refused(bench.run(), "results")
    assert bench.results.read_text() == "mine"


def test_a_corrupted_history_is_refused_and_left_as_it_is(bench: Bench) -> None:
    bench.write_matrix()
    bench.results.mkdir()
    content = b"this is no result\nnor is this\n"
    (bench.results / "history.jsonl").write_bytes(content)
    assert_refused(bench.run(), "history.jsonl", "1")
    assert_refused(bench.harness("export", "results"), "history.jsonl")
    assert (bench.results / "history.jsonl").read_bytes() == content


def test_a_history_of_a_newer_harness_is_refused_and_left_as_it_is(bench: Bench) -> None:
    bench.write_matrix()
    bench.results.mkdir()
    content = b'{"schema_version": 99, "key": "k"}\n'
    (bench.results / "history.jsonl").write_bytes(content)
    assert_refused(bench.run(), "history.jsonl", "99")
    assert (bench.results / "history.jsonl").read_bytes() == content


def test_an_environment_that_cannot_be_made_is_a_failed_row_with_pips_last_lines(bench: Bench) -> None:
    (bench.folder / "needy").mkdir()
    (bench.folder / "needy" / "__init__.py").write_text("")
    (bench.folder / "needy" / "needy.lock").write_text("no-such-distribution-anywhere==1.0\n")
    (bench.folder / "needy" / "plugin.py").write_text(
        "from dataclasses import replace\nfrom harness.hookspecs import hookimpl\nfrom harness.model import Stack\n"
        "from harness_fake import plugin\n"
        "@hookimpl\ndef harness_register_backends():\n"
        "    stack = Stack(name='needy', lock='needy:needy.lock', packages=('needy',))\n"
        "    return [replace(plugin.harness_register_backends()[0], name='needy', stack=stack)]\n"
    )
    bench.variables |= {
        "PYTHONPATH": f"{bench.environment()['PYTHONPATH']}:{bench.folder}",
        "PIP_NO_INDEX": "1",  # as on a machine without a network
    }
    (bench.cache / "environments").unlink()
    bench.write_matrix()
    matrix = bench.folder / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace("- fake_b", "- needy"))
    run = bench.run("-p", "needy.plugin", "--only", "backend == 'needy'")
    assert run.returncode == 1, run.stderr
    assert bench.by_backend()["needy"].status is Status.FAILED
    assert "no-such-distribution-anywhere" in run.stderr
    assert "needy.lock" in run.stderr
    assert "Traceback" not in run.stderr


def test_plan_runs_nothing_and_lists_keys_and_reasons(bench: Bench) -> None:
    bench.write_matrix(sequence_length=[4, 17])
    text = bench.harness("plan", "matrix.yaml")
    assert text.returncode == 0
    assert "sequence_length 17: the model has positions for 16 tokens" in " ".join(text.stdout.split())
    listed = json.loads(bench.harness("plan", "matrix.yaml", "--format", "json").stdout)
    assert [cell["status"] for cell in listed] == ["run", "run", "unsupported", "unsupported"]
    assert len({cell["key"] for cell in listed}) == 4
    assert not bench.results.exists()


def test_the_csv_export_has_empty_fields_where_nothing_is_known(bench: Bench) -> None:
    bench.write_matrix(fake_b={"fail_in": "load"}, protocol={"blocks": 1})
    assert bench.run().returncode == 1
    exported = bench.harness("export", "results", "--format", "csv")
    rows = {row["backend"]: row for row in csv.DictReader(io.StringIO(exported.stdout))}
    assert rows["fake_b"]["status"] == "failed"
    assert rows["fake_b"]["error_stage"] == "load"
    assert rows["fake_b"]["median_latency_s"] == ""
    assert float(rows["fake"]["median_latency_s"]) > 0
    assert rows["fake"]["compile_s"] == ""


def test_a_report_of_a_folder_without_results_is_refused(bench: Bench) -> None:
    assert_refused(bench.harness("report", "."), "history.jsonl")


def test_report_prints_the_table_of_the_run(bench: Bench) -> None:
    bench.write_matrix()
    run = bench.run()
    report = bench.harness("report", "results")
    assert report.returncode == 0
    assert run.stdout.startswith(report.stdout)


def test_an_export_whose_reader_goes_away_is_no_traceback(bench: Bench) -> None:
    bench.write_matrix(batch_size=[1, 2, 3], protocol={"blocks": 1})
    assert bench.run().returncode == 0
    process = subprocess.Popen(
        bench.command("export", "results", "--format", "jsonl"),
        cwd=bench.folder,
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=60)
    assert b"Traceback" not in stderr


def test_a_polite_end_from_outside_is_an_interruption(bench: Bench) -> None:
    bench.write_matrix(fake={"call_ms": 5.0}, protocol={"round_calls": 1000, "blocks": 1})
    process = subprocess.Popen(
        bench.command("run", "matrix.yaml"),
        cwd=bench.folder,
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "block 1" in line:
            break
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr


INTERRUPTED_HERE = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"


def test_ctrl_c_while_the_command_is_still_imported_ends_it_without_a_word(bench: Bench) -> None:
    (bench.folder / "typer.py").write_text(INTERRUPTED_HERE)  # what it imports, and is interrupted in
    bench.variables["PYTHONPATH"] = str(bench.folder)
    command = bench.command("backends")
    run = subprocess.run(command, env=bench.environment(), capture_output=True, timeout=60, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGINT, b"", b"")


def test_ctrl_c_before_anything_has_begun_is_one_word(bench: Bench) -> None:
    (bench.folder / "slow_plugin.py").write_text(INTERRUPTED_HERE)
    bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{bench.folder}"
    run = bench.harness("backends", "-p", "slow_plugin")
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "harness: interrupted\n")


def test_two_runs_at_once_into_one_folder_keep_all_results(bench: Bench) -> None:
    bench.write_matrix()
    command = bench.command("run", "matrix.yaml", "--fresh")
    runs = [
        subprocess.Popen(command, cwd=bench.folder, env=bench.environment(), stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [run.wait(120) for run in runs] == [0, 0]
    assert len(bench.history()) == 4


def test_odd_names_of_folders_and_models_work(bench: Bench) -> None:
    odd = bench.folder / "mödel with spaces [1] 100%"
    (bench.folder / "model").rename(odd)
    bench.write_matrix(protocol={"blocks": 1})
    matrix = bench.folder / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace(f"path:{bench.folder}/model", f"'path:{odd}'"))
    run = bench.harness("run", "matrix.yaml", "--results", "résults & more")
    assert run.returncode == 0, run.stderr
    assert bench.harness("export", "résults & more").returncode == 0


def test_the_host_imports_without_any_framework(tmp_path: Path) -> None:
    blocked = ("torch", "jax", "flax", "transformers", "onnxruntime", "optimum", "tensorflow")
    script = (
        "import sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        "import harness.cli, harness.plugins\n"
        "assert 'eager' in harness.plugins.load().backends\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stderr


def test_help_of_every_command_reads_at_80_columns(bench: Bench) -> None:
    bench.variables["COLUMNS"] = "80"
    for command in ([], ["run"], ["plan"], ["report"], ["export"], ["results"], ["merge"], ["backends"], ["doctor"]):
        shown = bench.harness(*command, "--help")
        assert shown.returncode == 0
        assert max(map(len, shown.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("results", "results", "--limit", "-1"), ("'--limit'", "it must be greater than or equal to 0;")),
        (("results", "results", "--limit", "few"), ("'--limit'", "it must be a valid integer;")),
        (("calibrate", "--budget", "0"), ("'--budget'", "it must be greater than or equal to 1;")),
    ],
)
def test_a_number_that_an_option_cannot_take_is_refused_with_what_it_takes(
    bench: Bench, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(bench.harness(*arguments), *words)
