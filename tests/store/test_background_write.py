import os
import signal
import subprocess
import sys
import threading

import pytest

from popsim.store import checkpoints as background_write
from popsim.store.checkpoints import BackgroundWrite


def _fail(message):
    raise OSError(message)


def test_writes_run_one_after_the_other_and_do_not_block():
    order, go = [], threading.Event()
    writes = BackgroundWrite()
    writes.wait()
    writes.start(lambda: (go.wait(10), order.append(1)))
    assert order == []
    go.set()
    writes.start(lambda: order.append(2))
    writes.wait()
    assert order == [1, 2]


def test_a_failure_is_raised_once():
    writes = BackgroundWrite()
    writes.start(lambda: _fail("first"))
    with pytest.raises(OSError, match="first"):
        writes.start(lambda: _fail("must not run"))
    writes.wait()
    writes.start(lambda: _fail("second"))
    with pytest.raises(OSError, match="second"):
        writes.wait()
    writes.wait()


def test_a_failure_that_nobody_waits_for_is_printed_at_the_end():
    script = (
        "import runpy; made = runpy.run_path(__import__('sys').argv[1])\n"
        "made['BackgroundWrite']().start(lambda: 1 / 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, background_write.__file__], capture_output=True, text=True
    )
    assert "ZeroDivisionError" in ended.stderr


def test_a_wait_that_is_interrupted_again_and_again_loses_nothing():
    writes, go = BackgroundWrite(), threading.Event()
    writes.start(lambda: (go.wait(20), _fail("late")))
    for _ in range(3):
        interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            writes.wait()
        interrupt.join()
    go.set()
    with pytest.raises(OSError, match="late"):
        writes.wait()


def test_a_thread_that_cannot_be_started_leaves_nothing_to_wait_for(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    writes, done = BackgroundWrite(), []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="start new thread"):
            writes.start(lambda: done.append("never"))
    writes.start(lambda: done.append("then"))
    writes.wait()
    assert done == ["then"]
