"""Processes that start in no time: a server imports popsim once, and forks one for each job.

Run as a script, it forks a process for each line of JSON on its standard input, `{"job": "train", ...}`, and
answers with one line of JSON. It imports JAX without beginning its backend, which no fork would survive.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

CACHED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_PLATFORMS": "cpu",
    "MPLBACKEND": "agg",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


class ForkServer:
    """Runs jobs of `faults.jobs`, each in a process of its own: `ForkServer().run("train", path=path)`.

    The processes share the programs that they compile.
    """

    def __init__(self) -> None:
        self._compiled = tempfile.TemporaryDirectory()
        os.chmod(self._compiled.name, 0o755)
        self.environment = os.environ | CACHED | {"JAX_COMPILATION_CACHE_DIR": self._compiled.name}
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def run(self, job: str, **command: Any) -> dict[str, Any]:
        """Run one process to its end.

        **Arguments:**

        - `job`: the name of a function in `faults.jobs`.
        - `stop_after`: how many seconds after its first report the process is stopped (SIGSTOP), ascending.
        - `copies`: where to copy the folder `path` each time that the process is stopped, by others or by
            itself: what is then there is what a SIGKILL at this time would leave. Then it goes on.
        - others: arguments of the job.

        **Returns:** what it reported, its exit `status`, negative for a signal, the `seconds` that it took,
        what it `said` on standard output and error, and what it had reported at each of its `stops`.
        """
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps({"job": job, **command}, default=str) + "\n")
        self._server.stdin.flush()
        if not (line := self._server.stdout.readline()):
            raise RuntimeError(f"the server has ended with {self._server.wait()}, at the job {job}.")
        return json.loads(line)

    def close(self) -> None:
        """End the server."""
        self._server.communicate()
        self._compiled.cleanup()

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Child:
    """A forked process, and what comes out of it."""

    def __init__(self, command: dict[str, Any]):
        self._began = time.monotonic()
        self._copies = command.pop("copies", None)
        self._source = command.get("path")
        self._stop_after = command.pop("stop_after", [])
        self._first_report = float("inf")
        (self._reported, reporting), (self._said, saying) = os.pipe(), os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _work(command, reporting, saying)
        os.close(reporting)
        os.close(saying)
        self._output = {self._reported: b"", self._said: b""}
        self._stops: list[dict[str, Any]] = []

    def finish(self) -> dict[str, Any]:
        """Wait for its end, and tell what came of it."""
        with selectors.DefaultSelector() as selector:
            for reading in self._output:
                selector.register(reading, selectors.EVENT_READ)
            while True:
                gone, status = os.waitpid(self._process, os.WNOHANG | os.WUNTRACED)
                self._read(selector)
                if gone and os.WIFSTOPPED(status):
                    self._copy()
                elif gone:
                    break
                if self._stop_after and time.monotonic() > self._first_report + self._stop_after[0]:
                    del self._stop_after[0]
                    os.kill(self._process, signal.SIGSTOP)
            while selector.get_map():
                self._read(selector)
        return self._values() | {
            "status": os.waitstatus_to_exitcode(status),
            "seconds": time.monotonic() - self._began,
            "ended": time.monotonic(),
            "said": self._output[self._said].decode(errors="replace"),
            "stops": self._stops,
        }

    def _read(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(0.005):
            assert isinstance(key.fileobj, int)
            piece = os.read(key.fileobj, 2**20)
            self._output[key.fileobj] += piece
            if key.fileobj == self._reported:
                self._first_report = min(self._first_report, time.monotonic())
            if not piece:
                selector.unregister(key.fileobj)
                os.close(key.fileobj)

    def _copy(self) -> None:
        if self._copies is not None:
            target = Path(self._copies, f"{len(self._stops):03d}")
            if Path(str(self._source)).is_dir():
                shutil.copytree(str(self._source), target)
            else:
                target.mkdir()
            self._stops.append({"path": str(target), **self._values()})
        os.kill(self._process, signal.SIGCONT)

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for line in self._output[self._reported].split(b"\n")[:-1]:
            values |= json.loads(line)
        return values


def _work(command: dict[str, Any], reporting: int, saying: int) -> None:
    """The forked process: never returns."""
    os.dup2(saying, 1)
    os.dup2(saying, 2)
    status = 1
    try:
        from faults import jobs

        def report(**values: Any) -> None:
            os.write(reporting, (json.dumps(values) + "\n").encode())

        try:
            getattr(jobs, command.pop("job"))(report, **command)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(bool(end.code))
        except BaseException as error:
            report(error=type(error).__name__, message=str(error))
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _serve() -> None:
    # All that the jobs need, imported once.
    import matplotlib.pyplot  # noqa: F401
    import safetensors.numpy  # noqa: F401
    import xarray  # noqa: F401

    import popsim.cli  # noqa: F401

    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called")
    for line in sys.stdin:
        print(json.dumps(_Child(json.loads(line)).finish()), flush=True)


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, in which no module is sought
    _serve()
