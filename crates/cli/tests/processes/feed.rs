//! `quorate watch`, and `/watch` over HTTP: all that changes, in order, each change once, whatever
//! becomes of replicas.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use quorate_app::kv::Condition;
use quorate_app::kv::command::encode;
use quorate_node::client::Client;
use quorate_node::launch::last_http_address;
use serde_json::Value;

use crate::cluster::{Cluster, DEADLINE, quorate, wait_until};

/// The lines that a process writes, as they come.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    /// Starts `quorate watch`, and waits until it watches.
    fn watch(cluster: &Cluster, arguments: &[&str]) -> Self {
        let mut command = quorate();
        command.args(["--output", "json", "watch", "--home"]).arg(cluster.folder().join("client"));
        let mut child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("watching from height ") {
            // A replica that is slow to answer is a warning.
            assert!(line.is_empty() || line.starts_with("warning: "), "{line}");
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended");
        }
        // What it warns of is not read, and must not hold it up.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let lines = lines(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE).expect("a change within the deadline");
        serde_json::from_str(&line).unwrap()
    }

    /// The changes up to the one that sets this key.
    fn up_to(&self, key: &str) -> Vec<Value> {
        let mut changes = Vec::new();
        while changes.last().is_none_or(|change: &Value| change["key"] != key) {
            changes.push(self.next());
        }
        changes
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
    });
    receiver
}

fn set(key: &str, value: &str) -> Bytes {
    let mut command = Vec::new();
    encode::set(&mut command, key.as_bytes(), value.as_bytes(), Condition::Always, false);
    command.into()
}

fn order(cluster: &Cluster, client: &Client, commands: Vec<Bytes>) {
    cluster.runtime.block_on(client.submit(commands)).unwrap();
}

/// Orders numbered writes, some of them together, and returns what was written.
fn write(
    cluster: &Cluster,
    client: &Client,
    numbers: std::ops::Range<u32>,
) -> Vec<(String, String)> {
    let pairs: Vec<_> =
        numbers.map(|number| (format!("w/{}", number % 7), number.to_string())).collect();
    for some in pairs.chunks(3) {
        let other = set("other", "not watched");
        let commands = some.iter().map(|(key, value)| set(key, value)).chain([other]);
        order(cluster, client, commands.collect());
    }
    pairs
}

fn written(changes: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    changes.iter().map(|change| (text(&change["key"]), text(&change["value"]))).collect()
}

/// Whether no change stands twice, and none before an earlier one.
fn ascend(changes: &[Value]) -> bool {
    let place = |change: &Value| (change["height"].as_u64(), change["index"].as_u64());
    changes.windows(2).all(|two| place(&two[0]) < place(&two[1]))
}

#[test]
fn nothing_is_missing_or_doubled_while_replicas_die_and_lie() {
    let mut cluster = Cluster::new(&[], &["view_timeout.base=300ms"]);
    // One lies about all that it is asked.
    cluster.start_replica(0, &["--set", "laboratory.enabled=true", "--adversary", "lying-replies"]);
    (1..4).for_each(|replica| cluster.start_replica(replica, &[]));
    let client = cluster.client();
    order(&cluster, &client, vec![set("w/before", "watched")]);
    let at_the_liar = Lines::watch(&cluster, &["--from", "1", "--replica", "0", "w/"]);
    let other = Lines::watch(&cluster, &["--from", "1", "--replica", "3", "w/"]);
    let mut expected = vec![("w/before".to_owned(), "watched".to_owned())];
    expected.extend(write(&cluster, &client, 0..40));
    // The one that it asks dies, and comes back.
    cluster.kill(3);
    expected.extend(write(&cluster, &client, 40..80));
    cluster.start_replica(3, &[]);
    expected.extend(write(&cluster, &client, 80..120));
    order(&cluster, &client, vec![set("w/end", "")]);
    expected.push(("w/end".to_owned(), String::new()));
    let mut resumed = None;
    for watcher in [&at_the_liar, &other] {
        let changes = watcher.up_to("w/end");
        assert_eq!(written(&changes), expected);
        assert!(ascend(&changes));
        resumed = changes.get(60).and_then(|change| change["height"].as_u64());
    }
    // Another one goes on behind a height.
    let from = resumed.unwrap() + 1;
    let again = Lines::watch(&cluster, &["--from", &from.to_string(), "w/"]).up_to("w/end");
    assert_eq!(written(&again), expected[expected.len() - again.len()..]);
    assert!(again.len() > 20 && again[0]["height"].as_u64() >= Some(from));
    // And what comes afterwards comes to all.
    order(&cluster, &client, vec![set("w/late", "1")]);
    for watcher in [&at_the_liar, &other] {
        assert_eq!(written(&[watcher.next()]), [("w/late".to_owned(), "1".to_owned())]);
    }
}

#[test]
fn transactions_and_hashes_are_told_as_what_changed() {
    let cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let client = cluster.client();
    let command = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut command = Vec::new();
        write(&mut command);
        Bytes::from(command)
    };
    let watcher = Lines::watch(&cluster, &[]);
    // One frame: what the gateway makes of a transaction.
    order(
        &cluster,
        &client,
        vec![
            command(&|out| encode::h_set(out, b"h", [&b"a"[..], b"1", b"b", b"2"])),
            command(&|out| encode::incr_by(out, b"n", 5)),
            command(&|out| encode::h_del(out, b"h", [&b"a"[..], b"none", b"b"])),
            command(&|out| encode::del(out, [&b"none"[..]])),
            command(&encode::flush_all),
        ],
    );
    let told: Vec<Value> = (0..5).map(|_| watcher.next()).collect();
    let kinds: Vec<&str> = told.iter().filter_map(|change| change["change"].as_str()).collect();
    assert_eq!(kinds, ["set-fields", "set", "remove-fields", "remove", "remove-all"]);
    assert_eq!((&told[1]["key"], &told[1]["value"]), (&"n".into(), &"5".into()));
    let names: Vec<_> =
        told[2]["fields"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(told.iter().all(|change| change["height"] == told[0]["height"]));
}

const ACCEPT: &str = "Accept: text/event-stream\r\n";

/// A reader of server-sent events.
struct Events {
    stream: BufReader<TcpStream>,
    head: String,
}

#[derive(Debug, Default)]
struct Event {
    id: String,
    name: String,
    data: Option<Value>,
}

impl Events {
    fn open(address: &str, query: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request =
            format!("GET /watch{query} HTTP/1.1\r\nHost: {address}\r\n{ACCEPT}{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        }
        Self { stream, head }
    }

    /// The body of an answer that is no stream.
    fn body(&mut self) -> String {
        let head = self.head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut bytes = vec![0; length.unwrap().parse().unwrap()];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The next chunk's bytes (RFC 9112, section 7.1), as lines; chunks end where events do.
    fn chunk(&mut self) -> String {
        let mut length = String::new();
        self.stream.read_line(&mut length).unwrap();
        let length = usize::from_str_radix(length.trim_end(), 16).unwrap();
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        String::from_utf8(bytes).unwrap()
    }

    fn events(&mut self) -> Vec<Event> {
        let text = self.chunk();
        let event = |text: &str| {
            let mut event = Event::default();
            for line in text.lines() {
                match line.split_once(": ").unwrap() {
                    ("id", id) => event.id = id.to_owned(),
                    ("event", name) => event.name = name.to_owned(),
                    ("data", data) => event.data = Some(serde_json::from_str(data).unwrap()),
                    other => panic!("{other:?}"),
                }
            }
            event
        };
        text.split_terminator("\n\n").map(event).collect()
    }

    /// Changes up to the one that sets this key, by id.
    fn up_to(&mut self, key: &str) -> BTreeMap<String, Value> {
        let mut changes = BTreeMap::new();
        loop {
            for event in self.events() {
                let Some(data) = event.data else { continue };
                let is_last = data["key"] == key;
                assert!(changes.insert(event.id, data).is_none(), "an event stands twice");
                if is_last {
                    return changes;
                }
            }
        }
    }
}

#[test]
fn events_over_http_go_on_behind_the_last_one_at_another_replica() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let client = cluster.client();
    let address =
        |cluster: &Cluster, replica: usize| last_http_address(&cluster.data(replica)).unwrap();
    write(&cluster, &client, 0..20);
    order(&cluster, &client, vec![set("w/middle", "")]);
    let mut first = Events::open(&address(&cluster, 0), "?prefix=w%2F&from=1", "");
    assert!(
        first.head.to_lowercase().contains("content-type: text/event-stream"),
        "{}",
        first.head
    );
    let mut told = first.up_to("w/middle");
    assert_eq!(told.len(), 21);
    let last = told.iter().find(|(_, data)| data["key"] == "w/middle").unwrap().0.clone();
    cluster.kill(0);
    write(&cluster, &client, 20..40);
    order(&cluster, &client, vec![set("w/end", "")]);
    let mut second =
        Events::open(&address(&cluster, 1), "?prefix=w%2F", &format!("Last-Event-ID: {last}\r\n"));
    let rest = second.up_to("w/end");
    assert_eq!(rest.len(), 21);
    for (id, data) in rest {
        assert!(told.insert(id, data).is_none(), "an event stands twice");
    }
    // Pages of others, a request that makes no sense, and one too many.
    let replica = address(&cluster, 1);
    let page = Events::open(&replica, "?from=1", "Origin: http://example.org\r\n");
    assert!(page.head.starts_with("HTTP/1.1 403 "), "{}", page.head);
    let bad = Events::open(&replica, "?since=1", "");
    assert!(bad.head.starts_with("HTTP/1.1 400 "), "{}", bad.head);
    let mut many: Vec<Events> = (0..9).map(|_| Events::open(&replica, "", "")).collect();
    let codes = many.iter().filter(|events| events.head.starts_with("HTTP/1.1 200 ")).count();
    assert_eq!(codes, 3, "with the second one above, four");
    assert!(many[8].head.starts_with("HTTP/1.1 429 "), "{}", many[8].head);
    let told = many[8].body();
    assert!(told.contains("an address may have 4 streams at once"), "{told}");
    drop((second, many));
    // Their places are free again.
    wait_until("a place is free", || {
        Events::open(&replica, "", "").head.starts_with("HTTP/1.1 200 ")
    });
}

/// Changes below the oldest snapshot's height are gone after a restart of all.
#[test]
fn a_height_that_is_gone_is_told_with_the_oldest_and_how_to_begin_anew() {
    let settings = ["view_timeout.base=300ms", "storage.snapshot_every=16"];
    let mut cluster = Cluster::start(&[], &settings);
    let client = cluster.client();
    write(&cluster, &client, 0..300);
    let snapshot = |cluster: &Cluster, replica: usize| {
        let status = quorate_node::http::ask_json(
            &last_http_address(&cluster.data(replica)).unwrap(),
            "/status",
            DEADLINE,
        );
        status.unwrap()["state"]["snapshot_bytes"].as_u64().unwrap() > 0
    };
    wait_until("all have a snapshot", || (0..4).all(|replica| snapshot(&cluster, replica)));
    drop(client);
    cluster.kill_all();
    cluster.start_all();
    let client = cluster.client();
    order(&cluster, &client, vec![set("w/again", "")]);
    let mut watch = quorate();
    watch.args(["watch", "--from", "1", "--home"]).arg(cluster.folder().join("client"));
    let refused = ended(&mut watch);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("the changes from height 1 on are not kept any more"), "{text}");
    assert!(text.contains("quorate get --verified"), "{text}");
    let oldest: u64 = text
        .split("are those at height ")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let there = Lines::watch(&cluster, &["--from", &oldest.to_string(), "w/"]);
    there.up_to("w/again");
    let gone = Events::open(&last_http_address(&cluster.data(1)).unwrap(), "?from=1", "");
    assert!(gone.head.starts_with("HTTP/1.1 410 "), "{}", gone.head);
}

/// The output of a command that has to end by itself.
fn ended(command: &mut Command) -> std::process::Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut code = None;
    wait_until("the command ends", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    child.wait_with_output().unwrap()
}
