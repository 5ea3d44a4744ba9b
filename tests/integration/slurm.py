"""A real Slurm on the local machine for tests: a controller, a node and their own munge."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=20
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/node.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Return why Slurm cannot be started on this machine; an empty string if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {', '.join(missing)}: apt install slurm-wlm munge"
    return "Slurm's programs must be started as root" if os.geteuid() else ""


def start(folder: Path) -> dict[str, str]:
    """Start Slurm; return the environment variables that its commands need."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    munge = ["munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
    munge += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
    subprocess.run(munge, check=True)
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    host = socket.gethostname().partition(".")[0]
    file = folder / "slurm.conf"
    file.write_text(
        CONFIGURATION.format(host=host, ports=ports, folder=folder, cpus=os.cpu_count())
    )
    environment = {"SLURM_CONF": str(file)}
    for program in ("slurmctld", "slurmd"):
        subprocess.run([program], env=os.environ | environment, check=True)
    deadline = time.monotonic() + 60
    while "idle" not in call(environment, "sinfo", "--noheader", "--format=%T"):
        assert time.monotonic() < deadline, (folder / "node.log").read_text()
        time.sleep(0.2)
    return environment


def stop(folder: Path) -> None:
    """Stop the Slurm programs whose process ids are in ``folder``."""
    for name in ("node.pid", "controller.pid", "munge.pid"):
        if (folder / name).is_file():
            os.kill(int((folder / name).read_text()), signal.SIGTERM)


def call(environment: dict[str, str], *words: str) -> str:
    """Run a Slurm command and return its output."""
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True)
    return done.stdout
