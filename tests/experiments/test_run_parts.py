"""Parts of two runs mixed, parts that are lost, and parts in the place of others: all are said by name."""

import shutil
import warnings

import pytest
from kept_runs import finished_run
from short_form import every_nth
from small_training import OPTIMIZER, train

from popsim.experiments import open_run, resume_run, verify_run
from popsim.store import open_arrays, read_sealed_json, write_sealed_json
from popsim.store.identity import RUN_ID
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path_factory, tmp_path):
    """A copy of a finished run, to be spoilt."""
    return shutil.copytree(finished_run(tmp_path_factory), tmp_path / "run")


def lose(name, run, other):
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def copy(name, run, other):
    """Put a part of a run that differs in nothing but the seed in the place of the own one."""
    lose(name, run, other)
    (shutil.copytree if (other / name).is_dir() else shutil.copy)(other / name, run / name)


def swap(names, run, other):
    one, two = (run / name for name in names)
    one.rename(run / "kept")
    two.rename(one)
    (run / "kept").rename(two)


def change_log(change, run, other):
    own, others = ((folder / "log.jsonl").read_text().splitlines() for folder in (run, other))
    (run / "log.jsonl").write_text("\n".join(change(own, others)) + "\n")


CHUNK = "history.zarr/loss/c.0.0.0"
FOURTH, LAST = (f"checkpoints/00000000{n}.safetensors" for n in (4, 8))
CASES = {
    "all checkpoints": (copy, "checkpoints", "checkpoints/00000000"),
    "an older checkpoint": (copy, FOURTH, "checkpoints/000000004"),
    "the history": (copy, "history.zarr", "history.zarr/zarr.json"),
    "a chunk of losses": (copy, CHUNK, CHUNK),
    "the log": (copy, "log.jsonl", "log.jsonl"),
    "a line of the log": (change_log, lambda own, other: [*own[:1], other[1], *own[2:]], "log.jsonl"),
    "the summary": (copy, "summary.json", "summary.json"),
    "the manifest": (copy, "training.json", "training.json"),
    "the description": (copy, "run.json", "training.json"),
    **{
        f"lost: {name}": (lose, name, name)
        for name in ("checkpoints", "history.zarr", CHUNK, "log.jsonl", "summary.json", "training.json")
    },
    "lost: a line of the log": (change_log, lambda own, other: own[:-1], "log.jsonl"),
    "swapped arrays": (swap, ("history.zarr/batch", "history.zarr/validation_batch"), "history.zarr"),
    "swapped checkpoints": (swap, (FOURTH, LAST), "checkpoints/00000000"),
}


def read(path):
    """Look at all of a run."""
    run = open_run(path)
    run.history.dataset.load()
    return run.ensemble, run.log, run.summary


@pytest.mark.parametrize("case", every_nth(CASES, 4))
def test_what_is_not_a_part_of_this_run_is_said_by_name(run, case, tmp_path_factory):
    """On verifying, and on reading and resuming: an error, or a warning where another checkpoint is taken."""
    spoil, what, named = CASES[case]
    spoil(what, run, finished_run(tmp_path_factory, seed=1))
    assert any(named in f"{file}: {said}" for file, said in verify_run(run).items())
    is_unused = case == "an older checkpoint"
    for use in (*(() if is_unused else (read,)), lambda path: resume_run(path, quiet=True)):
        with warnings.catch_warnings(), pytest.raises((ValueError, UserWarning), match=named):
            warnings.simplefilter("error")
            use(run)


def test_a_run_as_it_was_written_is_read_verified_and_resumed(run):
    """And marked, where it was killed between its summary and the mark of it."""
    assert verify_run(run) == {} and len(read(run)[1]) == 4
    whole = read_sealed_json(run / "run.json")
    assert resume_run(run, quiet=True).is_finished and RUN_ID not in open_run(run).summary
    write_sealed_json(run / "run.json", {name: own for name, own in whole.items() if name != "finished"})
    assert resume_run(run, quiet=True).is_finished
    assert whole["finished"] and read_sealed_json(run / "run.json") == whole


def test_a_chunk_of_an_earlier_commit_is_said_by_name(tmp_path):
    """A copy that was begun before the run went on: the file is of this run, and has too few rows."""
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, checkpoint_seconds=1e-9)
    train(4, trainer=trainer)
    earlier = (tmp_path / CHUNK).read_bytes()
    train(8, trainer=trainer, restore_checkpoint=True)
    (tmp_path / CHUNK).write_bytes(earlier)
    with pytest.raises(ValueError, match=r"c\.0\.0\.0.* must have 8 rows, got 4"):
        open_arrays(tmp_path / "history.zarr").loss.load()
    with pytest.raises(ValueError, match=r"c\.0\.0\.0.* must have 8 rows, got 4"):
        train(9, trainer=trainer, restore_checkpoint=True)
