"""Trainings that do not fit into memory: refused before anything is made, or nothing is left of them."""

import dataclasses

import jax
import pytest
import reported_runs  # noqa: F401, which registers it

from popsim.cli import main
from popsim.experiments import CenterOut, run_experiment, run_options
from popsim.training.loop.batch_loop import BatchLoop

TOO_LARGE = {"batch_size": 2_000_000_000, "n_units": 3_000_000, "duration": 1e7, "n_members": 1_000_000}


@pytest.mark.filterwarnings("ignore:`duration` is in s")
@pytest.mark.parametrize("name", TOO_LARGE)
def test_settings_that_do_not_fit_are_refused_before_anything_is_made(name, tmp_path):
    experiment = dataclasses.replace(CenterOut(plant="point-mass"), **{name: TOO_LARGE[name]})
    with pytest.raises(ValueError, match="must fit into the .* GB of memory"):
        run_experiment(experiment, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_parts_of_a_batch_and_small_trainings_are_not_refused(monkeypatch):
    """The bytes of a batch are those of one part of it, of as many members as are trained at a time."""
    monkeypatch.setattr(run_options, "memory_of_machine", lambda: 2_000_000)
    experiment = CenterOut(plant="point-mass", n_units=4, duration=0.1, batch_size=64, n_members=40)
    run_options.check_size(experiment)
    with pytest.raises(ValueError, match="its batch of 64 trials of 40 members would take"):
        run_options.check_size(experiment, experiment.build_trainer(member_batch_size=40))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8000000000 bytes."),
        MemoryError("std::bad_alloc"),
    ],
)
@pytest.mark.parametrize("n_calls", [0, 1])
def test_memory_that_ends_in_the_first_batch_leaves_nothing(error, n_calls, tmp_path, monkeypatch, capsys):
    """After a call of the loop there is something to keep, and the message says how to resume it."""
    path, calls, whole = tmp_path / "run", [], BatchLoop.__call__

    def fail(self, *arguments):
        calls.append(arguments)
        if len(calls) > n_calls:
            raise error
        return whole(self, *arguments)

    settings = "--members 2 --n-batches 4 --batch-size 4 --log-step 2 --quiet"
    command = ["train", "reported", *settings.split(), "--out", str(path)]
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(BatchLoop, "__call__", fail)
        main(command)
    said = capsys.readouterr().err
    assert end.value.code == 1 and said.count("\n") == 1 and said.startswith("popsim: error: ")
    if n_calls:
        assert "resume" in said
        main(["resume", str(path), "--quiet"])
    else:
        assert "resume" not in said and "can be used again" in said
        main(command)
    assert (path / "summary.json").exists()
