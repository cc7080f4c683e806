"""Named counters as a replicated application: a process that Quorate speaks with over a pipe.

`quorate testnet init net --pipe "python3 counters.py"` makes a cluster of it. Commands are
`add NAME AMOUNT` and `read NAME`; questions are `read NAME`. The protocol is in
docs/own-service.md. Only the standard library is used.

Under rules 2, a client whose grant has prefixes reaches counters with such names alone. All
replicas must do so from the same block on, and those that run an earlier release of Quorate are not
told who the callers are. So it is a rule, which `quorate upgrade switch` switches on once all are.
"""

import hashlib
import json
import struct
import sys

MAX_COUNTERS = 10_000
CHUNK_BYTES = 64 << 10


def listed(items):
    """Byte strings, each behind its length."""
    return b"".join(struct.pack(">I", len(item)) + item for item in items)


def unlisted(body):
    items, at = [], 0
    while at < len(body):
        (length,) = struct.unpack_from(">I", body, at)
        items.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    return items


class Counters:
    def __init__(self):
        self.counts = {}
        self.protocol = 1

    def execute(self, words, prefixes=()):
        """Executes a command of a client that may use names with these prefixes, or all names."""
        if prefixes and len(words) > 1 and not words[1].encode().startswith(tuple(prefixes)):
            return "error: this client may not use that name"
        match words:
            case ["add", name, amount] if name.isprintable() and amount.isascii() and amount.isdigit():
                if not 0 < len(name) <= 32 or len(amount) > 18:
                    return "error: a name has 1 to 32 characters, an amount up to 18 digits"
                if name not in self.counts and len(self.counts) >= MAX_COUNTERS:
                    return "error: there is no room"
                self.counts[name] = self.counts.get(name, 0) + int(amount)
                return f"ok {self.counts[name]}"
            case _:
                return self.read(words)

    def read(self, words):
        match words:
            case ["read", name] if name in self.counts:
                return f"ok {self.counts[name]}"
            case ["read", _]:
                return "error: there is no such counter"
            case _:
                return "error: expected `add NAME AMOUNT` or `read NAME`"

    def lines(self):
        # Sorted: equal states must give equal bytes, however they came about.
        return [f"{name} {count}\n".encode() for name, count in sorted(self.counts.items())]

    def chunks(self):
        text = b"".join(self.lines())
        return [text[at : at + CHUNK_BYTES] for at in range(0, len(text), CHUNK_BYTES)]

    def load(self, chunks):
        self.counts = {}
        for line in b"".join(chunks).decode().splitlines():
            name, count = line.rsplit(" ", 1)
            self.counts[name] = int(count)


def prefixes_of(caller):
    """The prefixes of a caller's grant: key 32, whether the list names it 1, quota 8, prefixes."""
    return unlisted(caller[41:]) if caller[32:33] == b"\1" else []


def executed(state, protocol, body):
    """The replies to a block, whose body begins with height and view."""
    words = lambda text: text.decode("utf-8", "replace").split(" ")
    if protocol == 1:
        return [state.execute(words(command)) for command in unlisted(body[16:])]
    (rules,) = struct.unpack_from(">H", body, 16)
    (length,) = struct.unpack_from(">I", body, 18)
    callers, items = unlisted(body[22 : 22 + length]), unlisted(body[22 + length :])
    limits = [prefixes_of(caller) if rules >= 2 else [] for caller in callers]
    limit = lambda item: limits[struct.unpack_from(">I", item)[0]]
    return [state.execute(words(item[4:]), limit(item)) for item in items]


def answer(state, kind, body):
    words = lambda text: text.decode("utf-8", "replace").split(" ")
    match kind:
        case b"H":
            state.protocol = min(2, json.loads(body).get("newest_protocol", 1))
            return b"H", json.dumps({"protocol": state.protocol, "newest_rules": 2}).encode()
        case b"A":
            return b"A", listed([reply.encode() for reply in executed(state, state.protocol, body)])
        case b"R":
            return b"R", hashlib.sha256(b"".join(state.lines())).digest()
        case b"Q":
            return b"Q", state.read(words(body)).encode()
        case b"S":
            return b"S", listed(state.chunks())
        case b"L":
            try:
                state.load(unlisted(body))
                return b"L", b""
            except ValueError as error:
                return b"X", str(error).encode()
        case _:
            return b"X", b"unknown question"


def main():
    state = Counters()
    asked, said = sys.stdin.buffer, sys.stdout.buffer
    while head := asked.read(4):
        (length,) = struct.unpack(">I", head)
        message = asked.read(length)
        kind, body = answer(state, message[:1], message[1:])
        said.write(struct.pack(">I", len(body) + 1) + kind + body)
        said.flush()


if __name__ == "__main__":
    main()
