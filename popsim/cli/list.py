"""`popsim list`: what can be trained."""

import dataclasses
import inspect

import popsim.tasks
from popsim.experiments import EXPERIMENTS, PLANTS
from popsim.task import AbstractTask


@dataclasses.dataclass(frozen=True)
class List:
    """Print the experiments, tasks and plants that there are."""

    def run(self) -> None:
        """Print them."""
        tasks = {
            name: kind
            for name, kind in vars(popsim.tasks).items()
            if inspect.isclass(kind) and issubclass(kind, AbstractTask)
        }
        for title, things in (("experiments", EXPERIMENTS), ("tasks", tasks), ("plants", PLANTS)):
            print(title)
            for name, thing in things.items():
                print(f"  {name:26}{(inspect.getdoc(thing) or '').splitlines()[0]}")
