"""Uses a replicated service through `quorate bridge`: submits commands, asks questions, checks them.

    python3 client.py 127.0.0.1:8080 [COUNT]
    python3 client.py /path/of/a/unix/socket [COUNT]

It adds 1 to a counter COUNT times, in requests of up to 100 commands; then it compares what the
replies say, what an ordered read says, and what f + 1 replicas answer. Only the standard library
is used.
"""

import http.client
import json
import socket
import sys
import time


class Bridge:
    """A connection to the bridge."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        if "/" in address:
            self.http = http.client.HTTPConnection("localhost", timeout=60)
            self.http.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.http.sock.settimeout(60)
            self.http.sock.connect(address)
        else:
            self.http = http.client.HTTPConnection(host, int(port), timeout=60)

    def ask(self, path, body):
        self.http.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = self.http.getresponse()
        said = json.loads(response.read())
        if response.status != 200:
            # `class` says whether it may be sent again: see docs/own-service.md.
            raise RuntimeError(f"{said['class']}: {said['error']}")
        return said

    def submit(self, commands):
        return self.ask("/submit", {"commands": commands})["replies"]

    def query(self, question):
        return self.ask("/query", {"question": question})["answer"]


def main():
    address = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    bridge = Bridge(address)
    name = f"python-{time.time_ns()}"[:32]
    began = time.monotonic()
    replies = []
    while len(replies) < count:
        batch = min(100, count - len(replies))
        replies += bridge.submit([f"add {name} 1"] * batch)
    seconds = time.monotonic() - began
    assert replies == [f"ok {n}" for n in range(1, count + 1)], "executed once, and in order"
    ordered = bridge.submit([f"read {name}"])
    assert ordered == [f"ok {count}"], ordered
    # A question may be answered from an older state: of a replica that is a little behind.
    deadline = time.monotonic() + 30
    while (answer := bridge.query(f"read {name}")) != f"ok {count}":
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    print(json.dumps({"name": name, "commands": count, "per_second": round(count / seconds)}))


if __name__ == "__main__":
    main()
