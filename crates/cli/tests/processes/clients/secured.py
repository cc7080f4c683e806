"""redis-py at a gateway with TLS and users: python secured.py PORT CA."""

import sys

import redis

port, authority = int(sys.argv[1]), sys.argv[2]


def client(password="secret", **more):
    return redis.Redis(port=port, username="app", password=password, **more)


def refused(kind, words, run):
    try:
        run()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{words} was expected")


for protocol in (2, 3):
    tls = {"ssl": True, "ssl_ca_certs": authority, "protocol": protocol}
    app = client(**tls)
    assert app.set("app:k", "v") and app.get("app:k") == b"v"
    assert app.pipeline().incr("app:n").delete("app:n").execute() == [1, 1]
    refused(redis.exceptions.NoPermissionError, "permissions to access a key", lambda: app.set("other", "v"))
    refused(redis.exceptions.NoPermissionError, "to run the 'flushall' command", app.flushall)
    refused(redis.exceptions.AuthenticationError, "invalid username-password", client("wrong", **tls).ping)
# The port speaks TLS alone, and its certificate is of an authority that the system does not know.
refused(redis.exceptions.ConnectionError, "", client().ping)
refused(redis.exceptions.ConnectionError, "CERTIFICATE_VERIFY_FAILED", client(ssl=True).ping)
