"""Tiny runs under the names that the documents and the gallery use: what a script needs, soon compiled."""

import contextlib
import dataclasses
from pathlib import Path

import diffrax
import pytest

from popsim import muscles, plants
from popsim.experiments import PLANTS, CenterOut, Recording, run_experiment

SETTINGS = {"n_members": 2, "n_batches": 6, "batch_size": 2, "n_units": 6, "log_step": 2, "duration": 0.3}
RUNS = {"center-out-0": CenterOut(**SETTINGS), "arm26": CenterOut(plant="arm26", **SETTINGS)}
EULER = {"solver": diffrax.Euler(), "n_substeps": 1}
BODIES = {
    "two-link-arm": lambda: plants.TwoLinkArm.arm26_skeleton(**EULER),
    "arm26": lambda: plants.arm26(muscles.ReluMuscle, **EULER),
}
GIVEN = {"end_point_error_m": 0.1, "final_speed_m_per_s": 0.1}


@contextlib.contextmanager
def tiny_runs(tmp_path_factory):
    """A function of code, which returns a folder with those of `RUNS` that the code names.

    They are finished, every batch is kept, their figures are not drawn. They have two members, six batches
    and six units. Within the context the bodies are integrated by
    Euler's method and have the muscles that are compiled soonest; the summary is given and not measured.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, build in BODIES.items():
            patch.setitem(PLANTS, name, dataclasses.replace(PLANTS[name], build=build))
        yield lambda code: _made(tmp_path_factory, code)


def _made(tmp_path_factory, code: str) -> Path:
    """Made once in a process."""
    folder = tmp_path_factory.getbasetemp() / "tiny"
    folder.mkdir(exist_ok=True)
    named = {name: own for name, own in RUNS.items() if name in code}
    missing = {name: own for name, own in named.items() if not (folder / "runs" / name).exists()}
    with pytest.MonkeyPatch.context() as patch:
        spare_center_out(patch)
        for name, experiment in missing.items():
            run_experiment(experiment, folder / "runs" / name, quiet=True, recording=Recording("all"))
    return folder


def spare_center_out(patch):
    """Have runs of `CenterOut` draw no figures, and take their summary as given."""
    patch.setattr("popsim.experiments.run_figures.draw_movement_figures", lambda run: {})
    patch.setattr("popsim.experiments.motor_experiment.summarize_reaches", _given)


def _given(experiment, ensemble, *, tolerance):
    rows = [
        {"member": index, "noise_off_worst_target": GIVEN, "noise_on_mean": GIVEN, "within_limits": False}
        for index in range(experiment.n_members)
    ]
    limits = {"noise_off_worst_target": GIVEN, "noise_on_mean": GIVEN}
    return {"n_repeats": 1, "limits": limits, "ensembles": {"trained": rows}}
