"""The counters of examples/python, but one replica's never answer a command or question `hang`.

    python3 hangs.py REPLICA /path/of/counters.py
"""

import json
import os
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(sys.argv[2]))
import counters

told = counters.answer


def commands(body):
    """Of a block: behind height, view, rules and the callers, each behind its caller's number."""
    (callers,) = struct.unpack_from(">I", body, 18)
    return [item[4:] for item in counters.unlisted(body[22 + callers :])]


def answer(state, kind, body):
    global hangs
    if kind == b"H":
        hangs = json.loads(body)["replica"] == int(sys.argv[1])
    asked = commands(body) if kind == b"A" else [body]
    if hangs and kind in b"AQ" and b"hang" in asked:
        time.sleep(100_000)
    return told(state, kind, body)


counters.answer = answer
counters.main()
