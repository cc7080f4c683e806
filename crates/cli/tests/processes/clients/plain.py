"""redis-py at the gateway: both versions of the protocol, pipelines as it sends them, errors."""

import sys

import redis

port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, protocol=protocol, client_name="tester")
    client.flushall()
    assert client.set("k", "v") and client.get("k") == b"v" and client.get("none") is None
    assert client.client_getname() in ("tester", b"tester")
    assert client.hset("h", mapping={"a": 1, "b": 2}) == 2
    assert client.hgetall("h") == {b"a": b"1", b"b": b"2"}
    assert client.mget("k", "none") == [b"v", None]
    assert client.config_get("save") == {"save": ""}
    assert client.info("server")["redis_version"]
    assert "get" in client.command() and list(client.scan_iter("h*")) == [b"h"]
    together = client.pipeline().set("n", 1).incr("n").hgetall("h").get("none").execute()
    assert together == [True, 2, {b"a": b"1", b"b": b"2"}, None], together
    assert client.pipeline(transaction=False).incr("n").incr("n").execute() == [3, 4]
    # A pipeline with a command that there is not: nothing of it is executed, however often it is tried.
    for _ in range(2):
        try:
            client.pipeline().incr("n").expire("n", 3).execute()
            raise AssertionError("EXPIRE is refused")
        except redis.RedisError:
            pass
    assert client.get("n") == b"4"
    try:
        client.pipeline().watch("n")
        raise AssertionError("WATCH is refused")
    except redis.ResponseError:
        pass
    try:
        client.set("big", b"x" * (5 << 20))
        raise AssertionError("a value of 5 MiB is refused")
    except redis.ResponseError as error:
        assert "longer than 1048576 bytes" in str(error), error
    assert client.ping()
