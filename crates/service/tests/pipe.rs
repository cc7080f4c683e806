//! Applications as processes that behave well, and badly. Wants `sh` and Python.

#[path = "../../netem/tests/needs/mod.rs"]
mod needs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use quorate_service::pipe::{Command, Limits, Piped};
use quorate_service::{Bytes, Decided, Digest, Replies, StateMachine};

const COUNTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python/counters.py");

fn python() -> bool {
    needs::program("python3", "python3")
}

fn command(words: &[&str], within: Duration) -> Command {
    Command {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        service: "counters".to_owned(),
        hello: "{\"protocol\":1}".to_owned(),
        limits: Limits { answer_within: within, state_bytes: 1 << 20 },
    }
}

fn counters() -> Piped {
    Piped::start(&command(&["python3", COUNTERS], Duration::from_secs(60))).unwrap()
}

fn apply(service: &mut Piped, commands: &[&str]) -> Vec<String> {
    let commands: Vec<&[u8]> = commands.iter().map(|line| line.as_bytes()).collect();
    let mut replies = Replies::default();
    let block = Decided {
        height: Default::default(),
        view: Default::default(),
        commands: &commands,
        rules: 1,
        callers: &[],
    };
    service.apply(&block, &mut replies);
    replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect()
}

/// What the panic of an application says that is given a block.
fn trouble(service: &mut Piped) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| apply(service, &["add a 1"]))).unwrap_err();
    panic.downcast_ref::<String>().expect("words").clone()
}

/// A process that greets, reads another message, and then does what the Python code `then` does.
fn greets(then: &str, within: Duration) -> Piped {
    let code = format!(
        r#"
import os, struct, sys, time
def ask():
    n, = struct.unpack(">I", sys.stdin.buffer.read(4))
    return sys.stdin.buffer.read(n)
def raw(text):
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
def say(kind, body):
    raw(struct.pack(">I", len(body) + 1) + kind + body)
ask()
say(b"H", b'{{"protocol": 1}}')
ask()
{then}
"#
    );
    Piped::start(&command(&["python3", "-c", &code], within)).unwrap()
}

#[test]
fn the_example_keeps_the_contract() {
    if !python() {
        return;
    }
    let mut one = counters();
    let replies = apply(&mut one, &["add a 5", "add b 2", "add a 1", "read c", "nonsense"]);
    let nonsense = "error: expected `add NAME AMOUNT` or `read NAME`";
    assert_eq!(replies, ["ok 5", "ok 2", "ok 6", "error: there is no such counter", nonsense]);
    assert_eq!(one.query(b"read a"), "ok 6");
    assert_eq!(apply(&mut one, &[]), [""; 0]);
    let root = one.root();
    let mut chunks = Vec::new();
    one.snapshot().chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    let mut other = counters();
    apply(&mut other, &["add z 1"]);
    assert_ne!(other.root(), root);
    other.restore(&mut chunks.into_iter()).unwrap();
    assert_eq!((other.root(), other.query(b"read a")), (root, "ok 6".into()));
    let refused = other.restore(&mut [Bytes::from_static(b"no count")].into_iter());
    assert!(refused.unwrap_err().reason.contains("it refuses `L`"));
}

#[test]
fn a_process_that_cannot_greet_is_told_by_name() {
    let start = |words: &[&str]| Piped::start(&command(words, Duration::from_secs(60))).err();
    let missing = start(&["/no/such/program"]).unwrap();
    assert!(missing.contains("`/no/such/program`: it cannot be started"), "{missing}");
    let ended = start(&["sh", "-c", "exit 7"]).unwrap();
    assert!(ended.contains("it has ended (exit status: 7)"), "{ended}");
    let talks = start(&["sh", "-c", "echo hello, world; cat"]).unwrap();
    assert!(talks.contains("announced a message of"), "{talks}");
}

#[test]
fn a_process_that_misbehaves_is_killed_and_named() {
    if !python() {
        return;
    }
    for (then, expected) in [
        ("sys.exit(3)", "it has ended (exit status: 3)"),
        ("os.kill(os.getpid(), 9)", "it has ended (signal: 9 (SIGKILL))"),
        ("say(b'A', b'')", "it gave 0 replies to 1 commands"),
        ("say(b'A', b'12')", "its answer to a block is no list"),
        ("say(b'Q', b'')", "it answered `A` with a message `Q`"),
        ("say(b'X', b'no room')", "it refuses `A`: no room"),
        ("say(b'A', struct.pack('>I', 2 << 20) + bytes(2 << 20))", "a reply has 2097152 bytes"),
        (r"raw(b'\xff\xff\xff\xff' + bytes(1 << 20)); ask()", "announced a message of"),
        (r"raw(b'\0\0')", "it has ended (exit status: 0)"),
    ] {
        let mut service = greets(then, Duration::from_secs(60));
        let said = trouble(&mut service);
        assert!(said.contains(expected) && said.contains("the process `python3"), "{then}: {said}");
        assert_eq!(trouble(&mut service), said, "it is asked nothing more");
        assert!(service.snapshot().failure().unwrap().0.contains(expected), "{then}");
    }
}

#[test]
fn a_process_that_hangs_is_killed_and_named() {
    if !python() {
        return;
    }
    // Long enough for a start on a busy machine: a hang lasts longer than any time.
    let mut service = greets("time.sleep(100000)", Duration::from_secs(8));
    let said = trouble(&mut service);
    assert!(said.contains("it did not answer `A` within 8s, and was killed"), "{said}");
}

/// Several long replies to one block are none too long.
#[test]
fn the_replies_to_a_block_have_room_for_those_to_many_commands() {
    if !python() {
        return;
    }
    let then = "say(b'A', (struct.pack('>I', 1 << 20) + bytes(1 << 20)) * 20)";
    let mut service = greets(then, Duration::from_secs(60));
    let replies = apply(&mut service, &["a"; 20]);
    assert!(replies.len() == 20 && replies.iter().all(|reply| reply.len() == 1 << 20));
}

/// A replica whose process is gone learns of it without a block.
#[test]
fn a_process_that_is_gone_is_a_fault() {
    if !python() {
        return;
    }
    let mut service = greets(
        "say(b'A', struct.pack('>I', 0)); ask(); say(b'Q', bytes(2 << 20))",
        Duration::from_secs(60),
    );
    assert_eq!(service.fault(), None);
    apply(&mut service, &["a"]);
    assert_eq!(service.fault(), None);
    assert!(catch_unwind(AssertUnwindSafe(|| service.query(b"long"))).is_err());
    let fault = service.fault().expect("it was killed");
    assert!(
        fault.contains("the process `python3") && fault.contains("announced a message"),
        "{fault}"
    );

    let mut ends = greets("say(b'A', struct.pack('>I', 0))", Duration::from_secs(60));
    apply(&mut ends, &["a"]);
    let began = std::time::Instant::now();
    let fault = loop {
        match ends.fault() {
            Some(fault) => break fault,
            None => assert!(began.elapsed() < Duration::from_secs(60), "it has ended"),
        }
    };
    assert!(fault.contains("it has ended (exit status: 0)"), "{fault}");
}

/// What its state takes is known from the last snapshot, and told against its limit.
#[test]
fn the_state_of_a_process_is_measured_by_its_snapshots() {
    if !python() {
        return;
    }
    let mut one = counters();
    let used = |service: &Piped| service.usage().expect("it is bounded").used_bytes;
    assert_eq!((used(&one), one.usage().unwrap().limit_bytes), (0, 1 << 20));
    apply(&mut one, &["add abc 5"]);
    let mut chunks = Vec::new();
    one.snapshot().chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    assert_eq!(used(&one), 4 + "abc 5\n".len() as u64);
    let mut other = counters();
    other.restore(&mut chunks.into_iter()).unwrap();
    assert_eq!(used(&other), used(&one));
}

#[test]
fn a_process_that_was_not_there_stops_the_replica_at_its_first_question() {
    let mut service = Piped::fresh(&command(&["/no/such/program"], Duration::from_secs(60)));
    assert!(trouble(&mut service).contains("it cannot be started"));
    let root: Result<Digest, _> = catch_unwind(AssertUnwindSafe(|| service.root()));
    assert!(root.is_err());
}
