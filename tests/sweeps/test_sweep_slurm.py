"""The job script for SLURM, run by bash with commands in place of popsim and scontrol."""

import re
import signal
import subprocess
import sys
import time

import pytest
from swept_runs import Swept

from popsim.cli import main
from popsim.sweeps import Sweep, make_sweep, open_sweep
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script

POPSIM = """#!/bin/bash
echo "$*" >> "$CALLS"
cell=${@: -2:1}
[ "$cell" = 1 ] && exit 1  # one fails
if [ "$cell" = 2 ]; then
    trap 'echo stopped >> "$CALLS"; exit 75' TERM
    touch "$CALLS.ready"
    for i in {1..200}; do sleep 0.05; done
    exit 3
fi
exit 0
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Of five cells, in a folder with a name that must be quoted."""
    path = tmp_path / 'a sweep\'s "folder" 100%'
    opened = make_sweep(Sweep(Swept(), {"n_units": (2, 3, 4, 5, 6)}, range(2)), path)
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, text in (("popsim", POPSIM), ("scontrol", '#!/bin/bash\necho "scontrol $*" >> "$CALLS"\n')):
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(commands / "python"))  # so that the script finds them
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "77")
    return opened


def job(script, task, monkeypatch):
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(task))
    return subprocess.Popen(["bash", str(script)])


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


def run_command(opened, cell):
    return f"--import swept_runs sweep run {opened.folder.path} --cell {cell} --quiet"


def test_a_job_trains_its_cells_in_turn(sweep, tmp_path, monkeypatch):
    """Those that are finished are passed over, and one that fails does not end the job."""
    script = write_slurm_script(sweep, SlurmOptions(tasks=2))
    assert "#SBATCH --array=0-1\n" in script.read_text()
    assert job(script, 1, monkeypatch).wait() == 1
    assert calls(tmp_path) == [run_command(sweep, cell) for cell in (1, 3)]
    (tmp_path / "calls").unlink()
    for cell in (0, 2):
        sweep.folder.cell(cell).path.mkdir(parents=True)
        sweep.folder.cell(cell).summary.touch()
    assert job(script, 0, monkeypatch).wait() == 0
    assert calls(tmp_path) == [run_command(sweep, 4)]


@pytest.mark.parametrize(("number", "requeues"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_stopped_job_saves_and_is_requeued_out_of_time_only(sweep, number, requeues, tmp_path, monkeypatch):
    script = write_slurm_script(sweep, SlurmOptions())
    running = job(script, 2, monkeypatch)
    while not (tmp_path / "calls.ready").exists():
        time.sleep(0.01)
    running.send_signal(number)
    assert running.wait() == 75
    expected = [run_command(sweep, 2), "stopped"]
    assert calls(tmp_path) == expected + ["scontrol requeue 77_2"] * requeues


def test_jobs_pass_on_what_they_are_told_of_the_disk_and_tensorboard(sweep, tmp_path, monkeypatch):
    command = ["--import", "swept_runs", "sweep", "script", str(sweep.folder.path), "--slurm", "--tasks", "3"]
    for options in ([], ["--tensorboard"], ["--without-lock", "--tensorboard"]):
        main([*command, *options, "--overwrite"])
        assert job(sweep.folder.path / "sweep.sbatch", 0, monkeypatch).wait() in (0, 1)
        assert calls(tmp_path)[0] == " ".join([run_command(sweep, 0), *options])
        (tmp_path / "calls").unlink()


def test_the_options_are_those_of_sbatch(sweep, capsys):
    path = str(sweep.folder.path)
    command = ["--import", "swept_runs", "sweep", "script", path, "--slurm", "--partition", "gpu"]
    command += ["--time", "1-12:00:00", "--gpus", "1", "--memory", "8G", "--tasks", "3", "--at-a-time", "2"]
    main([*command, "--slurm-option", "account=lab", "--setup", "module load x", "--setup", "cd ~"])
    script = sweep.folder.path / "sweep.sbatch"
    assert capsys.readouterr().out.strip() == str(script)
    lines = script.read_text().splitlines()
    assert re.search(r"(?m)^# --mem: .*--cpus-per-task: ", "\n".join(lines))
    for option in ("array=0-2%2", "partition=gpu", "time=1-12:00:00", "gpus=1", "mem=8G", "account=lab"):
        assert f"#SBATCH --{option}" in lines
    assert len(lines) < 40 and lines.index("module load x") + 1 == lines.index("cd ~")
    assert lines[lines.index("cd ~") + 1].startswith("export PATH=")
    subprocess.run(["bash", "-n", str(script)], check=True)
    for wrong, said in (
        ([], "--overwrite"),
        (["--time", "4:00"], "--time must be hours, minutes and seconds, such as 4:00:00, or also days"),
        (["--slurm-option", "array=0-3%1"], "must not be one that the script sets, got array"),
        (["--setup", "a\nb"], "must be one line each"),
    ):
        with pytest.raises(SystemExit) as end:
            main([*command, *wrong])
        assert end.value.code == 2 and said in capsys.readouterr().err
    assert open_sweep(sweep.folder.path).sweep == sweep.sweep
