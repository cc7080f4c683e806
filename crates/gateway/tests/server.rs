//! The gateway over loopback, in raw RESP.
#![allow(missing_docs)]

mod support;

use support::{Element, Gateway, element, request, request_of};
use tokio::io::AsyncReadExt;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const NO_CLOCK: &str = "keys do not expire, since replicas agree on no clock";

#[tokio::test]
async fn strings() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    for (command, reply) in [
        ("SET k v", "+OK\r\n"),
        ("GET k", "$1\r\nv\r\n"),
        ("get none", "$-1\r\n"),
        ("SET k w NX", "$-1\r\n"),
        ("SET k w XX GET", "$1\r\nv\r\n"),
        ("SET new w XX", "$-1\r\n"),
        ("SET new w nx get", "$-1\r\n"),
        ("SET k v NX XX", "-ERR syntax error\r\n"),
        ("SET k v SOON", "-ERR syntax error\r\n"),
        ("SETNX k x", ":0\r\n"),
        ("SETNX l x", ":1\r\n"),
        ("GETSET l y", "$1\r\nx\r\n"),
        ("GETDEL l", "$1\r\ny\r\n"),
        ("MSET a 1 b 2", "+OK\r\n"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n"),
        ("MGET a none b", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n"),
        ("INCR a", ":2\r\n"),
        ("DECR a", ":1\r\n"),
        ("INCRBY a 10", ":11\r\n"),
        ("DECRBY a 4", ":7\r\n"),
        ("INCR k", NOT_AN_INTEGER),
        ("INCRBY a x", NOT_AN_INTEGER),
        ("INCRBY a 9223372036854775807", "-ERR increment or decrement would overflow\r\n"),
        ("DECRBY a -9223372036854775808", "-ERR decrement would overflow\r\n"),
        ("APPEND a 5", ":2\r\n"),
        ("STRLEN a", ":2\r\n"),
        ("EXISTS a a none", ":2\r\n"),
        ("TYPE a", "+string\r\n"),
        ("TYPE none", "+none\r\n"),
        ("TTL a", ":-1\r\n"),
        ("PTTL none", ":-2\r\n"),
        ("DBSIZE", ":4\r\n"),
        ("DEL a b none", ":2\r\n"),
        ("UNLINK k", ":1\r\n"),
        ("FLUSHDB ASYNC", "+OK\r\n"),
        ("FLUSHALL NOW", "-ERR syntax error\r\n"),
        ("DBSIZE", ":0\r\n"),
    ] {
        client.ask(command, reply).await;
    }
    for option in ["EX 1", "px 1", "EXAT 1", "PXAT 1", "KEEPTTL"] {
        let reply = format!("-ERR expiry is not supported: {NO_CLOCK}\r\n");
        client.ask(&format!("SET k v {option}"), &reply).await;
    }
    client.ask("GET k", "$-1\r\n").await;
}

#[tokio::test]
async fn hashes_and_keys() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    for (command, reply) in [
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command\r\n"),
        ("HMSET h c 3", "+OK\r\n"),
        ("HGET h a", "$1\r\n1\r\n"),
        ("HGET h none", "$-1\r\n"),
        ("HMGET h b none", "*2\r\n$1\r\n2\r\n$-1\r\n"),
        ("HGETALL h", "*6\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n"),
        ("HGETALL none", "*0\r\n"),
        ("HKEYS h", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("HVALS h", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"),
        ("HLEN h", ":3\r\n"),
        ("HEXISTS h a", ":1\r\n"),
        ("HINCRBY h a 41", ":42\r\n"),
        ("HDEL h a none", ":1\r\n"),
        ("TYPE h", "+hash\r\n"),
        ("GET h", WRONG_TYPE),
        ("HKEYS h", "*2\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("SET s v", "+OK\r\n"),
        ("HGET s f", WRONG_TYPE),
        ("HVALS s", WRONG_TYPE),
        ("HMSET s f v", WRONG_TYPE),
        ("KEYS h*", "*1\r\n$1\r\nh\r\n"),
        ("SCAN 0 MATCH s* COUNT 100", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\ns\r\n"),
        ("SCAN 0 TYPE hash", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nh\r\n"),
        ("SCAN 0 TYPE list", "-ERR unknown type name: values are of type string or hash\r\n"),
        ("SCAN x", "-ERR invalid cursor\r\n"),
        ("SCAN 0 COUNT 0", "-ERR syntax error\r\n"),
        ("SCAN 0 COUNT", "-ERR syntax error\r\n"),
    ] {
        client.ask(command, reply).await;
    }
}

#[tokio::test]
async fn what_the_gateway_answers_itself() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    for (command, reply) in [
        ("PING", "+PONG\r\n"),
        ("ping hello", "$5\r\nhello\r\n"),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"),
        ("ECHO x", "$1\r\nx\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("SELECT 1", "-ERR DB index is out of range\r\n"),
        ("SELECT x", NOT_AN_INTEGER),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command\r\n"),
        ("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("CONFIG GET APPENDONLY", "*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"),
        ("CONFIG GET nothing", "*0\r\n"),
        ("CONFIG NOW", "-ERR unknown subcommand 'NOW'. Try CONFIG HELP.\r\n"),
        ("CLIENT ID", ":1\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETNAME me", "+OK\r\n"),
        ("CLIENT GETNAME", "$2\r\nme\r\n"),
        ("CLIENT SETINFO LIB-NAME lib", "+OK\r\n"),
        ("CLIENT SETINFO X lib", "-ERR Unrecognized option 'X'\r\n"),
        ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
        ("HELLO 1", "-NOPROTO unsupported protocol version\r\n"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"),
        ("HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
        ("RESET", "+RESET\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("foo a b", "-ERR unknown command 'foo', with args beginning with: 'a' 'b' \r\n"),
        ("foo", "-ERR unknown command 'foo', with args beginning with: \r\n"),
        ("CLIENT REPLY MAYBE", "-ERR syntax error\r\n"),
        ("COMMAND GETKEYS MSET a 1 b 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("COMMAND GETKEYS PING", "-ERR The command has no key arguments\r\n"),
        ("COMMAND INFO nope", "*1\r\n*-1\r\n"),
        ("COMMAND DOCS nope", "*0\r\n"),
        ("COMMAND LIST FILTERBY PATTERN GETS*", "*1\r\n$6\r\ngetset\r\n"),
    ] {
        client.ask(command, reply).await;
    }
    client
        .ask(
            "AUTH secret",
            "-ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?\r\n",
        )
        .await;
    let reply = format!("-ERR EXPIRE is not supported: {NO_CLOCK}\r\n");
    client.ask("expire k 1", &reply).await;
    client
        .ask(
            "SUBSCRIBE c",
            "-ERR SUBSCRIBE is not supported: there is no publish and subscribe\r\n",
        )
        .await;
    // A line break inside a name must not become one of the protocol.
    client.send(request_of(&[b"a\r\n+OK"])).await;
    client.expect("-ERR unknown command 'a  +OK', with args beginning with: \r\n").await;
    let long = "x".repeat(300);
    client.send(request_of(&[long.as_bytes(), long.as_bytes(), b"more"])).await;
    let cut = &long[..128];
    client
        .expect(format!("-ERR unknown command '{cut}', with args beginning with: '{cut}' \r\n"))
        .await;
    client.ask("QUIT", "+OK\r\n").await;
    client.expect_end().await;
}

/// Everything these say, as one element, and nothing behind it.
#[tokio::test]
async fn descriptions_are_well_formed() {
    let gateway = Gateway::alone().await;
    for command in [
        "COMMAND",
        "COMMAND DOCS",
        "COMMAND DOCS get config|get set",
        "COMMAND INFO",
        "COMMAND INFO get client|id",
        "COMMAND LIST",
        "COMMAND LIST FILTERBY ACLCAT hash",
        "COMMAND HELP",
        "CLIENT HELP",
        "CLIENT LIST",
        "CLIENT INFO",
        "CONFIG HELP",
        "CONFIG GET *",
        "HELLO",
        "HELLO 2 SETNAME me",
        "INFO",
        "INFO server clients",
    ] {
        let mut client = gateway.connect().await;
        client.send([request(command), request("QUIT")].concat()).await;
        let mut reply = Vec::new();
        client.stream.read_to_end(&mut reply).await.expect("a reply");
        let mut rest = &reply[..];
        let described = element(&mut rest);
        assert!(!matches!(described, Element::Error(_) | Element::Nil), "{command}: {described:?}");
        assert_eq!(rest, b"+OK\r\n", "{command}");
    }
    let mut client = gateway.connect().await;
    let head = "*2\r\n$5\r\nsetnx\r\n*8\r\n$7\r\nsummary\r\n";
    client.ask("COMMAND DOCS SETNX", head).await;
}

#[tokio::test]
async fn inline_commands_and_protocol_errors() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    client.send("SET k \"a b\"\r\nGET k\n\r\n").await;
    client.expect("+OK\r\n$3\r\na b\r\n").await;
    client.send("PING\r\n*1\r\n$x\r\nPING\r\n").await;
    client.expect("+PONG\r\n-ERR Protocol error: invalid bulk length\r\n").await;
    client.expect_end().await;

    let mut client = gateway.connect().await;
    client.send("GET \"k\r\n").await;
    client.expect("-ERR Protocol error: unbalanced quotes in request\r\n").await;
    client.expect_end().await;
}

#[tokio::test]
async fn local_and_ordered_replies_keep_their_places() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let (mut sent, mut expected) = (Vec::new(), String::new());
    for number in 0..3000 {
        let value = number.to_string();
        sent.extend(request(&format!("SET k {value}")));
        sent.extend(request(&format!("ECHO {value}")));
        sent.extend(request("GET k"));
        sent.extend(request("NOPE"));
        let bulk = format!("${}\r\n{value}\r\n", value.len());
        expected += &format!("+OK\r\n{bulk}{bulk}");
        expected += "-ERR unknown command 'NOPE', with args beginning with: \r\n";
    }
    let (mut input, mut output) = client.stream.split();
    let sending = tokio::io::AsyncWriteExt::write_all(&mut output, &sent);
    let mut got = vec![0; expected.len()];
    let receiving = input.read_exact(&mut got);
    let (sent, received) = tokio::join!(sending, receiving);
    assert!(sent.is_ok() && received.is_ok());
    assert!(got == expected.as_bytes());
}

#[tokio::test]
async fn muted_replies_are_left_out_and_their_commands_done() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let commands = [
        "SET k 1",
        "CLIENT REPLY SKIP",
        "INCR k",
        "INCR k",
        "CLIENT REPLY OFF",
        "INCR k",
        "PING",
        "NOPE",
        "GET",
        "COMMAND",
        "CLIENT HELP",
        "CLIENT REPLY SKIP",
        "PING",
        "PING",
        "CLIENT REPLY ON",
        "GET k",
    ];
    client.send(commands.map(request).concat()).await;
    client.expect("+OK\r\n:3\r\n+OK\r\n$1\r\n4\r\n").await;
}

#[tokio::test]
async fn too_long_keys_values_and_commands_are_refused_and_the_connection_goes_on() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let (long_key, long_value) = (vec![b'k'; (64 << 10) + 1], vec![b'v'; (1 << 20) + 1]);
    client.send(request_of(&[b"GET", &long_key])).await;
    client.expect("-ERR key is longer than 65536 bytes\r\n").await;
    client.send(request_of(&[b"SET", b"k", &long_value])).await;
    client.expect("-ERR an argument is longer than 1048576 bytes\r\n").await;
    let value = &long_value[1..];
    client.send(request_of(&[b"MSET", b"a", value, b"b", value, b"c", value, b"d", value])).await;
    client.expect("-ERR command is longer than 4194300 bytes\r\n").await;
    client.send(request_of(&[b"SET", b"k", value])).await;
    client.expect("+OK\r\n").await;
    client.ask("STRLEN k", ":1048576\r\n").await;
    client.ask("DBSIZE", ":1\r\n").await;
}

/// As long as Redis takes by default, in one write: the client hears the reason, and goes on.
#[tokio::test]
async fn a_value_of_five_mebibytes_is_refused_with_the_reason() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let value = vec![b'v'; 5 << 20];
    let refusal = "-ERR an argument is longer than 1048576 bytes\r\n";
    client.send(request_of(&[b"SET", b"k", &value])).await;
    client.expect(refusal).await;
    client.ask("EXISTS k", ":0\r\n").await;
    client
        .ask(
            "CONFIG GET proto-max-bulk-len",
            "*2\r\n$18\r\nproto-max-bulk-len\r\n$7\r\n1048576\r\n",
        )
        .await;
    client.ask("MULTI", "+OK\r\n").await;
    client.ask("INCR n", "+QUEUED\r\n").await;
    client.send(request_of(&[b"SET", b"k", &value])).await;
    client.expect(refusal).await;
    client.ask("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n").await;
    client.ask("EXISTS n k", ":0\r\n").await;
    // A longer one ends the connection, once the client has heard the reason.
    let mut client = gateway.connect().await;
    client.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n").await;
    client.send(&value).await;
    client.expect("-ERR Protocol error: invalid bulk length\r\n").await;
    client.expect_end().await;
}

/// What a browser sends for a page: nothing of its body is executed.
#[tokio::test]
async fn a_web_page_that_posts_commands_is_cut_off() {
    let gateway = Gateway::alone().await;
    for head in
        ["POST / HTTP/1.1\r\n", "post / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"]
    {
        let mut client = gateway.connect().await;
        client.send(format!("{head}Content-Length: 11\r\n\r\nSET k owned\r\n")).await;
        let mut answer = Vec::new();
        // The end may be a reset: more was sent than was read.
        let _ = client.stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).expect("text");
        assert!(!answer.contains("+OK"), "{answer}");
    }
    let mut client = gateway.connect().await;
    client.ask("EXISTS k", ":0\r\n").await;
}
