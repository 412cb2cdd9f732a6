"""`popsim list`: what can be trained."""

import dataclasses
import inspect

import popsim.tasks
from popsim.experiments import EXPERIMENTS, PLANTS
from popsim.task import AbstractTask
from popsim.task_description import innermost_task, named_task
from popsim.tasks.library import TASKS


@dataclasses.dataclass(frozen=True)
class List:
    """Print the experiments, tasks and plants that there are."""

    def run(self) -> None:
        """Print them."""
        _print("experiments (popsim train)", {name: _summary(kind) for name, kind in EXPERIMENTS.items()})
        tasks = {name: build() for name, build in TASKS.items()}
        named = {type(innermost_task(task)) for task in tasks.values()}
        _print("tasks (popsim show-task)", _said_once({name: named_task(one) for name, one in tasks.items()}))
        kinds = {
            name: _summary(kind)
            for name, kind in vars(popsim.tasks).items()
            if inspect.isclass(kind) and issubclass(kind, AbstractTask) and kind not in named
        }
        _print("further tasks (popsim.tasks)", kinds)
        _print("plants", dict.fromkeys(PLANTS, ""))


def _said_once(named: dict[str, tuple[str, str]]) -> dict[str, str]:
    """What each is called, and what it is where no other before it is the same."""
    before: set[str] = set()
    said = {}
    for name, (kind, summary) in named.items():
        said[name] = kind if summary in before else f"{kind}: {summary}"
        before.add(summary)
    return said


def _summary(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _print(title: str, summaries: dict[str, str]) -> None:
    if summaries:
        print(title)
        for name, summary in summaries.items():
            print(f"  {name:29}{summary}".rstrip())
