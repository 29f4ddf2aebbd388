"""Running other programs: pinned, timed, and never left behind."""

import dataclasses
import os
import resource
import shutil
import signal
import subprocess
import time

# The Debian package each program is in.
PACKAGES = {
    "likwid-bench": "likwid",
    "stress-ng": "stress-ng",
    "sysbench": "sysbench",
    "fio": "fio",
    "iperf3": "iperf3",
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "taskset": "util-linux",
}


class Unavailable(Exception):
    """Words for the user: what cannot be measured here, and what to do."""


@dataclasses.dataclass
class Ended:
    """What a command left: its output, and what it took in seconds."""

    stdout: str
    stderr: str
    wall_seconds: float
    cpu_seconds: float


def missing_packages():
    """Debian packages of the programs that are not installed, sorted."""
    return sorted({package for tool, package in PACKAGES.items() if not shutil.which(tool)})


def require(*tools):
    """Raises Unavailable with the apt-get line when a program is missing."""
    missing = sorted({PACKAGES[tool] for tool in tools if not shutil.which(tool)})
    if missing:
        raise Unavailable(f"not installed: apt-get install {' '.join(missing)}")


def on_cpus(cpus, argv):
    """`argv` confined to `cpus`."""
    return ["taskset", "-c", ",".join(map(str, cpus)), *argv]


def run(argv, timeout_seconds=60, tells_in_stdout=False):
    """Runs `argv` to its end. Raises Unavailable with its own last words when
    it fails, unless its output says why; ends it and its children when it
    takes too long."""
    began = time.monotonic()
    cpu = children_cpu_seconds()
    with Child(argv, stdout=subprocess.PIPE) as child:
        try:
            stdout, stderr = child.process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{name_of(argv)} did not end within {timeout_seconds} s") from None
    if child.process.returncode != 0 and not (tells_in_stdout and stdout):
        raise Unavailable(f"{name_of(argv)}: {last_words(stderr or stdout)}")
    wall = time.monotonic() - began
    return Ended(stdout, stderr, wall, children_cpu_seconds() - cpu)


class Child:
    """A program in a process group of its own, ended when the block ends."""

    def __init__(self, argv, stdout=subprocess.DEVNULL):
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{argv[0]}: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Until it is waited for, its id is nobody else's.
        for kind in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                break
            os.killpg(self.process.pid, kind)
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                pass
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def children_cpu_seconds():
    """CPU time of all children that ended so far, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def last_words(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # clap explains how to get help after it said what is wrong.
    told = [line for line in lines if line.startswith(("error:", "jostle:"))]
    return (told or lines or ["failed without a word"])[-1].removeprefix("jostle: ")


def name_of(argv):
    """The program that is meant, behind taskset and ip netns exec."""
    words = list(argv)
    if words[:3] == ["ip", "netns", "exec"]:
        words = words[4:]
    if words[0] == "taskset":
        words = words[3:]
    return os.path.basename(words[0])
