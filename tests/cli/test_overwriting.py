"""With --overwrite a command replaces a file of that kind that popsim wrote, and nothing else."""

import shutil

import matplotlib.pyplot as plt
import pytest
from kept_runs import finished_run
from short_form import every_nth
from swept_runs import Swept

import popsim.sweeps
from popsim.cli import main

pytestmark = pytest.mark.slow
OUTPUTS = {
    "summary": "export {sweep} --summary {file}",
    "script": "sweep script {sweep} --slurm --out {file}",
    "png": "show-task flip-flop --out {file}",
    "figures": "export {run} --figures {folder}",
    "model": "export {run} --model {file}",
    "history": "export {run} --history {file}",
}
NAMES = {
    "summary": "summary.csv",
    "script": "job.sbatch",
    "figures": "one.png",
    "png": "task.png",
    "history": "h.nc",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The folders of a run and of a sweep, as words of a command."""
    folder = tmp_path_factory.mktemp("results")
    shutil.copytree(finished_run(tmp_path_factory), folder / "run")
    sweep = popsim.sweeps.Sweep(Swept(n_batches=2, log_step=1), {"n_units": (3,)}, range(1))
    popsim.sweeps.make_sweep(sweep, folder / "sweep")
    popsim.sweeps.run_sweep(folder / "sweep")
    return {name: folder / name for name in ("run", "sweep")}


@pytest.fixture
def command(places, tmp_path):
    """Writes an output of a kind, `command(kind, *options)`, and returns the file."""
    (tmp_path / "out").mkdir()

    def write(kind, *options):
        file = write.file(kind)
        main([*OUTPUTS[kind].format(**places, file=file, folder=file.parent).split(), *options])
        return file

    write.file = lambda kind: tmp_path / "out" / NAMES.get(kind, "file")
    return write


def _png_of_matplotlib(path):
    figure = plt.figure()
    figure.savefig(path, format="png")
    plt.close(figure)


def _state(file):
    about = file.lstat()
    return about.st_ino, about.st_mode, about.st_mtime_ns, file.read_bytes() if file.is_file() else None


def _with_a_note(path):
    """A summary of popsim to which its user added a column."""
    columns = "member,n_units,seed,cell,place,state,batches,frozen_from,stopped_from,training_loss"
    path.write_text(f"{columns},validation_loss,note\n0,3,0,0,0,finished,2,-1,-1,.1,.2,mine\n")


FOREIGN = {
    "a text": lambda path: path.write_text("mine"),
    "a PNG of matplotlib": _png_of_matplotlib,
    "a summary with a note": _with_a_note,
    "a script": lambda path: path.write_text("#!/bin/bash\n#SBATCH --array=0-3\nsrun me\n"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", every_nth(OUTPUTS, 6))
def test_what_popsim_did_not_write_stays(kind, command, places, capsys):
    file = command.file(kind)
    sources = [place / f"{place.name}.json" for place in places.values()]
    sources.append(next((places["run"] / "checkpoints").iterdir()))
    copies = {source.name: lambda path, source=source: shutil.copy(source, path) for source in sources}
    for name, make in (FOREIGN | copies).items():
        make(file)
        before = _state(file)
        with pytest.raises(SystemExit) as end:
            command(kind, "--overwrite")
        said = capsys.readouterr().err
        assert end.value.code == 2 and said.count("\n") == 1, name
        assert "must not hold anything but a" in said and "left as it is" in said, name
        assert _state(file) == before and [*file.parent.iterdir()] == [file], name
        file.rmdir() if file.is_dir() else file.unlink()


@pytest.mark.parametrize("kind", every_nth(OUTPUTS, 3))
def test_what_popsim_wrote_is_replaced_if_it_is_told_to(kind, command, capsys):
    file = command(kind)
    written = file.stat()
    with pytest.raises(SystemExit):
        command(kind)
    assert "--overwrite" in capsys.readouterr().err and file.stat() == written
    assert command(kind, "--overwrite").stat().st_ino != written.st_ino
