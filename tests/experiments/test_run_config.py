"""The settings of a run as YAML: what is written is read again, and nothing in it is trusted."""

import dataclasses
import json
import os
import shutil
import warnings

import pytest
import yaml
from kept_runs import SMALL, finished_run, stopped_run
from small_experiment import Sum

from popsim.cli import main
from popsim.experiments import (
    CenterOut,
    NewRunOptions,
    Recording,
    open_run,
    register_experiment,
    resume_run,
    run_experiment,
    verify_run,
)
from popsim.experiments.run_config import config_text, read_run_config
from popsim.experiments.settings import setting
from popsim.store.run_folder import CONFIG_DIGEST


@register_experiment
@dataclasses.dataclass(frozen=True)
class Texts(Sum):
    """An experiment with texts."""

    name = "texts"
    member_settings = {"rate": "trainer"}
    text: str = setting("none", "what a stranger wrote\x1b[2J")
    maybe: str | None = None
    mapping: dict[str, str] | None = None
    rate: float = setting(0.1, "how fast", "1/s")
    flag: bool = False


@pytest.mark.parametrize(
    "experiment",
    [
        CenterOut(plant="arm26", vision_noise=(0.0, 0.1), first_member=3),
        CenterOut(n_members=4, grid=(("learning_rate", (1e-3, 1e-2)),)),
        Texts(text="null", maybe="None"),
        Texts(text="a\nexperiment: b", maybe="é\u2028x"),
        Texts(flag=True, rate=1e-7, mapping={"a b": "c"}),
        Texts(n_members=2, grid=(("rate", (0.1, 0.2)),)),
    ],
    ids=lambda experiment: experiment.name,
)
def test_what_is_written_is_read_again(experiment, tmp_path):
    options = NewRunOptions(recording=Recording("every 10", float16=True), checkpoint_seconds=12.5)
    text = config_text(experiment, options)
    (tmp_path / "run.yaml").write_text(text)
    assert read_run_config(tmp_path / "run.yaml") == (experiment, options)
    assert yaml.safe_load(text)["experiment"] == experiment.name  # for any other reader, too
    assert text.isprintable() or set(c for c in text if not c.isprintable()) <= {"\n"}


def test_settings_have_comments_and_units():
    lines = config_text(CenterOut(plant="arm26"), NewRunOptions()).splitlines()
    place = lines.index("  n_batches: 1000")
    assert lines[place - 1] == "  # number of training batches"
    assert "  vision_noise: [0.002, 0.02]  # m, m/s" in lines and "  dt: 0.01  # s" in lines
    assert "  motor_noise: null  # in effect: 0.05 of the command, 0.002 of full excitation" in lines
    of_own = config_text(Texts(), NewRunOptions()).splitlines()
    assert "  # how fast, 1/s" in of_own and "  rate: 0.1  # 1/s" in of_own
    assert f"popsim --import {Texts.__module__} train" in of_own[1]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("settings: {}", "entry `experiment`"),
        ("experiment: sum\nsetings: {}", "Perhaps you meant settings"),
        ("experiment: summ", "Perhaps you meant sum"),
        ("experiment: sum\nsettings: {n_batchs: 3}", "Perhaps you meant n-batches"),
        (
            "experiment: sum\nsettings: {n_batches: many}",
            "`n_batches` must be a value of its type, got 'many': Expected `int`",
        ),
        ("experiment: sum\nsettings: {n_batches: 2, n-batches: 3}", "each setting once"),
        ("experiment: sum\nsettings: [1]", "values by name"),
        ("experiment: sum\nsettings: {seed: 1}\nsettings: {seed: 2}", "each key once, got 'settings' again"),
        ("experiment: sum\nkeep: sometimes", "`trainables` must be"),
        ("experiment: !!python/object/apply:os.system [ls]", "got ['ls']"),
        ("experiment: " + "[" * 10**5, "YAML file"),
        ("experiment: sum\n" + "#" * 2**17, "at most"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(text, named, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        read_run_config(path)
    assert named in str(error.value) and "mine.yaml" in str(error.value)


@pytest.fixture
def finished(tmp_path_factory):
    return finished_run(tmp_path_factory)


@pytest.mark.slow
def test_a_run_trains_with_the_settings_of_another(finished, tmp_path, capsys):
    out, config = tmp_path / "other", str(finished / "run.yaml")
    main(["train", "--config", config, "--seed", "1", "--out", str(out), "--quiet", "--devices", "1"])
    run = open_run(out)
    assert run.experiment == dataclasses.replace(SMALL, seed=1)
    assert json.loads((out / "run.json").read_text())["recording"]["trainables"] == "every 2"
    assert "  seed: 1" in (out / "run.yaml").read_text()
    for words in (["center-out", f"--config={config}"], ["--config"], ["--config", config, "--wings", "2"]):
        with pytest.raises(SystemExit) as end:
            main(["train", *words])
        assert end.value.code == 2
    assert "'center-out'" in capsys.readouterr().err


@pytest.mark.slow
def test_an_edited_or_lost_file_is_noticed_and_never_read(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    assert verify_run(run) == {}
    config = run / "run.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 7"))
    assert list(verify_run(run)) == ["run.yaml"] and open_run(run).experiment.seed == 0
    assert resume_run(run, quiet=True).experiment.seed == 0
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run_experiment(SMALL, run, overwrite=True, quiet=True)
    assert "seed: 7" in config.read_text() and "run.yaml" in str(
        warned[0].message
    )  # it may be somebody's work
    config.unlink()
    run_experiment(SMALL, run, overwrite=True, quiet=True)
    assert verify_run(run) == {} and "seed: 0" in config.read_text()
    config.unlink()
    assert list(verify_run(run)) == ["run.yaml"]


@pytest.mark.full
@pytest.mark.slow
def test_what_a_kill_kept_from_being_written_is_written_on_resuming(tmp_path, tmp_path_factory):
    run = shutil.copytree(stopped_run(tmp_path_factory), tmp_path / "run")
    digest = json.loads((run / "run.json").read_text())[CONFIG_DIGEST]
    text = (run / "run.yaml").read_text()
    os.unlink(run / "run.yaml")
    resume_run(run, quiet=True)
    assert (run / "run.yaml").read_text() == text and verify_run(run) == {}
    assert json.loads((run / "run.json").read_text())[CONFIG_DIGEST] == digest
    replaced = dataclasses.replace(SMALL, seed=2)
    run_experiment(replaced, run, overwrite=True, quiet=True)
    assert "seed: 2" in (run / "run.yaml").read_text() and verify_run(run) == {}
