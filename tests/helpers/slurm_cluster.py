"""A SLURM of one machine: a controller and two nodes, in a folder, without systemd, cgroups or accounting."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

COMMANDS = ("slurmctld", "slurmd", "munged", "sbatch", "scontrol", "squeue", "scancel")
CONFIG = """
ClusterName=popsim
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmctldTimeout=10
SlurmdTimeout=10
KillWait=15
MinJobAge=300
ReturnToService=2
JobRequeue=1
MaxArraySize=1001
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=all Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """What is needed and not installed."""
    return ", ".join(
        name for name in COMMANDS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None
    )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as sockets:
        found = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


class SlurmCluster:
    """A cluster that runs within `with SlurmCluster(folder) as cluster`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        self.env["PATH"] += ":/usr/sbin"
        self._processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "SlurmCluster":
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        host = socket.gethostname().partition(".")[0]
        config = CONFIG.format(host=host, folder=self.folder, ports=_free_ports(3))
        (self.folder / "slurm.conf").write_text(config)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        place = self.folder
        files = [f"--{name}-file={place}/munge.{name}" for name in ("pid", "log", "seed", "key")]
        self._start("munged", "--foreground", "--force", f"--socket={place}/munge.socket", *files)
        self._wait_for(lambda: (self.folder / "munge.socket").exists())
        self._start("slurmctld", "-D", "-c")
        for node in ("node1", "node2"):
            self.start_node(node)
        self._wait_for(lambda: self.run("sinfo", "-h", "-o", "%T %D").split() == ["idle", "2"])
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.run("scancel", "-u", "root", "--signal=KILL", "--full")
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()

    def _start(self, name: str, *arguments: str, called: str | None = None) -> None:
        with (self.folder / f"{called or name}.out").open("w") as out:
            self._processes[called or name] = subprocess.Popen(
                [name, *arguments], env=self.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def start_node(self, node: str) -> None:
        """Start the process of a node."""
        self._start("slurmd", "-D", "-N", node, called=node)

    def lose_node(self, node: str) -> None:
        """Kill a node with all that runs on it, as when it loses its power."""
        self._processes[node].send_signal(signal.SIGKILL)
        self._processes[node].wait()
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
        for status in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"SLURMD_NODENAME={node}".encode() in status.read_bytes().split(b"\0"):
                    os.kill(int(status.parent.name), signal.SIGKILL)

    def run(self, *command: str) -> str:
        """Run a command of SLURM, and return what it prints."""
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True).stdout

    def submit(self, script: Path, **env: str) -> str:
        """Submit a job, and return its number."""
        ran = subprocess.run(
            ["sbatch", "--parsable", str(script)],
            env=self.env | env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def tasks(self, job: str) -> dict[int, tuple[str, str, int]]:
        """Return state, node and number of restarts of each task of an array that is known."""
        found = {}
        for line in self.run("scontrol", "show", "job", "-o", job).splitlines():
            words = dict(word.partition("=")[::2] for word in line.split())
            if (number := words.get("ArrayTaskId", "")).isdigit():
                found[int(number)] = (words["JobState"], words.get("NodeList", ""), int(words["Restarts"]))
        return found

    def wait(self, job: str, seconds: float = 400) -> None:
        """Wait until no task of an array is pending or running."""
        self._wait_for(lambda: not self.run("squeue", "-h", "-j", job).strip(), seconds)

    def _wait_for(self, is_so, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(subprocess.CalledProcessError):
                if is_so():
                    return
            assert time.monotonic() < until, "\n".join(
                f"== {file.name}\n{file.read_text()[-2000:]}" for file in self.folder.glob("*.out")
            )
            time.sleep(0.3)
