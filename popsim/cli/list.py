"""`popsim list`: what can be trained."""

import dataclasses
import inspect

import popsim.tasks
from popsim.experiments import EXPERIMENTS, PLANTS
from popsim.task import AbstractTask
from popsim.tasks.library import TASKS


@dataclasses.dataclass(frozen=True)
class List:
    """Print the experiments, tasks and plants that there are."""

    def run(self) -> None:
        """Print them."""
        _print("experiments (popsim train)", {name: _summary(kind) for name, kind in EXPERIMENTS.items()})
        named = {name: type(build()) for name, build in TASKS.items()}
        summaries = {name: f"{kind.__name__}: {_summary(kind)}" for name, kind in named.items()}
        _print("tasks (popsim show-task)", summaries)
        kinds = {
            name: _summary(kind)
            for name, kind in vars(popsim.tasks).items()
            if inspect.isclass(kind) and issubclass(kind, AbstractTask) and kind not in named.values()
        }
        _print("further tasks (popsim.tasks)", kinds)
        _print("plants", {name: _summary(choice) for name, choice in PLANTS.items()})


def _summary(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _print(title: str, summaries: dict[str, str]) -> None:
    if summaries:
        print(title)
        for name, summary in summaries.items():
            print(f"  {name:26}{summary}".rstrip())
