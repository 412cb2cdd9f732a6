"""Processes that save checkpoints until they are killed, run out of disk, or may not write.

Run as a script, it imports once, and forks a process for each line of JSON on its standard input:
`{"job": "save", "path": ...}`. The answer is one line of JSON too.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np

WATCHED = ("open", "os.rename", "os.mkdir", "os.scandir")
REMOVING = ("os.rmdir", "os.remove")  # by names relative to an open folder


def saved_arrays(step: int) -> dict[str, np.ndarray]:
    """What the process saves at a step; arrays of zero length, of one number, and of many files."""
    rng = np.random.default_rng(step)
    return {
        "weight": rng.standard_normal((64, 50), np.float32),
        "step": np.asarray(step, np.int32),
        "none": np.zeros((0, 3), np.float32),
    }


def expected_arrays(details: dict) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and dtypes of `saved_arrays`."""
    return {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in saved_arrays(0).items()}


class SavingProcess:
    """Starts processes that save: `SavingProcess().run(job="save", path=path)`."""

    def __init__(self):
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def run(self, **command) -> dict:
        """Run one process to its end, and return its `status`, what it had `done`, and its `error`."""
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps(command, default=str) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def close(self) -> None:
        """End the server."""
        self._server.communicate()


def _kill_at_operation(number: int, path: str, count: list[int]) -> None:
    """SIGKILL at the given file operation below `path`, all threads counted."""

    def watch(event: str, arguments: tuple) -> None:
        if event in REMOVING or (event in WATCHED and str(arguments[0]).startswith(path)):
            count[0] += 1
            if count[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _work(command: dict, report) -> None:
    from popsim.store.checkpoints import Checkpoints
    from popsim.store.identity import lock_folder

    count = [0]
    path = Path(command["path"])
    if command["job"] == "lock":
        with lock_folder(path):
            report(locked=(path / "run.lock.json").read_text())
            if command.get("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
        return
    checkpoints = Checkpoints(path, n_kept=2)
    if command["job"] == "read":
        checkpoints.restore(expected_arrays, step=command["warm_up"])
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            checkpoints.restore(expected_arrays, step=command["step"])
        finally:
            report(seconds=time.process_time() - start)
            report(megabytes=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
        return
    if "operation" in command:
        _kill_at_operation(command["operation"], str(path), count)
    if "seconds" in command:
        threading.Timer(command["seconds"], os.kill, (os.getpid(), signal.SIGKILL)).start()
    if "file_size" in command:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command["file_size"],) * 2)
    for step in command["steps"]:
        checkpoints.save(step, saved_arrays(step), {"step": step})
        checkpoints.wait()
        report(done=step)
    report(operations=count[0])


def _forked(command: dict) -> dict:
    """Work in a forked process, and collect what it reports."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:

        def report(**values) -> None:
            os.write(writing, (json.dumps(values) + "\n").encode())

        try:
            if "user" in command:
                os.setuid(command["user"])
            _work(command, report)
        except BaseException as error:
            report(error=type(error).__name__, message=str(error), cause=repr(error.__cause__))
        os._exit(0)
    os.close(writing)
    answer = {}
    with os.fdopen(reading) as lines:
        for line in lines:
            answer |= json.loads(line)
    return answer | {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}


if __name__ == "__main__":
    import safetensors.numpy  # noqa: F401

    import popsim.store.checkpoints  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(_forked(json.loads(line))), flush=True)
