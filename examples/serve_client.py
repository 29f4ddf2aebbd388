#!/usr/bin/env python3
"""A client of `jostle serve` in one file, for schedulers written in Python.

    from serve_client import Jostle

    with Jostle("/run/jostle/schedule.sock") as jostle:
        jostle.node_up("n1", cpus=16, memory="64GiB")
        answer = jostle.arrive("job-1", app="redis", cpus=4, memory="8GiB")
        print(answer["answer"], answer.get("node"))

By hand, one event per line from standard input:

    ./serve_client.py /run/jostle/schedule.sock < events
"""

import json
import socket
import sys


class Refused(Exception):
    """The server did not accept an event; the text says why."""


class Jostle:
    """A connection. `address` is the path of a Unix socket, or (host, port)."""

    def __init__(self, address, timeout=5.0):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._socket.connect(address)
        self._lines = self._socket.makefile("r", encoding="utf-8", newline="\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._lines.close()
        self._socket.close()

    def event(self, event, /, **keys):
        """Sends an event. Returns its answers, the one to the event itself first.

        An event can have several answers: one that makes room is followed by a
        `placed` answer for each waiting job that now has a place. A `ping` behind it
        marks the end of them.
        """
        keys = {key: value for key, value in keys.items() if value is not None}
        self._send({"event": event, **keys})
        self._send({"event": "ping"})
        answers = []
        while (answer := self.read())["answer"] != "pong":
            answers.append(answer)
        if answers and answers[0]["answer"] == "error":
            raise Refused(answers[0]["message"])
        return answers

    def node_up(self, name, **keys):
        return self.event("node-up", name=name, **keys)

    def node_down(self, name):
        """The jobs that ran there have to move: `placed` or `waiting` for each."""
        return self.event("node-down", name=name)

    def arrive(self, id, **keys):
        """`placed`, with `node` and `decision`, or `waiting`, with `why`."""
        return self.event("arrive", id=id, **keys)[0]

    def depart(self, id):
        return self.event("depart", id=id)

    def state(self):
        return self.event("state")[0]

    def subscribe(self):
        """From now on `read` returns what the events of others changed. Use a
        connection of its own for this."""
        self._send({"event": "subscribe"})
        return self.read()

    def read(self):
        """The next line from the server."""
        line = self._lines.readline()
        if not line.endswith("\n"):
            raise ConnectionError("the server closed the connection")
        return json.loads(line)

    def _send(self, event):
        self._socket.sendall(json.dumps(event).encode() + b"\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    host, _, port = sys.argv[1].rpartition(":")
    address = (host, int(port)) if host and port.isdigit() else sys.argv[1]
    with Jostle(address) as jostle:
        for line in filter(str.strip, sys.stdin):
            event = json.loads(line)
            try:
                answers = jostle.event(event.pop("event"), **event)
            except Refused as refused:
                answers = [{"answer": "error", "message": str(refused)}]
            for answer in answers:
                print(json.dumps(answer))


if __name__ == "__main__":
    main()
