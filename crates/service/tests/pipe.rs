//! Applications as processes that behave well, and badly. Wants `sh` and Python.

#[path = "../../netem/tests/needs/mod.rs"]
mod needs;

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::Caller;
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
        hello: "{\"protocol\":1,\"newest_protocol\":2}".to_owned(),
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

/// Applies a block under these rules; each command is of a caller with this grant.
fn apply_by(service: &mut Piped, rules: u16, commands: &[(&str, Option<&Grant>)]) -> Vec<String> {
    let key = PublicKey([7; 32]);
    let callers: Vec<_> =
        commands.iter().map(|(_, grant)| Caller { key: &key, grant: *grant }).collect();
    let commands: Vec<&[u8]> = commands.iter().map(|(line, _)| line.as_bytes()).collect();
    let mut replies = Replies::default();
    let (height, view) = (Default::default(), Default::default());
    let block = Decided { height, view, commands: &commands, rules, callers: &callers };
    service.apply(&block, &mut replies);
    replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect()
}

fn prefix(prefix: &'static str) -> Grant {
    Grant { prefixes: vec![Bytes::from_static(prefix.as_bytes())], ..Grant::default() }
}

/// The example refuses what a grant does not cover, from the rules on that it says it has.
#[test]
fn an_application_is_told_the_callers_and_judges_by_the_rules() {
    if !python() {
        return;
    }
    let mut service = counters();
    assert_eq!(service.newest_rules(), 2);
    let (ours, theirs) = (prefix("our"), prefix("their"));
    let block = [("add ours 5", Some(&ours)), ("add ours 1", Some(&theirs)), ("add ours 1", None)];
    assert_eq!(apply_by(&mut service, 1, &block), ["ok 5", "ok 6", "ok 7"]);
    let refused = "error: this client may not use that name";
    assert_eq!(apply_by(&mut service, 2, &block), ["ok 12", refused, "ok 13"]);
    let everything = Grant::default();
    assert_eq!(apply_by(&mut service, 2, &[("read ours", Some(&everything))]), ["ok 13"]);
}

/// What the process reads of a block, byte for byte.
#[test]
fn callers_stand_once_and_commands_behind_their_numbers() {
    if !python() {
        return;
    }
    let code = r#"
import struct, sys
def ask():
    n, = struct.unpack(">I", sys.stdin.buffer.read(4))
    return sys.stdin.buffer.read(n)
def say(kind, body):
    sys.stdout.buffer.write(struct.pack(">I", len(body) + 1) + kind + body)
    sys.stdout.buffer.flush()
ask()
say(b"H", b'{"protocol": 2}')
body = ask()[1:].hex().encode()
say(b"A", (struct.pack(">I", len(body)) + body) + 2 * struct.pack(">I", 0))
"#;
    let mut service =
        Piped::start(&command(&["python3", "-c", code], Duration::from_secs(60))).unwrap();
    assert_eq!(service.newest_rules(), 1, "it said nothing of rules");
    let quota = Grant { stored_bytes: NonZeroU64::new(258), ..prefix("ab") };
    let read =
        &apply_by(&mut service, 3, &[("c", Some(&quota)), ("d", None), ("ef", Some(&quota))])[0];
    let key = "07".repeat(32);
    let expected = [
        "0000000000000000",
        "0000000000000000",
        "0003",
        // Two callers, 88 bytes.
        "00000058",
        "0000002f",
        &key,
        "01",
        "0000000000000102",
        "00000002",
        "6162",
        "00000021",
        &key,
        "00",
        // Three commands.
        "00000005",
        "00000000",
        "63",
        "00000005",
        "00000001",
        "64",
        "00000006",
        "00000000",
        "6566",
    ];
    assert_eq!(*read, expected.concat());
}

/// Applications that know protocol 1 alone go on, and are told what they were.
#[test]
fn an_application_of_before_is_told_no_callers() {
    if !python() {
        return;
    }
    let then = "say(b'A', struct.pack('>I', 1) + b'x')";
    let mut service = greets(then, Duration::from_secs(60));
    assert_eq!(service.newest_rules(), 1);
    assert_eq!(apply_by(&mut service, 1, &[("c", Some(&prefix("a")))]), ["x"]);
    let asks = "body = ask()\nsay(b'A', struct.pack('>I', len(body) - 17) + body[17:])";
    let code = |protocol: u64, more: &str| {
        format!(
            "import struct,sys\ndef ask():\n n,=struct.unpack('>I',sys.stdin.buffer.read(4))\n \
             return sys.stdin.buffer.read(n)\ndef say(k,b):\n \
             sys.stdout.buffer.write(struct.pack('>I',len(b)+1)+k+b)\n sys.stdout.buffer.flush()\n\
             ask()\nsay(b'H', b'{{\"protocol\": {protocol}{more}}}')\n{asks}\n"
        )
    };
    let start =
        |code: String| Piped::start(&command(&["python3", "-c", &code], Duration::from_secs(60)));
    let mut old = start(code(1, ", \"newest_rules\": 9")).unwrap();
    assert_eq!(old.newest_rules(), 1, "rules are told in protocol 2");
    assert_eq!(apply_by(&mut old, 1, &[("abc", Some(&prefix("a")))]), ["\0\0\0\u{3}abc"]);
    let unknown = start(code(3, "")).err().expect("nobody speaks it");
    assert!(unknown.contains("does not say that it speaks protocol 1 or 2"), "{unknown}");
    let zero = start(code(2, ", \"newest_rules\": 0")).err().expect("there are none");
    assert!(zero.contains("`newest_rules` that is no number from 1 to 65535"), "{zero}");
}
