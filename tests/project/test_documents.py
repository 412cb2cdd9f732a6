"""The code in the documents runs, and what they name exists."""

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
import small_training
from page_code import code_blocks, run_code
from repository import ROOT
from short_form import every_nth, mostly_in_full
from tiny_runs import spare_center_out, tiny_runs

import popsim
from popsim import training
from popsim.cli import main
from popsim.experiments import EXPERIMENTS, CenterOut, run_experiment
from popsim.sweeps import run_sweep
from popsim.training import TaskTrainer

DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
COMING_FROM = [
    document
    for document in DOCUMENTS
    if document.startswith("docs/coming_from/") and "```python" in (ROOT / document).read_text()
]
LIBRARY_PAGES = [
    "README.md",
    "docs/start/ten_minutes.md",
    "docs/how_to/extending.md",
    "docs/how_to/learning_rules.md",
    "docs/how_to/reinforcement_learning.md",
    "docs/how_to/tasks.md",
]
TRAINED = [*LIBRARY_PAGES, *COMING_FROM]
EXPERIMENTS_FROM_TRAINING = (
    "force_field",
    "fixed_points",
    "learning_rule",
    "fit_a_recording",
    "fit_choices",
    "own_perturbation",
)


def test_the_code_of_every_page_is_run_by_a_test():
    """But of those that show a few lines of a longer program."""
    folders = ("concepts", "coming_from", "analysis", "tutorials", "experiments", "how_to/recipes")
    listed = Path(__file__).read_text()
    pages = [page for page in DOCUMENTS if code_blocks(page) and f'"{page}"' not in listed]
    alone = [page for page in pages if not page.startswith(tuple(f"docs/{folder}/" for folder in folders))]
    assert sorted(Path(page).stem for page in alone) == ["engine", "performance", "scale"]


def test_the_setting_of_cores_exists():
    (block,) = code_blocks("docs/start/install.md")
    with contextlib.suppress(RuntimeError):  # JAX has begun; it knows the setting
        run_code(block, "install.md")


@pytest.mark.slow
@pytest.mark.parametrize("document", mostly_in_full(TRAINED, ["README.md"]))
def test_the_code_runs(document, monkeypatch, tmp_path):
    """As it stands, but for two batches only, and with smaller trials."""
    monkeypatch.chdir(tmp_path)
    assert run_page(document)["history"].loss.total.shape[0] == 2


SMALLER = {
    r"n_batches=\d+": "n_batches=2",
    r"batch_size=\d+": "batch_size=2",
    r"n_members=\d+": "n_members=2",
    r"n_inputs, \d+": "n_inputs, 4",  # units
    r'(", )\d+(, [01]\.0\))': r"\g<1>5\2",  # batches of a phase
    r"3e-3, smoothed_over=5": "1.0, smoothed_over=2",
    r"(hidden|task), \d+": r"\1, 20",  # starts of searches, trials
}


@pytest.mark.full
@pytest.mark.parametrize("name", EXPERIMENTS_FROM_TRAINING)
def test_an_experiment_runs_from_its_training_to_its_figure(name, monkeypatch, tmp_path):
    """With few members, batches, trials and units."""
    monkeypatch.chdir(tmp_path)
    code = "\n".join(code_blocks(f"docs/experiments/{name}.md"))
    for size, smaller in SMALLER.items():
        code = re.sub(size, smaller, code)
    draw_experiment(name, code)


@pytest.mark.full
def test_the_experiment_with_muscles_draws_its_figure(tmp_path_factory, monkeypatch):
    with tiny_runs(tmp_path_factory) as made:
        monkeypatch.chdir(made("arm26"))
        draw_experiment("muscles", "\n".join(code_blocks("docs/experiments/muscles.md")))


@pytest.mark.full
def test_the_sweep_for_a_cluster_is_made_and_draws_its_figure(tmp_path, monkeypatch):
    """The commands train nothing; the cells are then trained here."""
    monkeypatch.chdir(tmp_path)
    spare_center_out(monkeypatch)
    fewer = {"n-units=16,64": "n-units=3,4", "0:5": "0:1", "300": "2", "16": "2"}
    for arguments in commands("docs/experiments/slurm_sweep.md"):
        if "--grid" in arguments:
            main([*(fewer.get(word, word) for word in arguments), "--duration", "0.1"])
        elif "script" in arguments:
            main(arguments)
    assert (tmp_path / "sweeps" / "noise" / "sweep.sbatch").exists()
    run_sweep("sweeps/noise", quiet=True)
    draw_experiment("slurm_sweep", "\n".join(code_blocks("docs/experiments/slurm_sweep.md")))


def draw_experiment(name, code):
    """Run the code of an experiment's page, which must leave a figure with something in each of its axes."""
    scope = run_code(code, f"docs/experiments/{name}.md")
    assert all(ax.has_data() for ax in scope["figure"].axes)
    plt.close("all")


@pytest.mark.full
def test_training_of_your_own_resumes_bit_for_bit(monkeypatch, tmp_path):
    """The page, with fewer batches; what it trained in two parts is what is trained at once."""
    code = "\n".join(code_blocks("docs/how_to/own_training.md"))
    for number, fewer in ((200, 8), (120, 5), (100, 5), (25, 2)):
        code = code.replace(f" {number}", f" {fewer}").replace(f"every={number}", f"every={fewer}")
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path / str(len([*tmp_path.iterdir()]))))
    scope = run_code(code, "docs/how_to/own_training.md")
    with jax.numpy_dtype_promotion("standard"):
        for trained, options in (
            ("evolved", {"gradient": scope["EvolutionStrategy"]()}),
            ("scaled", {"population_updates": [scope["Homeostasis"](every=2)]}),
        ):
            whole, history = scope["train"](TaskTrainer(training.adam(1e-2), **options), 8)
            small_training.assert_same(whole, scope[trained])
    assert history.updates["Homeostasis"]["batch"].tolist() == [1, 3, 5, 7]
    np.testing.assert_array_equal(history.updates["Homeostasis"]["Homeostasis.rate"], scope["unit_rates"])
    assert scope["rates"].shape == (4, 3) and np.all(np.diff(scope["rates"], axis=0) <= 0)


@pytest.mark.parametrize(
    "page", every_nth(sorted((ROOT / "docs" / "concepts").glob("*.md")), 6, name_of=lambda page: page.stem)
)
def test_the_code_of_a_concept_prints_what_its_comments_say(page, capsys):
    code = "\n".join(code_blocks(str(page.relative_to(ROOT))))
    run_code(code, page.name)
    printed = capsys.readouterr().out.splitlines()
    for expected in re.findall(r"print\(.*\)  # ([(\[][^a-z]*?[)\]])", code):
        assert expected in printed, expected


@pytest.mark.slow
@pytest.mark.full  # in short: the README
def test_an_arm_learns_from_reward_alone():
    """The page as it stands; without learning the hand ends about as far away as the targets, 10 cm."""
    page = "docs/how_to/reinforcement_learning.md"
    scope = run_code("\n".join(code_blocks(page)), page)
    with jax.numpy_dtype_promotion("standard"):
        start = popsim.make_ensemble(scope["build_arm"], 2, key=jax.random.key(0))
        untrained = popsim.evaluate_ensemble(start, scope["paid_reaches"], key=jax.random.key(2))
    assert np.all(scope["misses"] < 0.005)
    costs = {
        name: of.losses.terms["minus reward"].mean(1)
        for name, of in (("start", untrained), ("end", scope["evaluation"]))
    }
    assert np.all(costs["start"] > 3 * costs["end"])


def run_page(document):
    """What the code of a page leaves behind."""
    code = "\n".join(block for block in code_blocks(document) if "open_run" not in block)
    short = re.sub(r"n_batches=\d+", "n_batches=2", code)
    short = re.sub(r"batch_size=\d+", "batch_size=4", short)
    assert short != code
    if document == "README.md":
        short = short.replace("duration=1.0", "duration=0.1").replace("n_members=5", "n_members=2")
    registered = dict(popsim.networks.NETWORKS)
    try:
        return run_code(short, document)
    finally:
        popsim.networks.NETWORKS.clear()
        popsim.networks.NETWORKS.update(registered)


def test_the_files_and_names_exist():
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for path in re.findall(r"`((?:popsim|tasks|analysis|examples|tests|docs)/[\w/.]*)`", text):
            assert (ROOT / path).exists(), (document, path)
        for path in re.findall(r"\]\(([\w/.]+)\)", text):
            assert (ROOT / document).parent.joinpath(path).exists(), (document, path)


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory):
    """A folder with a small run that has a batch 99; its figures are not drawn, its summary is given."""
    folder = tmp_path_factory.mktemp("documents")
    small = CenterOut(n_members=3, n_batches=100, batch_size=2, n_units=4, duration=0.1, plant="point-mass")
    with pytest.MonkeyPatch.context() as patch:
        spare_center_out(patch)
        run_experiment(small, folder / "runs" / "center-out-0", quiet=True)
    shutil.copytree(folder / "runs" / "center-out-0", folder / "runs" / "slower")
    return folder


@pytest.mark.full
@pytest.mark.parametrize(
    ("page", "smaller"),
    [
        ("docs/start/ten_minutes.md", {}),
        ("docs/how_to/bodies.md", {}),
        ("docs/how_to/networks.md", {}),
        ("docs/how_to/runs.md", {"n_batches=": "2", "batch_size=": "4", "every_nth_batch\\(": "2"}),
        ("docs/how_to/selection.md", {"n_batches=": "41"}),
    ],
)
def test_the_code_about_what_is_there_runs(page, smaller, saved_run, monkeypatch):
    """On a saved run, a task and an ensemble, for fewer batches."""
    monkeypatch.chdir(saved_run)

    def build(key):
        return popsim.NetworkModel(popsim.networks.GRUNetwork(1, 4, 1, key=key), dt=0.01)

    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    scope = {"task": small_training.RunningSum(), "build": small_training.build, "ensemble": ensemble}
    blocks = code_blocks(page)
    blocks = [block for block in blocks if "open_run" in block] if page in LIBRARY_PAGES else blocks
    code = "\n".join(blocks)
    for name, number in smaller.items():
        code = re.sub(rf"({name})\d+", rf"\g<1>{number}", code)
    run_code(code, page, scope)
    plt.close("all")


@pytest.mark.full
def test_an_experiment_of_your_own_is_trained_and_shown(tmp_path, monkeypatch, capsys):
    """The module is found in the current folder, and by nothing but its name on the command line."""
    (block,) = code_blocks("docs/how_to/own_experiment.md")
    (tmp_path / "my_experiment.py").write_text(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", ())
    size = ["--members", "2", "--n-batches", "2", "--batch-size", "2", "--quiet"]
    train, show = commands("docs/how_to/own_experiment.md")
    try:
        with jax.numpy_dtype_promotion("standard"):
            main([*train[: train.index("--members")], *size])
            assert "trained                  1" in capsys.readouterr().out
            main(show)
        assert "runs/bits-0/report.html" in capsys.readouterr().out
        del EXPERIMENTS["bits"]
        with pytest.raises(SystemExit):
            main(show[2:])  # a registered name in a file brings nothing along
        assert "registered" in capsys.readouterr().err
        opened = popsim.open_run("runs/bits-0", build=sys.modules["my_experiment"].Bits)
        assert opened.experiment.n_bits == 3
    finally:
        EXPERIMENTS.pop("bits", None)
        sys.modules.pop("my_experiment", None)


def commands(document: str) -> list[list[str]]:
    """The arguments of the popsim commands in the blocks of bash that are no scripts."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    lines = [line for block in blocks if not block.startswith("#!") for line in block.splitlines()]
    found = (re.match(r"(?:[A-Z_0-9]+=\S+ )*popsim (.*)", line) for line in lines)
    return [shlex.split(each[1], comments=True) for each in found if each]


@pytest.mark.full  # in short: test_the_recipe_runs
@pytest.mark.parametrize("document", ["docs/start/ten_minutes.md", "docs/how_to/runs.md"])
def test_the_commands_run(document, saved_run, monkeypatch):
    """On the saved run; of those that train only whether they are understood."""
    monkeypatch.chdir(saved_run)
    monkeypatch.setattr(
        "popsim.cli._train.run_experiment", lambda *_, **__: popsim.open_run("runs/center-out-0")
    )
    monkeypatch.setattr("popsim.report.run_report.SECTIONS", ())
    spare_center_out(monkeypatch)
    assert commands(document)
    for arguments in commands(document):
        main(_small_sweep(arguments) if arguments[0] == "sweep" else arguments)


def _small_sweep(arguments: list[str]) -> list[str]:
    """A command that sweeps, with fewer and smaller networks."""
    fewer = {"n-units=32,64": "n-units=3", "0:5": "0:2"}
    size = ["--n-batches", "2", "--log-step", "1", "--batch-size", "2", "--duration", "0.1"]
    return [*(fewer.get(word, word) for word in arguments), *size, "--plant", "point-mass", "--quiet"]


# The second needs an account, the third is run by tests/gymnasium/test_stable_baselines.py.
RUN_ELSEWHERE = {"index", "wandb_mlflow", "stable_baselines"}
RECIPES = sorted({path.stem for path in (ROOT / "docs/how_to/recipes").glob("*.md")} - RUN_ELSEWHERE)
RECIPES_IN_SHORT = ("count_trained", "order_of_inputs", "select_trials")  # which need no run and no command


def recipe_code(code: str) -> str:
    """Code of a recipe, for small networks and few batches; those of two trainings stay in order."""
    code = re.sub(r"\b32\b", "8", code)
    code = re.sub(r"\blog_step=\d+", "log_step=2", code)
    return re.sub(
        r"(n_batches=|\"n_batches\": )(\d\d+)", lambda few: f"{few[1]}{int(few[2]) // 100 + 1}", code
    )


@pytest.fixture(scope="module")
def recipes_begin(tmp_path_factory):
    """What recipes begin with: a folder, where two small runs are made if asked for, and names."""
    folder = tmp_path_factory.mktemp("recipes")
    training, opening = map(recipe_code, code_blocks("docs/how_to/recipes/index.md"))
    with tiny_runs(tmp_path_factory) as folder_of_runs:
        trained = run_code(training, "docs/how_to/recipes/index.md")
        assert trained["history"].batch.size == 4

        @functools.cache
        def scope_with_run():
            for name in ("center-out-0", "slower"):
                made = folder_of_runs("center-out-0") / "runs" / "center-out-0"
                shutil.copytree(made, folder / "runs" / name)
            with contextlib.chdir(folder):
                return run_code(opening, "docs/how_to/recipes/index.md", dict(trained))

        yield folder, lambda with_run: dict(scope_with_run() if with_run else trained)


@pytest.mark.parametrize("recipe", mostly_in_full(RECIPES, RECIPES_IN_SHORT))
@pytest.mark.usefixtures("as_users_run")
def test_the_recipe_runs(recipe, recipes_begin, monkeypatch):
    """Its code, then its commands; several devices have stand-ins."""
    page = f"docs/how_to/recipes/{recipe}.md"
    folder, scope = recipes_begin
    monkeypatch.chdir(folder)
    update = jax.config.update
    monkeypatch.setattr(jax.config, "update", lambda name, value: "jax_num" in name or update(name, value))
    run_code(recipe_code("\n".join(code_blocks(page))), page, scope(recipe not in RECIPES_IN_SHORT))
    plt.close("all")
    monkeypatch.setattr(
        "popsim.cli._train.run_experiment", lambda *_, **__: popsim.open_run("runs/center-out-0")
    )
    monkeypatch.setattr("popsim.cli._train.training_devices", lambda count: jax.devices())
    spare_center_out(monkeypatch)
    run_elsewhere = commands("README.md") + commands("docs/how_to/runs.md")
    for arguments in commands(page):
        if arguments in run_elsewhere:
            continue
        main(_small_sweep(arguments) if arguments[:2] == ["sweep", "center-out"] else arguments)


FAKE = """#!/usr/bin/env python3
import os, signal, sys, time
got = []
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda *_: got.append(1))
open("began", "w").close()
while os.environ["CODE"] == "75" and not got:
    time.sleep(0.01)
time.sleep(0.3)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.mark.parametrize(
    ("signals", "code", "requeued"), [(["USR1", "USR1", "TERM"], 75, True), (["TERM"], 75, False)]
)
def test_the_job_script_passes_signals_on_and_requeues(signals, code, requeued, tmp_path):
    """With stand-ins for popsim, which answers a signal late, and for the scheduler."""
    (script,) = re.findall(r"```bash\n(#!.*?)```", (ROOT / "docs/how_to/runs.md").read_text(), re.DOTALL)
    for name, text in (("popsim", FAKE), ("scontrol", '#!/bin/sh\necho "$@" > requeued\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "SLURM_JOB_ID": "7", "CODE": str(code)}
    job = subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=environment)
    while not (tmp_path / "began").exists():
        time.sleep(0.01)
    for name in signals:
        job.send_signal(getattr(signal, f"SIG{name}"))
        time.sleep(0.1)
    assert job.wait(timeout=60) == code
    assert (tmp_path / "requeued").exists() == requeued
    assert not requeued or (tmp_path / "requeued").read_text() == "requeue 7\n"
