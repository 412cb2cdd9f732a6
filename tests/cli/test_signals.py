"""Signals are answered; a closed terminal is one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from popsim.cli import _signals as signals
from popsim.cli._signals import SIGNALS, stop_on_signals

WAITING = """
import runpy, sys, time
with runpy.run_path(sys.argv[1])["stop_on_signals"](lambda: "idle") as stop:
    print("asked" if stop() else "", "ready", flush=True)
    while not stop():
        time.sleep(0.01)
print("said to nobody")
print("said to nobody", file=sys.stderr)
sys.exit(75)
"""

WAITING_IN_AN_IMPORT = """
import time
print("ready", flush=True)
try:
    time.sleep(60)
except BaseException as error:
    raise ImportError("an import that loses what was raised in it") from error
"""
WAITING_IN_A_COMMAND = """
import tempfile, time
import matplotlib
from popsim.cli._commands import List
def wait(command):
    with tempfile.TemporaryDirectory(dir="."):
        assert matplotlib.rcParams["animation.ffmpeg_path"] == "ffmpeg"
        print("ready", flush=True)
        time.sleep(60)
List.run = wait
"""


@pytest.mark.parametrize("name", SIGNALS)
def test_each_signal_says_stop_and_is_given_back(name):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with stop_on_signals(lambda: "") as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
    assert signal.getsignal(number) is before


def test_a_hangup_that_is_ignored_at_the_start_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(lambda: "") as stop:
            assert not stop()
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_stops_the_command_which_ends_with_code_75():
    """What it says afterwards goes nowhere, and is no error."""
    ours, theirs = os.openpty()
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    start = take + "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    words = [sys.executable, "-c", start, "-c", WAITING, str(Path(signals.__file__))]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    command = subprocess.Popen(words, **pipes, start_new_session=True)
    os.close(theirs)
    said = b""
    while b"ready" not in said:
        said += os.read(ours, 100)
    os.close(ours)
    assert command.wait(timeout=60) == 75


@pytest.mark.parametrize(("name", "warns"), [("SIGINT", False), ("SIGTERM", True)])
def test_a_signal_ends_any_command_at_any_time_in_one_line(name, warns, tmp_path):
    """What the command would have removed in the end is gone.

    And settings of matplotlib in the current folder, which may be a run that another person made, are not
    read: they may name programs, which it starts.
    """
    (tmp_path / "waits.py").write_text(WAITING_IN_A_COMMAND if warns else WAITING_IN_AN_IMPORT)
    if warns:
        (tmp_path / "matplotlibrc").write_text("animation.ffmpeg_path: ./theirs\n")
    words = [sys.executable, "-m", "popsim.cli", "--import", "waits", "list"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as command:
        assert command.stdout is not None and command.stdout.readline() == "ready\n"
        command.send_signal(getattr(signal, name))
        out, said = command.communicate(timeout=60)
    assert (command.returncode, out) == (75, "") and said.endswith(f"popsim: stopped by {name}\n")
    assert said.count("\n") == 1 + warns and ("matplotlibrc in this folder is not read" in said) == warns
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"waits.py", "matplotlibrc", "__pycache__"}
