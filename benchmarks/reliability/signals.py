"""Promise 2: SIGTERM, SIGINT and SIGHUP end `popsim train` with code 75, and nothing is lost.

Within 10 s of the signal, which the command sends itself: as it takes the folder, as it describes the run,
while the training is compiled, between batches, while a checkpoint is written, and there twice. What it
leaves is finished by `resume_run`, or begun anew where there is no run yet, and compared by SHA-256 with a
run that was never interrupted. Seconds are from the signal to the end of the process.
"""

import argparse
import shlex
import signal
import tempfile
from pathlib import Path
from typing import Any

from fault_table import Table
from faults.fork_server import ForkServer
from faults.moments import MOMENTS, arguments_for

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
EXIT_CODE, LIMIT = 75, 10.0


def complaints(answer: dict[str, Any], path: Path, moment: str) -> list[str]:
    """What is wrong with the end of a command."""
    wrong = []
    if answer["status"] != EXIT_CODE:
        wrong.append(f"exit code {answer['status']}: {answer['said'][-300:]}")
    if answer["ended"] - answer.get("sent", answer["ended"]) > LIMIT:
        wrong.append("too slow")
    lines = answer["said"].strip().splitlines()
    resume = f"to continue: popsim --import faults.trainings resume {shlex.quote(str(path))}"
    can_continue = resume in (lines[-1] if lines else "")
    if can_continue != (path / "run.json").exists():
        wrong.append(f"it said {lines}")
    if moment.startswith("saving") and not any((path / "checkpoints").glob("0*")):
        wrong.append("no checkpoint")
    return wrong


def main() -> None:
    """Signal, finish, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", nargs="+", default=SIGNALS)
    signals = parser.parse_args().signals
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which are ignored in the background and
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under `nohup`, and then by what is started from there
    table = Table("signals", "code 75", "most s", "equal")
    with ForkServer() as server, tempfile.TemporaryDirectory() as name:
        expected = server.run("run", path=str(Path(name, "whole")))["digests"]
        for moment in MOMENTS:
            # What a signal does does not depend on which it is: all of them at one moment.
            sent = signals if moment == "training" else signals[:1]
            paths = {signal: Path(name, f"{moment} {signal}") for signal in sent}
            ends = {
                signal: server.run(
                    "command", path=str(path), arguments=arguments_for(path), send=(signal, moment)
                )
                for signal, path in paths.items()
            }
            wrong = [
                f"{signal}, {moment}: {complaint}"
                for signal, path in paths.items()
                for complaint in complaints(ends[signal], path, moment)
            ]
            results = server.run("resume_all", kind="run", paths=[str(path) for path in paths.values()])
            equal = [signal for signal, path in paths.items() if results.get(str(path)) == expected]
            wrong += [
                f"{signal}, {moment}: {results.get(str(paths[signal]))}"
                for signal in sent
                if signal not in equal
            ]
            n_stopped = sum(end["status"] == EXIT_CODE for end in ends.values())
            slowest = max(end["ended"] - end.get("sent", float("-inf")) for end in ends.values())
            table.row(moment, len(ends), n_stopped, f"{slowest:.2f}", len(equal), failures=wrong)
    table.finish()


if __name__ == "__main__":
    main()
