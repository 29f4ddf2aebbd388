"""Two network namespaces joined by a cable that exists only in memory."""

import os
import subprocess
import time

from commands import Child
from commands import Unavailable
from commands import last_words
from commands import name_of
from commands import on_cpus
from commands import require

# Addresses set aside for benchmarks; seen only inside of the namespaces.
NEAR = "198.18.0.1"
FAR = "198.18.0.2"
NETMASK = 24


class Wires:
    """A cable, full speed or held to `megabits_per_second`, the near end's
    programs on one CPU and the far end's on another where there is one.
    Removed when the block ends."""

    made = 0

    def __init__(self, near_cpu, far_cpu, megabits_per_second=None):
        Wires.made += 1
        self.names = [f"jostle-peers-{os.getpid()}-{Wires.made}-{end}" for end in ("near", "far")]
        self.cpus = (near_cpu, far_cpu)
        self.megabits_per_second = megabits_per_second
        self.far_address = FAR
        self.servers = {}

    def __enter__(self):
        require("ip", "tc", "ss")
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root; run this as root")
        near, far = self.names
        try:
            for name in self.names:
                setup("ip", "netns", "add", name)
            setup("ip", "-n", near, "link", "add", "wire", "type", "veth",
                  "peer", "name", "wire", "netns", far)
            for name, address in ((near, NEAR), (far, FAR)):
                setup("ip", "-n", name, "address", "add", f"{address}/{NETMASK}", "dev", "wire")
                setup("ip", "-n", name, "link", "set", "lo", "up")
                setup("ip", "-n", name, "link", "set", "wire", "up")
            if self.megabits_per_second:
                setup("tc", "-n", near, "qdisc", "add", "dev", "wire", "root", "tbf", "rate",
                      f"{self.megabits_per_second}mbit", "burst", "128kb", "latency", "20ms")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for server in self.servers.values():
            server.__exit__()
        self.servers = {}
        for name in self.names:
            # Fails only for one that was never made.
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def near(self, argv):
        return self.inside(0, argv)

    def inside(self, end, argv):
        return ["ip", "netns", "exec", self.names[end], *on_cpus([self.cpus[end]], argv)]

    def serve(self, argv, port):
        """Starts a server at the far end, once, and waits until it listens."""
        if argv[0] in self.servers:
            return
        server = Child(self.inside(1, argv))
        listening = ["ip", "netns", "exec", self.names[1], "ss", "-Hltn", f"sport = :{port}"]
        for _ in range(100):
            if subprocess.run(listening, capture_output=True, check=True).stdout:
                self.servers[argv[0]] = server
                return
            if server.process.poll() is not None:
                break
            time.sleep(0.05)
        ended = server.process.poll() is not None
        words = last_words(server.process.stderr.read()) if ended else "does not listen"
        server.__exit__()
        raise Unavailable(f"{name_of(argv)}: {words}")


def setup(*argv):
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise Unavailable(f"{' '.join(argv)}: {ended.stderr.strip()}")
