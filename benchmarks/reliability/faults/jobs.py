"""What the processes of `faults.fork_server` do. `report` sends values to whoever started them."""

import importlib
import os
import pkgutil
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

Report = Callable[..., None]

WRITING = ("open", "os.rename", "os.mkdir", "os.truncate", "os.link", "os.symlink")
REMOVING = ("os.rmdir", "os.remove", "shutil.rmtree")  # also by names relative to an open folder


class Operations:
    """Counts the file operations of a training, all threads together."""

    count = 0


def train(report: Report, path: str, **faults: Any) -> None:
    """Train in a folder, or go on there, and report what it holds at the end."""
    _begin(report, path, **faults)
    report(digests=_trained(path), operations=Operations.count)


def run(report: Report, path: str, **faults: Any) -> None:
    """Begin a run, or finish it, and report what its folder holds at the end."""
    _begin(report, path, **faults)
    report(digests=_run(path), operations=Operations.count)


def sweep(report: Report, path: str, **faults: Any) -> None:
    """Make a sweep and train it, or go on there, and report what its folder holds at the end."""
    _begin(report, path, **faults)
    report(digests=_sweep(path), operations=Operations.count)


def _import_all() -> None:
    """Import what a job needs: another user may not be allowed to read what is installed."""
    import faults

    import popsim

    for package in (popsim, faults):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(found.name)


def resume_all(
    report: Report, kind: str, paths: Sequence[str], *, user: int = 0, vanish: Sequence[str] = ()
) -> None:
    """Finish trainings ("train"), runs ("run") or sweeps ("sweep") in turn, and report what each ends with.

    **Arguments:**

    - `user`: as whom.
    - `vanish`: the command by which another process takes each folder away after a save.
    """
    _begin(report, "")
    _import_all()
    work = {"train": _trained, "run": _run, "sweep": _sweep}[kind]
    for path in paths:
        Hooks.on_save = [lambda step, path=path: subprocess.run([*vanish, path])] if vanish else []
        os.seteuid(user)
        try:
            found = work(path)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        os.seteuid(os.getuid())
        report(**{path: found})


def command(
    report: Report, path: str, arguments: list[str], send: tuple[str, str] | None = None, **faults: Any
) -> None:
    """A command of the command line, which knows the small experiment.

    **Arguments:**

    - `send`: a signal that the process sends itself, such as "SIGTERM", and when: see `faults.moments`.
    """
    _begin(report, path, **faults)
    from faults.moments import send_signal
    from faults.trainings import SmallSum

    from popsim.cli import main
    from popsim.experiments import register_experiment

    register_experiment(SmallSum)
    if send is not None:
        send_signal(report, path, *send, Hooks.on_begin)
    main(arguments)


def full_disk(report: Report, points: dict[str, tuple[int, int]]) -> None:
    """Train in one folder after the other, each with a limit on the size of files, then without.

    **Arguments:**

    - `points`: by folder, the limit in bytes, and up to which batch there is none.
    """
    _begin(report, "")
    _write_no_programs()
    for path, (limit, from_batch) in points.items():
        report(**{path: _trained_on_full_disk(path, limit, from_batch)})


def _trained_on_full_disk(path: str, limit: int, from_batch: int) -> dict[str, Any]:
    from faults.trainings import train

    from popsim.store import Checkpoints

    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    found: dict[str, Any] = {"error": None}

    def set_limit(step: int) -> None:
        if step >= from_batch:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))

    Hooks.on_save = [set_limit]
    set_limit(0)
    try:
        train(Path(path))
    except Exception as error:
        found |= {"error": type(error).__name__, "message": str(error)}
    finally:
        Hooks.on_save = []
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    checkpoints = Checkpoints(Path(path, "checkpoints"))
    for step in checkpoints.steps():
        checkpoints.verify(step)
    return found | {"kept": checkpoints.steps(), "digests": _trained(path)}


class Hooks:
    """What is called after each save, with its step, and when a training has begun."""

    on_save: list[Callable[..., Any]] = []
    on_begin: list[Callable[[], None]] = []


def _trained(path: str) -> dict[str, Any]:
    from faults.digests import training_digests
    from faults.trainings import train

    train(Path(path))
    return training_digests(Path(path))


def _run(path: str) -> dict[str, Any]:
    from faults.digests import run_digests
    from faults.trainings import ALWAYS, SmallSum, small_sum

    from popsim.experiments import Recording, resume_run, run_experiment

    if Path(path, "run.json").exists():
        resume_run(path, build=SmallSum, quiet=True)
    else:
        recording = Recording("every 4")
        run_experiment(small_sum(), path, quiet=True, recording=recording, checkpoint_seconds=ALWAYS)
    return run_digests(Path(path))


def _sweep(path: str) -> dict[str, Any]:
    """Two populations of two cells each, which select among their members."""
    from faults.digests import sweep_digests
    from swept_runs import Swept

    from popsim.experiments import Recording
    from popsim.sweeps import Sweep, make_sweep, run_sweep

    if not Path(path, "sweep.json").exists():
        experiment = Swept(n_batches=4, batch_size=2, log_step=2, select_every=2)
        make_sweep(Sweep(experiment, {"rate": (1e-3, 1e-2)}, range(2), 2, 2, Recording("logged")), path)
    run_sweep(path)
    return sweep_digests(Path(path))


def _begin(
    report: Report,
    path: str,
    *,
    stop_at: Sequence[int] = (),
    kill_at: int = 0,
    file_size: int | None = None,
    user: int | None = None,
) -> None:
    """Prepare faults.

    **Arguments:**

    - `path`: the folder of the training; file operations below it count.
    - `stop_at`: at which file operations the process stops itself (SIGSTOP), until somebody continues it.
    - `kill_at`: at which file operation it gets SIGKILL.
    - `file_size`: how large a file may become, in bytes.
    - `user`: the user that it runs as.
    """
    if user is not None:
        os.setuid(user)
    if file_size is not None:
        _write_no_programs()
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    _report_progress(report)
    stops = frozenset(stop_at)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in REMOVING or (event in WRITING and str(arguments[0]).startswith(path)):
            Operations.count += 1
            if Operations.count in stops:
                os.kill(os.getpid(), signal.SIGSTOP)
            elif Operations.count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _write_no_programs() -> None:
    """Leave the shared programs alone, where they would be cut short by a limit on the size of files."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)


def _report_progress(report: Report) -> None:
    """Report each save when it is complete, and from where a training went on."""
    from popsim.store import Checkpoints
    from popsim.training.history.training_store import TrainingStore

    write, begin = Checkpoints._write, TrainingStore.begin

    def reporting_write(self: Checkpoints, step: int, *arguments: Any) -> None:
        write(self, step, *arguments)
        report(saved=step)
        for function in Hooks.on_save:
            function(step)

    def reporting_begin(self: TrainingStore, state: Any, *, restore: bool) -> Any:
        state = begin(self, state, restore=restore)
        report(resumed=int(state.step), begun=Operations.count)
        for function in Hooks.on_begin:
            function()
        return state

    Checkpoints._write = reporting_write  # pyright: ignore[reportAttributeAccessIssue]
    TrainingStore.begin = reporting_begin  # pyright: ignore[reportAttributeAccessIssue]
