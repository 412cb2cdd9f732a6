"""Commands in threads, and with a backend of JAX that fails: one line that names the variable."""

import os
import pickle
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import pytest
from test_programs import TRAIN

import popsim
from popsim.cli import main
from popsim.cli._messages import backend_complaint

COMMANDS = {
    "train": [*TRAIN, "--out", "run"],
    "show-task": ["show-task", "center-out"],
    "sweep": ["sweep", "center-out", "--seeds", "0:2", "--n-batches", "2", "--quiet", "--out", "sweep"],
    "info": ["info", "run"],
}


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
@pytest.mark.parametrize(
    ("variable", "value", "command"),
    [
        ("JAX_PLATFORMS", "none-such", "train"),
        *(
            pytest.param(variable, value, command, marks=pytest.mark.full)
            for variable, value, commands in (
                ("JAX_PLATFORMS", "none-such", ("show-task",)),
                ("JAX_PLATFORMS", "cuda", ("train", "show-task", "sweep")),
                ("JAX_ENABLE_X64", "maybe", ("train", "show-task", "sweep", "info")),
                ("JAX_TRANSFER_GUARD", "disallow", ("train", "show-task", "sweep")),
                ("JAX_TRANSFER_GUARD", "none-such", ("train", "show-task", "sweep", "info")),
            )
            for command in commands
        ),
    ],
)
def test_a_wrong_variable_of_jax_is_named_in_one_line(variable, value, command, tmp_path):
    ran = run(tmp_path, COMMANDS[command], **{variable: value})
    assert ran.returncode in (1, 2), ran.stderr
    last = ran.stderr.strip().splitlines()[-1]
    assert "Traceback" not in ran.stderr and last.startswith("popsim: error: ")
    assert variable in last or variable.lower() in last
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.full
def test_the_lists_need_no_backend(tmp_path):
    """Not even where they import a module that makes arrays; other commands name the variable then."""
    (tmp_path / "arrays.py").write_text("import jax\nKEY = jax.random.key(0)\n")
    for command in (["list"], ["--import", "arrays", "list"], ["--import=arrays", "list"]):
        ran = run(tmp_path, command, JAX_PLATFORMS="none-such")
        assert ran.returncode == 0 and not ran.stderr and "center-out" in ran.stdout
    for platform in ("none-such", "cuda"):
        ran = run(tmp_path, ["--import", "arrays", "info", "run"], JAX_PLATFORMS=platform)
        assert ran.returncode == 2 and ran.stderr.startswith("popsim: error: JAX_PLATFORMS must name")
        assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nof all"), 1, "enough memory"),
        (jax.errors.JaxRuntimeError("INVALID_ARGUMENT: Disallowed host-to-device transfer"), 2, "GUARD"),
        (jax.errors.JaxRuntimeError("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS"), 1, "backend failed: INTERNAL"),
        (RuntimeError("a bug"), None, None),
        (AssertionError("a bug"), None, None),
    ],
)
def test_errors_of_a_backend_are_one_line(error, code, expected):
    complaint = backend_complaint(error)
    assert (complaint is None) if code is None else complaint is not None
    if complaint is not None:
        line, exit_code = complaint
        assert exit_code == code and expected in line and "\n" not in line


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


def test_an_ensemble_is_saved_without_pickle(tmp_path):
    """As docs/how_to/runs.md says, `jnp.tanh` and the like cannot be pickled; files need none of that."""

    def build(key):
        return popsim.NetworkModel(popsim.networks.LeakyRNN(1, 2, 1, tau=0.05, key=key), dt=0.01)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    with pytest.raises((pickle.PicklingError, TypeError, AttributeError)):
        pickle.dumps(jnp.tanh)
    popsim.store.save_model(tmp_path / "ensemble.safetensors", ensemble)
    template = popsim.make_ensemble(build, 2, key=jax.random.key(1))
    loaded = popsim.store.load_model(tmp_path / "ensemble.safetensors", template)
    assert (loaded.network.bias == ensemble.network.bias).all()
