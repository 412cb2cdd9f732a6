"""The commands that train: `train` and `resume`."""

import contextlib
import dataclasses
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import tyro

from popsim._checks import check_positive_int
from popsim._text_checks import as_path
from popsim._waiting import is_interactive
from popsim.cli._interruption import EXIT_CODE, caught_signals
from popsim.experiments import (
    EXPERIMENTS,
    AbstractExperiment,
    Recording,
    Run,
    RunStopped,
    devices_of_run,
    run_experiment,
    run_or_resume,
)
from popsim.experiments.experiment import HELP, Grid
from popsim.experiments.run_config import RunConfig, read_run_config
from popsim.experiments.settings import setting_types
from popsim.store import RunFolder
from popsim.training.options import CHECKPOINT_SECONDS


@contextlib.contextmanager
def stop_on_signals(on_idle: Callable[[], str]) -> Iterator[Callable[[], bool]]:
    """Catch SIGINT, SIGTERM, SIGUSR1 and SIGHUP: `with stop_on_signals(...) as stop`.

    `stop()` returns whether one of them has arrived; further ones have no effect. A SIGHUP that is ignored at
    the start, as under `nohup`, stays ignored. Output to a closed terminal is discarded. Before the first
    call of `stop` there is nothing to save, so a signal ends the process at once with `EXIT_CODE`, even
    during a compilation, in which Python handles no signals. Outside of the main thread, which alone gets
    signals in Python, none is caught.

    **Arguments:**

    - `on_idle`: returns the message for standard error when the process exits in this way.
    """
    received, polled = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield received.is_set
        return

    def stop() -> bool:
        polled.set()
        return received.is_set()

    def leave_if_idle(wakeup: socket.socket) -> None:
        """Run in a thread that the system wakes by a byte when a signal arrives."""
        while byte := wakeup.recv(1):
            if byte[0] not in theirs:
                continue
            received.set()
            if not polled.is_set():
                with contextlib.suppress(OSError):
                    if is_interactive():  # below the line that is waited in
                        print(file=sys.stderr)
                    print(on_idle(), file=sys.stderr, flush=True)
                os._exit(EXIT_CODE)

    def receive(*_: Any) -> None:
        received.set()
        _leave_closed(terminals)

    theirs: dict[Any, Any] = {number: signal.getsignal(number) for number in caught_signals()}
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=leave_if_idle, args=(reading,), daemon=True)
    watcher.start()
    try:
        for number in theirs:
            signal.signal(number, receive)
        yield stop
    finally:
        for number, handler in theirs.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        writing.close()
        watcher.join()
        reading.close()


def stop_when_input_ends() -> None:
    """Send SIGTERM to this process when its standard input ends."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):  # without Python's buffer, whose lock would be held at exit
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _leave_closed(terminals: list[int]) -> None:
    """Redirect descriptors whose terminal was closed to nowhere, as writing to them would fail."""
    for descriptor in terminals:
        if not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


MOST_VIRTUAL = 256


def training_devices(count: int | None) -> list[jax.Device]:  # pyright: ignore[reportInvalidTypeForm]
    """Return the devices over which a command divides its ensemble.

    Without an accelerator there is one virtual device per core that the process may use, each run by XLA on
    its own core.

    **Arguments:**

    - `count`: the number of devices; None for all.
    """
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count is not None:
        check_positive_int("devices", count)
        if count > max(n_cores, MOST_VIRTUAL):
            raise ValueError(f"`devices` must be at most {max(n_cores, MOST_VIRTUAL)}, got {count}.")
        n_cores = max(n_cores, count)
    with contextlib.suppress(RuntimeError):  # JAX is already initialized and keeps its devices
        jax.config.update("jax_num_cpu_devices", n_cores)
    devices = jax.local_devices()
    if count is not None and count > len(devices):
        raise ValueError(f"`devices` must be at most the {len(devices)} that JAX has, got {count}.")
    return devices[:count]


def finish(path: Path, train: Callable[[Callable[[], bool]], Run], *, resumes: bool) -> None:
    """Train, and print the results and the paths of the figures.

    **Arguments:**

    - `path`: the folder of the run.
    - `train`: trains until the function it is given returns True, and returns the finished run.
    - `resumes`: whether `train` leaves a run that is finished already as it is; this is then said.

    **Raises:** `SystemExit` with `EXIT_CODE` if a signal stopped it.
    """

    def on_idle() -> str:
        folder = RunFolder(path)
        how = (
            f"to continue: {folder.resume_command}"
            if folder.description.exists()
            else f"there is no run in {path} yet"
        )
        return f"popsim: stopped before the first batch; {how}"

    was_finished = resumes and RunFolder(path).is_finished
    try:
        with stop_on_signals(on_idle) as stop:
            run = train(stop)
    except RunStopped as stopped:
        print(f"popsim: {stopped}", file=sys.stderr)
        sys.exit(EXIT_CODE)
    print(run.results())
    if was_finished:
        print("the run was finished before: nothing was left to train")
    if run.log:
        print(f"trained in {run.log[-1]['seconds']:.0f} s")
    print(f"run: {run.folder.path}")
    for figure in sorted(run.folder.figures.glob("*.png")):
        print(figure)
    print(f"Next: {run.folder.command('show')}")


def experiment_choice(summary: str | None) -> type:
    """Return the command `train` without an experiment: it lists those that are registered."""
    chosen = Annotated[
        tyro.conf.Positional[Literal[tuple(EXPERIMENTS)]],  # pyright: ignore[reportInvalidTypeForm]
        tyro.conf.arg(
            metavar="EXPERIMENT",
            help="what to train, see popsim list; or --config FILE, such as the run.yaml of a run",
        ),
    ]
    return dataclasses.make_dataclass(
        "Train", [("experiment", chosen)], namespace={"__doc__": summary}, frozen=True
    )


def settings_of(kind: type[AbstractExperiment]) -> type[AbstractExperiment]:
    """Return the settings of a kind of experiment as options for tyro, with the help of their metadata."""
    described: list[Any] = [
        (field.name, Annotated[hint, tyro.conf.arg(help=field.metadata["help"])], field)
        for field, hint in zip(dataclasses.fields(kind), setting_types(kind).values(), strict=True)
        if "help" in field.metadata
    ]
    members = Annotated[int, tyro.conf.arg(name="members", help="number of networks")]
    described += [("n_members", members, dataclasses.field(default=kind.n_members))]
    described += [("grid", tyro.conf.Suppress[Grid], dataclasses.field(default=()))]
    unique = {name: (name, hint, field) for name, hint, field in described}
    return dataclasses.make_dataclass(
        "Settings", unique.values(), bases=(kind,), namespace={"__doc__": kind.__doc__}, frozen=True
    )


def as_experiment(kind: type[AbstractExperiment], settings: AbstractExperiment) -> AbstractExperiment:
    """Return the experiment of some `settings_of` its kind."""
    return kind(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(kind)})


def _settings_by_name(experiment: AbstractExperiment) -> dict[str, Any]:
    return {field.name: getattr(experiment, field.name) for field in dataclasses.fields(experiment)}


def config_command(file: str, words: list[str]) -> tuple[type, str, list[str]]:
    """Return the command that trains what a file of `config_text` says, with the options in some words.

    **Arguments:**

    - `file`: the path of the file.
    - `words`: the words of the command after `train`, without --config; the first may name the experiment.

    **Returns:** the command, the words that name it, and those of its options.
    """
    config = read_run_config(as_path("config", file))
    name = config.experiment.name
    if words and not words[0].startswith("-"):
        if words[0] != name:
            raise ValueError(
                f"`experiment` in {file} must be {words[0]!r}, as the command names it, got {name!r}."
            )
        words = words[1:]
    return train_command(type(config.experiment), config), f"popsim train {name}", words


def train_command(kind: type[AbstractExperiment], config: RunConfig | None = None) -> type:
    """Return the command that trains one kind of experiment, as a dataclass for tyro.

    **Arguments:**

    - `kind`: the experiment.
    - `config`: the defaults of its options; None for those of the experiment.
    """
    options = settings_of(kind)
    stated: Any = {} if config is None else {"default": options(**_settings_by_name(config.experiment))}
    recording = Recording() if config is None else config.recording

    @dataclasses.dataclass(frozen=True)
    class TrainExperiment:
        experiment: options = dataclasses.field(**stated)  # pyright: ignore[reportInvalidTypeForm]
        """the settings of the experiment"""

        out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
        """the folder of the run; by default runs/EXPERIMENT-SEED"""
        overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
        """replace an existing run"""
        resume: tyro.conf.FlagCreatePairsOff[bool] = False
        """continue the same run if it exists; a finished one is only printed"""
        keep: Annotated[str, tyro.conf.arg(metavar="BATCHES", help=f"when to keep the weights: {HELP}")] = (
            recording.trainables
        )
        float16: tyro.conf.FlagCreatePairsOff[bool] = recording.float16
        """keep them with half the digits"""
        checkpoint_seconds: float = CHECKPOINT_SECONDS if config is None else config.checkpoint_seconds
        """seconds between checkpoints; one is also written at the end, and when stopped"""
        devices: int | None = None
        """number of devices over which the networks are divided; by default all accelerators or cores"""
        without_lock: tyro.conf.FlagCreatePairsOff[bool] = False
        """write to a disk that cannot lock files; only if no other process writes there"""
        tensorboard: tyro.conf.FlagCreatePairsOff[bool] = False
        """write events for TensorBoard (popsim[tensorboard]) into the folder tensorboard of the run"""
        quiet: tyro.conf.FlagCreatePairsOff[bool] = False
        """show no progress"""

        def run(self) -> None:
            """Train, save, and print."""
            if self.resume and self.overwrite:
                raise ValueError("`resume` and `overwrite` must not be given together: got both.")
            experiment = as_experiment(kind, self.experiment)
            out = self.out or Path("runs") / f"{experiment.name}-{experiment.seed}"
            options: dict[str, Any] = {
                "quiet": self.quiet,
                "recording": Recording(self.keep, self.float16),
                "devices": training_devices(self._n_devices(out)),
                "checkpoint_seconds": self.checkpoint_seconds,
                "without_lock": self.without_lock,
                "enable_tensorboard": self.tensorboard,
            }
            train = run_or_resume if self.resume else partial(run_experiment, overwrite=self.overwrite)
            finish(out, lambda stop: train(experiment, out, stop=stop, **options), resumes=self.resume)

        def _n_devices(self, out: Path) -> int | None:
            """Return the requested number, or the previous one for a run that continues."""
            goes_on = self.resume and self.devices is None and RunFolder(out).description.exists()
            return devices_of_run(out) if goes_on else self.devices

    TrainExperiment.__doc__ = kind.__doc__
    return TrainExperiment
