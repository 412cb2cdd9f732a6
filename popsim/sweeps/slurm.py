"""Job scripts that train a sweep on a cluster with SLURM, as an array of jobs and without Dask."""

import dataclasses
import os
import re
import shlex
import sys
import sysconfig
from pathlib import Path
from typing import Any

from popsim._shared.checks import check_positive_int
from popsim._shared.text_checks import has_control_characters
from popsim.store.files import check_replaceable, has_mark, write_file
from popsim.store.run_folder import import_option
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.sweep import Sweep
from popsim.sweeps.user_modules import modules_of, named_modules

__all__ = ["SlurmOptions", "write_slurm_script"]

SIGNAL_SECONDS = 120  # before the time limit; SLURM may be a minute early
LEAST_SECONDS = 300
_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d(:\d\d)?)?")  # as sbatch takes it
_OWN_OPTIONS = ("array", "job-name", "output", "signal", "requeue", "no-requeue", "open-mode")
_OPTION = re.compile(r"[a-z][a-z0-9-]*(=.+)?")


@dataclasses.dataclass(frozen=True)
class SlurmOptions:
    """The options of the jobs of a sweep.

    - `partition`: the partition of the cluster; None for its default.
    - `time`: the time limit of a job as sbatch takes it, such as "4:00:00"; None for that of the partition.
    - `gpus`, `cpus`: the number of GPUs and of cores of a job.
    - `memory`: the memory of a job, such as "8G"; None for the default of the cluster.
    - `max_tasks`: the largest number of jobs of the array, which many clusters limit to 1000.
    - `at_a_time`: the largest number of them that run at a time; None for no limit.
    - `options`: further options of sbatch, such as "account=lab", but none that the script sets itself.
    - `setup`: lines to run before popsim, such as "module load python".
    - `without_lock`, `enable_tensorboard`: see `run_cell`.
    """

    partition: str | None = None
    time: str | None = None
    gpus: int | None = None
    cpus: int = 1
    memory: str | None = None
    max_tasks: int = 1000
    at_a_time: int | None = None
    options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    without_lock: bool = False
    enable_tensorboard: bool = False

    def __post_init__(self):
        for name in ("gpus", "cpus", "max_tasks", "at_a_time"):
            if (number := getattr(self, name)) is not None:
                check_positive_int(name.removeprefix("max_"), number)
        for name, form, example in (
            ("partition", re.compile(r"[\w.,-]+"), "gpu"),
            ("time", _TIME, "4:00:00"),
            ("memory", re.compile(r"\d+[KMGT]?"), "8G"),
        ):
            if (value := getattr(self, name)) is not None and not form.fullmatch(value):
                raise ValueError(f"`{name}` must be such as {example}, got {value!r}.")
        if self.time is not None and _seconds(self.time) < LEAST_SECONDS:
            raise ValueError(
                f"`time` must be {LEAST_SECONDS // 60} minutes or more, as jobs save and stop "
                f"{SIGNAL_SECONDS} s before it, got {self.time!r}, which is {_seconds(self.time)} s to SLURM."
            )
        for option in self.options:
            if not _OPTION.fullmatch(option):
                raise ValueError(f"`slurm_option` must be such as account=lab, got {option!r}.")
            if (name := option.partition("=")[0]) in _OWN_OPTIONS:
                raise ValueError(f"`slurm_option` must not be one that the script sets, got {name}.")
        for line in (*self.options, *self.setup):
            if not line.strip() or has_control_characters(line.replace("\t", " ")):
                raise ValueError(f"`setup` and `slurm_option` must be one line each, got {line!r}.")

    def lines(self) -> list[str]:
        """Return the options as they are written into a script."""
        requests = {
            "partition": self.partition,
            "time": self.time,
            "gpus": self.gpus,
            "cpus-per-task": self.cpus,
            "mem": self.memory,
        }
        named = [f"{name}={value}" for name, value in requests.items() if value is not None]
        return [f"#SBATCH --{option}" for option in (*named, *self.options)]


def _seconds(time: str) -> int:
    """Return a time limit in seconds, read as sbatch does: "4" and "4:00" are four minutes."""
    days, dash, clock = time.rpartition("-")
    numbers = list(map(int, clock.split(":")))
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)


_BEGINNING = "#!/bin/bash\n# written by popsim sweep script\n"
_SCRIPT = (
    _BEGINNING
    + """#SBATCH --job-name={name}
#SBATCH --array=0-{last}{limit}{options}
#SBATCH --output={logs}
#SBATCH --signal=B:USR1@{seconds}
#SBATCH --requeue
#SBATCH --open-mode=append
# --mem: what a cell takes, see docs/scale.md; --cpus-per-task: cores that share the networks of a cell
{setup}
sweep={sweep}
out_of_time= ended= child=
stop() { [ "$child" ] && kill -TERM "$child" 2> /dev/null; }
trap 'out_of_time=yes; stop' USR1  # {seconds} s before the time limit
trap 'ended=yes; stop' TERM        # cancelled, or preempted: SLURM requeues by itself what it preempts
failed=0
train() {
    {popsim} sweep run "$sweep" "$@" --quiet{without_lock}{tensorboard} &
    child=$!
    while wait "$child"; code=$?; kill -0 "$child" 2> /dev/null; do :; done  # a signal ends wait, not popsim
    child=
    if [ "$out_of_time" ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; fi
    if [ "$out_of_time$ended" ] || [ "$code" -eq 75 ]; then exit 75; fi  # 75: stopped and saved
    [ "$code" -eq 0 ] || failed=1
}
{train}
exit "$failed"
"""
)
_EACH = """for ((cell = SLURM_ARRAY_TASK_ID; cell < {n_cells}; cell += {n_tasks})); do
    [ -f "$sweep/cells/$(printf %06d "$cell")/summary.json" ] || train --cell "$cell"
done"""
_TOGETHER = "train  # the cells select among one another: all jobs take them in turn, until they are finished"


def _environment() -> list[str]:
    """Return the line that puts the environment which writes a script first, if it has the command."""
    commands = Path(sys.executable).parent
    if not (commands / "popsim").exists():
        return []
    return [f"export PATH={shlex.quote(str(commands))}:$PATH  # the environment that wrote this"]


def _paths_of_modules(sweep: Sweep) -> list[str]:
    """Return the lines by which jobs find the modules of the user's own, if there are any."""
    return [
        _path_of_module(module, str(folder))
        for module, folder in modules_of(sweep)
        if str(folder) not in sysconfig.get_paths().values()
    ]


def _path_of_module(module: str, folder: str) -> str:
    if os.pathsep in folder:
        return f"cd {shlex.quote(folder)}  # with the module {module}"
    return f"export PYTHONPATH={shlex.quote(folder)}${{PYTHONPATH:+:$PYTHONPATH}}  # with the module {module}"


def slurm_script(opened: OpenedSweep, options: SlurmOptions) -> str:
    """Return a script for sbatch that trains the cells of a sweep, each job several of them in turn.

    Where cells select among one another, all jobs together take them in turn.
    """
    sweep, folder = opened.sweep, opened.folder.path.resolve()
    n_tasks = min(sweep.n_cells, options.max_tasks)
    place = str(folder / "logs").replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    setup = (*options.setup, *_environment(), *_paths_of_modules(sweep))
    each = _EACH.format(n_cells=sweep.n_cells, n_tasks=n_tasks)
    parts = {
        "train": _TOGETHER if sweep.selects_across_cells else each,
        "name": re.sub(r"[^\w.-]", "_", folder.name),
        "last": n_tasks - 1,
        "limit": "" if options.at_a_time is None else f"%{options.at_a_time}",
        "options": "".join(f"\n{line}" for line in options.lines()),
        "logs": f'"{place}/%a.txt"',
        "seconds": SIGNAL_SECONDS,
        "setup": "".join(f"\n{line}" for line in setup),
        "without_lock": " --without-lock" if options.without_lock else "",
        "tensorboard": " --tensorboard" if options.enable_tensorboard else "",
        "sweep": shlex.quote(str(folder)),
        "popsim": f"popsim {import_option(named_modules(sweep))}".strip(),
    }
    return re.sub(r"\{(\w+)\}(?<!\$\{SLURM_ARRAY_JOB_ID\})", lambda part: str(parts[part[1]]), _SCRIPT)


def is_slurm_script(path: Path) -> bool:
    """Whether popsim wrote a file, as a script for sbatch."""
    return has_mark(path, _BEGINNING.encode(), b"#SBATCH")


def write_slurm_script(
    opened: OpenedSweep, options: SlurmOptions, out: Path | None = None, *, overwrite: bool = False
) -> Path:
    """Write a script for sbatch that trains a sweep, and the folder for what its jobs print.

    **Arguments:**

    - `opened`: the sweep.
    - `options`: the options of the jobs.
    - `out`: the script; None for `sweep.sbatch` in the folder of the sweep.
    - `overwrite`: whether to replace an existing script of popsim.

    **Returns:** the path of the script.

    **Raises:** `ValueError` if `out` exists, unless popsim wrote it and `overwrite` is True; `SaveError` if
    it cannot be written.
    """
    path: Any = opened.folder.path / "sweep.sbatch" if out is None else out
    check_replaceable(path, is_slurm_script, kind="a script", overwrite=overwrite, name="out")
    if has_control_characters(str(opened.folder.path)):
        raise ValueError(f"`path` must be one line of a script, got {str(opened.folder.path)!r}.")
    (opened.folder.path / "logs").mkdir(exist_ok=True)
    write_file(path, [slurm_script(opened, options).encode()])
    return path
