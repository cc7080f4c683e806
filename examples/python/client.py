"""Uses a replicated service through `quorate bridge`: submits commands, asks questions, checks them.

    python3 client.py 127.0.0.1:8080 [COUNT]
    python3 client.py /path/of/a/unix/socket [COUNT]
    python3 client.py 127.0.0.1:8080 --bench SECONDS [--connections N]

It adds 1 to a counter COUNT times, in requests of up to 100 commands; then it compares what the
replies say, what an ordered read says, and what f + 1 replicas answer. `--bench` does the same for
SECONDS, over N connections (8) that each have a counter, and prints the rate. Only the standard
library is used.
"""

import argparse
import http.client
import json
import secrets
import socket
import statistics
import threading
import time

BATCH = 100


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


class Counter:
    """One counter, of which nobody else knows: so what each reply must be is known."""

    def __init__(self, address):
        self.bridge = Bridge(address)
        self.name = f"python-{secrets.token_hex(8)}"
        self.count = 0

    def add(self, times):
        replies = self.bridge.submit([f"add {self.name} 1"] * times)
        expected = [f"ok {self.count + n}" for n in range(1, times + 1)]
        assert replies == expected, "executed once, and in order"
        self.count += times

    def check(self):
        ordered = self.bridge.submit([f"read {self.name}"])
        assert ordered == [f"ok {self.count}"], ordered
        # A question may be answered from an older state: of a replica that is a little behind.
        deadline = time.monotonic() + 30
        while (answer := self.bridge.query(f"read {self.name}")) != f"ok {self.count}":
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)


def bench(address, seconds, connections):
    counted, waited, ended, wrong = [], [], [], []
    end = time.monotonic() + seconds

    def drive():
        try:
            counter = Counter(address)
            while (began := time.monotonic()) < end:
                counter.add(BATCH)
                waited.append(time.monotonic() - began)
            counted.append(counter.count)
            ended.append(time.monotonic())
            counter.check()
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    began = time.monotonic()
    threads = [threading.Thread(target=drive) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    # What was under way at the end counts, and so does its time.
    took = max(ended) - began
    return {
        "connections": connections,
        "commands": sum(counted),
        "per_second": round(sum(counted) / took),
        "p50_ms": round(statistics.median(waited) * 1000, 1),
    }


def main():
    parser = argparse.ArgumentParser(description="A client of a replicated service, through its bridge.")
    parser.add_argument("address", help="HOST:PORT, or the path of a Unix socket")
    parser.add_argument("count", nargs="?", type=int, default=300)
    parser.add_argument("--bench", type=float, metavar="SECONDS")
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args()
    if options.bench:
        print(json.dumps(bench(options.address, options.bench, options.connections)))
        return
    counter, began = Counter(options.address), time.monotonic()
    while counter.count < options.count:
        counter.add(min(BATCH, options.count - counter.count))
    seconds = time.monotonic() - began
    counter.check()
    rate = round(options.count / seconds)
    print(json.dumps({"name": counter.name, "commands": options.count, "per_second": rate}))


if __name__ == "__main__":
    main()
