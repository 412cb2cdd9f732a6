"""Job scripts that train a sweep on a cluster with SLURM, as an array of jobs and without Dask."""

import dataclasses
import functools
import os
import re
import shlex
import string
import sys
import sysconfig
from pathlib import Path

from popsim._shared.checks import check_positive_int
from popsim._shared.text_checks import has_control_characters
from popsim.store.files import check_replaceable, has_mark, write_file
from popsim.store.run_folder import import_option
from popsim.sweeps.cell_training import check_no_selection
from popsim.sweeps.executors import option_words
from popsim.sweeps.folder import modules_of, named_modules
from popsim.sweeps.opened_sweep import OpenedSweep
from popsim.sweeps.sweep import Sweep

__all__ = ["SlurmOptions", "write_slurm_script"]

SIGNAL_SECONDS = 120  # before the time limit; SLURM may be a minute early
# Of what sbatch takes, hours, minutes and seconds alone: 4:00 are four minutes to it.
_TIME = re.compile(r"(\d+-)?\d+:\d\d:\d\d")
_OWN_OPTIONS = ("array", "job-name", "output", "signal", "requeue", "no-requeue", "open-mode")


@dataclasses.dataclass(frozen=True)
class SlurmOptions:
    """The options of the jobs of a sweep, as `popsim sweep script` takes them."""

    partition: str | None = None
    """the partition of the cluster"""
    time: str | None = None
    """the time limit of a job, such as 4:00:00; it continues where it stopped when it is submitted again"""
    gpus: int | None = None
    """number of GPUs of a job"""
    cpus: int = 1
    """number of cores of a job"""
    memory: str | None = None
    """memory of a job, such as 8G"""
    tasks: int = 1000
    """the largest number of jobs of the array; each trains several cells in turn"""
    at_a_time: int | None = None
    """the largest number of jobs that run at a time; by default as many as the cluster lets"""
    slurm_option: tuple[str, ...] = ()
    """a further option of sbatch, such as account=lab; repeat it for others"""
    setup: tuple[str, ...] = ()
    """a line to run before popsim, such as "module load python"; repeat it for others"""
    without_lock: bool = False
    """write to a disk that cannot lock files; only if no other process writes there"""
    tensorboard: bool = False
    """write events for TensorBoard (popsim[tensorboard]) into the folder tensorboard of each cell"""

    def __post_init__(self):
        for name in ("gpus", "cpus", "tasks", "at_a_time"):
            if (number := getattr(self, name)) is not None:
                check_positive_int(name, number)
        if self.time is not None and not _TIME.fullmatch(self.time):
            raise ValueError(
                "`time` must be hours, minutes and seconds, such as 4:00:00, or also days, such as "
                f"1-12:00:00, got {self.time!r}."
            )
        for option in self.slurm_option:
            if (name := option.partition("=")[0]) in _OWN_OPTIONS:
                raise ValueError(f"`slurm_option` must not be one that the script sets, got {name}.")
        for line in filter(None, (self.partition, self.memory, *self.slurm_option, *self.setup)):
            if has_control_characters(line.replace("\t", " ")):
                raise ValueError(f"`setup` and the options of sbatch must be one line each, got {line!r}.")

    @property
    def requests(self) -> list[str]:
        """The options of sbatch that ask for a partition, time, and hardware."""
        requests = {
            "partition": self.partition,
            "time": self.time,
            "gpus": self.gpus,
            "cpus-per-task": self.cpus,
            "mem": self.memory,
        }
        return [*(f"{name}={value}" for name, value in requests.items() if value), *self.slurm_option]


class _Template(string.Template):
    delimiter = "@"  # "$" is of the shell


_BEGINNING = "#!/bin/bash\n# written by popsim sweep script\n"
_SCRIPT = _Template(
    _BEGINNING
    + """\
#SBATCH --job-name=@name
#SBATCH --array=0-@last@limit
@requests
#SBATCH --output="@logs/%a.txt"
#SBATCH --signal=B:USR1@@@seconds
#SBATCH --requeue
#SBATCH --open-mode=append
# --mem: what a cell takes, see docs/scale.md; --cpus-per-task: cores that share the networks of a cell
@setup
sweep=@sweep
out_of_time= ended= child= failed=0
stop() { [ "$child" ] && kill -TERM "$child" 2> /dev/null; }
trap 'out_of_time=yes; stop' USR1  # @seconds s before the time limit
trap 'ended=yes; stop' TERM        # cancelled, or preempted: SLURM requeues by itself what it preempts
for ((cell = SLURM_ARRAY_TASK_ID; cell < @n_cells; cell += @n_tasks)); do
    [ -f "$sweep/cells/$(printf %06d "$cell")/summary.json" ] && continue
    @popsim sweep run "$sweep" --cell "$cell" @options &
    child=$!
    while wait "$child"; code=$?; kill -0 "$child" 2> /dev/null; do :; done  # a signal ends wait, not popsim
    child=
    if [ "$out_of_time" ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; fi
    if [ "$out_of_time$ended" ] || [ "$code" -eq 75 ]; then exit 75; fi  # 75: stopped and saved
    [ "$code" -eq 0 ] || failed=1
done
exit "$failed"
"""
)


def _paths(sweep: Sweep) -> list[str]:
    """Return the lines by which jobs find the environment that writes a script, and the user's modules."""
    commands = Path(sys.executable).parent
    lines = []
    if (commands / "popsim").exists():
        lines.append(f"export PATH={shlex.quote(str(commands))}:$PATH  # the environment that wrote this")
    for module, folder in modules_of(sweep):
        if str(folder) not in sysconfig.get_paths().values():
            place = shlex.quote(str(folder))
            find = f"export PYTHONPATH={place}${{PYTHONPATH:+:$PYTHONPATH}}"
            lines.append(
                f"{f'cd {place}' if os.pathsep in str(folder) else find}  # with the module {module}"
            )
    return lines


def slurm_script(opened: OpenedSweep, options: SlurmOptions) -> str:
    """Return a script for sbatch that trains the cells of a sweep, each job several of them in turn."""
    check_no_selection(opened, "path")
    sweep, folder = opened.sweep, opened.folder.path.resolve()
    n_tasks = min(sweep.n_cells, options.tasks)
    words = option_words(without_lock=options.without_lock, enable_tensorboard=options.tensorboard)
    return _SCRIPT.substitute(
        name=re.sub(r"[^\w.-]", "_", folder.name),
        last=n_tasks - 1,
        limit="" if options.at_a_time is None else f"%{options.at_a_time}",
        requests="\n".join(f"#SBATCH --{request}" for request in options.requests),
        logs=str(folder / "logs").replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%"),
        seconds=SIGNAL_SECONDS,
        setup="\n".join([*options.setup, *_paths(sweep)]),
        sweep=shlex.quote(str(folder)),
        n_cells=sweep.n_cells,
        n_tasks=n_tasks,
        popsim=f"popsim {import_option(named_modules(sweep))}".strip(),
        options=" ".join(words),
    )


def write_slurm_script(
    opened: OpenedSweep, options: SlurmOptions, out: Path | None = None, *, overwrite: bool = False
) -> Path:
    """Write a script for sbatch that trains a sweep, by default into its folder, and return the path."""
    path = opened.folder.path / "sweep.sbatch" if out is None else out
    is_own = functools.partial(has_mark, beginning=_BEGINNING.encode(), mark=b"#SBATCH")
    check_replaceable(path, is_own, kind="a script", overwrite=overwrite, name="out")
    if has_control_characters(str(opened.folder.path)):
        raise ValueError(f"`path` must be one line of a script, got {str(opened.folder.path)!r}.")
    script = slurm_script(opened, options)
    opened.folder.logs.mkdir(exist_ok=True)
    write_file(path, [script.encode()])
    return path
