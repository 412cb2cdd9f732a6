"""What a training shows: seconds of a compilation that move, and a time left that counts none of them."""

import dataclasses
import io
import re

import jax
import pytest
from small_training import OPTIMIZER, train

from popsim._shared.waiting import waiting_line
from popsim.training import Observer, TaskTrainer, TrainingStart
from popsim.training.progress import ProgressLines

CONTROL = re.compile(r"[\r\x1b]")


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self):
        return True


class Clock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self):
        return self.now


class Recorder(Observer):
    """Notes what it is told."""

    def __init__(self):
        self.events = []

    def on_begin(self, start):
        self.events.append(start)

    def on_compilation(self, program):
        self.events.append(program)

    def on_batches(self, batches):
        self.batches = batches
        self.events.append(batches.count)

    def on_log_point(self, entry):
        self.entry = entry
        self.events.append("log")

    def on_end(self, error):
        self.events.append("end")


@pytest.fixture(scope="module")
def recorder():
    """What an observer is told of a training in two phases, with a log point in each."""
    recorder = Recorder()
    phases = {0: lambda model: model.network, 3: lambda model: model.network.readout}
    train(6, trainer=TaskTrainer(OPTIMIZER, observers=[recorder]), where_train=phases, log_step=2)
    return recorder


@pytest.fixture
def clock(monkeypatch):
    """The clock of the bar and of tqdm."""
    clock = Clock()
    monkeypatch.setattr("popsim.training.progress.time.perf_counter", clock)
    monkeypatch.setattr("tqdm.std.time", clock)
    return clock


def write_to(monkeypatch, stream):
    """Make a stream standard error; pytest sets its own after the fixtures are made."""
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def batches(recorder, count):
    return dataclasses.replace(recorder.batches, count=count)


def run_events(observer, recorder, clock):
    """One batch with a compilation of 20 s, ten in 1 s, a compiled log point of 5 s, another phase."""
    observer.on_begin(TrainingStart(first_batch=0, n_batches=111, n_members=2, n_trained=41))
    clock.now = 1.0
    observer.on_compilation("training")
    clock.now = 21.0
    observer.on_batches(batches(recorder, 1))
    observer.on_pause(0)
    clock.now = 22.0
    observer.on_batches(batches(recorder, 10))
    observer.on_compilation("validation")
    clock.now = 27.0
    observer.on_log_point(recorder.entry)
    observer.on_pause(10)
    observer.on_compilation("training")
    clock.now = 57.0
    observer.on_batches(batches(recorder, 5))
    observer.on_pause(15)
    clock.now = 58.0
    observer.on_batches(batches(recorder, 10))


def test_observers_are_told_of_each_compilation(recorder):
    start, *events = recorder.events
    assert start == TrainingStart(first_batch=0, n_batches=6, n_members=2, n_trained=41)
    assert events[0] == "training" and events[-1] == "end"
    assert events.count("training") == 2 and events.count("validation") == 1
    assert events[events.index("validation") + 1] == "log"
    assert sum(event for event in events if isinstance(event, int)) == 6


def test_a_pipe_gets_lines_without_control_characters(recorder, clock, monkeypatch):
    pipe = write_to(monkeypatch, io.StringIO())
    lines = ProgressLines()
    run_events(lines, recorder, clock)
    lines.on_end(None)
    said = pipe.getvalue()
    assert not CONTROL.search(said)
    assert said.splitlines()[:2] == ["training 41 numbers in each of 2 members", "compiling"]
    assert "training: 26/111 batches, 10 batch/s, 00:08 left, loss" in said.splitlines()[-1]


def test_a_line_waits_in_a_terminal_and_disappears(monkeypatch):
    terminal = write_to(monkeypatch, Terminal())
    with waiting_line("building 2 networks"):
        assert terminal.getvalue().endswith("building 2 networks … 0 s")
    assert terminal.getvalue().endswith("\r")
    before = terminal.getvalue()
    with waiting_line("drawing", disable=True):
        pass
    assert terminal.getvalue() == before
    pipe = write_to(monkeypatch, io.StringIO())
    with pytest.raises(KeyError), waiting_line("drawing"):
        raise KeyError
    assert pipe.getvalue() == ""


@pytest.mark.full
def test_one_device_that_is_named_compiles_one_program(count_compilations):
    trainer = TaskTrainer(OPTIMIZER, devices=jax.local_devices()[:1])
    train(1, trainer=trainer, log_step=1)
    with count_compilations() as compiled:
        train(6, trainer=trainer, log_step=1)
    assert compiled == []
