"""The experiments that can be trained and reopened by name."""

from popsim.experiments.center_out import CenterOut
from popsim.experiments.cognitive import Cognitive
from popsim.experiments.experiment import AbstractExperiment

EXPERIMENTS: dict[str, type[AbstractExperiment]] = {kind.name: kind for kind in (CenterOut, Cognitive)}


def register_experiment(experiment: type[AbstractExperiment]) -> type[AbstractExperiment]:
    """Make an experiment known by its name, to the command line and to `open_run`; usable as a decorator.

    **Raises:** `ValueError` if another experiment has this name.
    """
    known = EXPERIMENTS.setdefault(experiment.name, experiment)
    if known is not experiment:
        raise ValueError(f"`experiment` must have a name of its own, got {experiment.name!r} again.")
    return experiment
