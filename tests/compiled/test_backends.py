"""Commands in threads, and with a backend of JAX that fails: one line that names the variable."""

import os
import subprocess
import sys
import threading

import jax
import pytest
from short_form import every_nth_row
from test_programs import TRAIN

from popsim.cli import main
from popsim.cli._main import backend_complaint

COMMANDS = {
    "train": [*TRAIN, "--out", "run"],
    "show-task": ["show-task", "center-out"],
    "sweep": ["sweep", "center-out", "--seeds", "0:2", "--n-batches", "2", "--quiet", "--out", "sweep"],
}
WRONG = [
    ("JAX_PLATFORMS", "none-such", "train"),
    ("JAX_PLATFORMS", "cuda", "sweep"),
    ("JAX_ENABLE_X64", "maybe", "show-task"),
    ("JAX_TRANSFER_GUARD", "disallow", "train"),
]


def run(tmp_path, command, **variables):
    ours = {"JAX_ENABLE_COMPILATION_CACHE": "false", **variables}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return subprocess.run(
        [sys.executable, "-m", "popsim.cli", *command],
        env=environment | ours,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("variable", "value", "command"), every_nth_row(WRONG, 4))
def test_a_wrong_variable_of_jax_is_named_in_one_line(variable, value, command, tmp_path):
    ran = run(tmp_path, COMMANDS[command], **{variable: value})
    assert ran.returncode in (1, 2), ran.stderr
    last = ran.stderr.strip().splitlines()[-1]
    assert "Traceback" not in ran.stderr and last.startswith("popsim: error: ")
    assert variable in last or variable.lower() in last
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory\nof all", 1, "enough memory"),
        ("INVALID_ARGUMENT: Disallowed host-to-device transfer", 2, "GUARD"),
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS", 1, "backend failed: INTERNAL"),
    ],
)
def test_errors_of_a_backend_are_one_line(error, code, expected):
    line, exit_code = backend_complaint(jax.errors.JaxRuntimeError(error))
    assert exit_code == code and expected in line and "\n" not in line
    assert backend_complaint(RuntimeError(error)) is None


@pytest.mark.slow
@pytest.mark.full
def test_a_command_runs_in_a_thread(tmp_path, capsys):
    failures = []

    def train():
        try:
            main([*TRAIN, "--out", str(tmp_path / "run")])
            main(["resume", str(tmp_path / "run"), "--quiet"])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert not failures and (tmp_path / "run" / "summary.json").exists()
    assert "the run was finished before" in capsys.readouterr().out
