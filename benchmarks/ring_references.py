"""Writes `tests/tasks/references/ring_trials.npz`: trials of the published code of two suites, without noise.

    python benchmarks/ring_references.py multitask/task.py flexible_multitask/stepnet/task.py

takes the `task.py` of gyyang/multitask and of lauradriscoll/flexible_multitask, and draws four trials of each
rule. Of each it stores inputs `x`, targets `y` and cost mask `c_mask`, the number of time steps of each
epoch, the directions of both stimuli, and their strengths in each ring, which are read off what the code adds
to the inputs.
"""

import importlib.util
import sys
from pathlib import Path
from unittest import mock

import numpy as np

EPOCHS = ("fix1", "stim1", "delay1", "stim2", "delay2", "go1")
OUT = Path(__file__).parents[1] / "tests" / "tasks" / "references" / "ring_trials.npz"
N_TRIALS = 4


def load(path):
    """The module of a file, whose imports of TensorFlow and dotenv are not needed for trials."""
    absent = ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1", "dotenv", "six")
    spec = importlib.util.spec_from_file_location("published_task", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    stubs = {name: mock.MagicMock(string_types=str) for name in absent}
    with mock.patch.dict(sys.modules, stubs), mock.patch("os.environ", {"HOME_DIR": "."}):
        spec.loader.exec_module(module)
    return module


def settings(module, n_each_ring, n_outputs, seed):
    n_rules = len(module.rules_dict["all"])
    start = 1 + 2 * n_each_ring
    return {
        "dt": 20,
        "alpha": 0.2,
        "sigma_x": 0.0,
        "loss_type": "lsq",
        "ruleset": "all",
        "n_eachring": n_each_ring,
        "n_input": start + n_rules,
        "n_output": n_outputs,
        "rule_start": start,
        "rng": np.random.RandomState(seed),
    }


def published_trials(module, rule, config):
    """What is stored of a few trials of one rule."""
    added = []
    add = module.Trial.add

    def recording(self, loc_type, locs=None, **options):
        if loc_type == "stim":
            added.append((locs, options))
        return add(self, loc_type, locs, **options)

    with mock.patch.object(module.Trial, "add", recording):
        trial = module.generate_trials(rule, config, "random", noise_on=False, batch_size=N_TRIALS)
    directions, strengths = np.zeros((N_TRIALS, 2)), np.zeros((N_TRIALS, 2, 2))
    for locs, options in added:
        stimulus = 0 if locs is added[0][0] else 1
        directions[:, stimulus] = locs
        strengths[:, stimulus, options["mods"] - 1] = options.get("strengths", 1.0)
    steps = [n_steps(trial, name) for name in EPOCHS]
    mask = trial.c_mask.reshape(trial.y.shape)
    return {
        "x": trial.x,
        "y": trial.y,
        "c_mask": mask,
        "steps": np.array(steps),
        "directions": directions,
        "strengths": strengths,
    }


def n_steps(trial, name):
    """The number of time steps of an epoch, which is the same in all trials; 0 if there is none."""
    first, last = trial.epochs.get(name, (0, 0))
    first = 0 if first is None else first
    last = trial.tdim if last is None else last
    return int(np.ravel(last)[0] - np.ravel(first)[0])


def main(yang, driscoll):
    """Draw and store the trials of both suites."""
    np.random.seed(0)  # from which both draw the differences of strengths
    stored = {}
    for suite, path, n_each_ring, n_outputs in (("yang", yang, 32, 33), ("driscoll", driscoll, 2, 3)):
        module = load(path)
        for seed, rule in enumerate(module.rules_dict["all"]):
            trials = published_trials(module, rule, settings(module, n_each_ring, n_outputs, seed))
            stored |= {f"{suite}/{rule}/{name}": values for name, values in trials.items()}
    OUT.parent.mkdir(exist_ok=True)
    np.savez_compressed(OUT, **stored)


if __name__ == "__main__":
    main(*sys.argv[1:])
