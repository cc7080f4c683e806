//! Traces of commands through all replicas, as an OpenTelemetry collector gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_app::kv::Condition;
use quorate_app::kv::command::encode;
use quorate_node::http::ask_json;
use quorate_node::launch::last_http_address;
use serde_json::Value;

use crate::cluster::{Cluster, wait_until};

/// A span, and the replica that told it.
#[derive(Clone, Debug)]
struct Told {
    instance: String,
    span: Value,
}

/// A collector: it keeps what replicas post.
struct Collector {
    address: String,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let kept = Arc::clone(&told);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A replica that gave up posts its next spans on another connection.
                let Some(spans) = posted(stream.unwrap()) else { continue };
                kept.lock().unwrap().extend(spans);
            }
        });
        Self { address, told }
    }

    /// The spans by trace.
    fn traces(&self) -> BTreeMap<String, Vec<Told>> {
        let mut traces = BTreeMap::<_, Vec<Told>>::new();
        for told in self.told.lock().unwrap().iter() {
            traces.entry(text(&told.span, "traceId")).or_default().push(told.clone());
        }
        traces
    }
}

/// What a replica posts on a connection; `None` if it gave up before its end.
fn posted(stream: TcpStream) -> Option<Vec<Told>> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    assert!(head.starts_with("POST /v1/traces "), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    // Told is told, whether or not it waits for the answer.
    let _ = stream.get_mut().write_all(answer.as_bytes());
    Some(spans(&serde_json::from_slice(&body).unwrap()))
}

fn text(span: &Value, key: &str) -> String {
    span[key].as_str().unwrap_or_default().to_owned()
}

/// The spans of a request.
fn spans(request: &Value) -> Vec<Told> {
    let resource = &request["resourceSpans"][0];
    let attributes = resource["resource"]["attributes"].as_array().unwrap();
    let instance = attributes.iter().find(|one| one["key"] == "service.instance.id").unwrap();
    let instance = text(&instance["value"], "stringValue");
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    spans.iter().map(|span| Told { instance: instance.clone(), span: span.clone() }).collect()
}

const STAGES: [&str; 6] = ["receive", "verify", "order", "persist", "execute", "reply"];

/// The spans of a trace that every replica told as a whole: by replica and name.
fn whole(trace: &[Told]) -> Option<BTreeMap<(String, String), Value>> {
    let named: BTreeMap<_, _> = trace
        .iter()
        .map(|told| ((told.instance.clone(), text(&told.span, "name")), told.span.clone()))
        .collect();
    (named.len() == 4 * (STAGES.len() + 1)).then_some(named)
}

fn order(cluster: &Cluster, client: &quorate_node::client::Client, number: u8) {
    let mut set = Vec::new();
    encode::set(&mut set, &[b'k', number], b"v", Condition::Always, false);
    cluster.runtime.block_on(client.submit(vec![set.into()])).unwrap();
}

/// One command is one trace, with the same spans of each replica. The one of the replica that
/// proposed its block is the root, the other replicas' are its children, and each stage is a child
/// of its own replica's.
#[test]
fn a_command_is_one_trace_through_all_replicas() {
    let collector = Collector::start();
    let otlp = format!("tracing.otlp={}", collector.address);
    let cluster = Cluster::start(&[], &[&otlp, "tracing.sample=1", "listen.http=127.0.0.1:0"]);
    let client = cluster.client();
    let mut found = None;
    let mut number = 0;
    wait_until("a command is told by all", || {
        order(&cluster, &client, number);
        number = number.wrapping_add(1);
        found = collector.traces().values().find_map(|trace| whole(trace));
        found.is_some()
    });
    let named = found.unwrap();
    let ids: BTreeSet<String> = named.values().map(|span| text(span, "spanId")).collect();
    assert_eq!(ids.len(), named.len(), "no id stands for two spans");
    let replicas: BTreeSet<&String> = named.keys().map(|(replica, _)| replica).collect();
    let own = |replica: &str| &named[&(replica.to_owned(), "command".to_owned())];
    let roots: Vec<_> =
        replicas.iter().filter(|replica| own(replica).get("parentSpanId").is_none()).collect();
    assert_eq!(roots.len(), 1, "the proposer's: {named:?}");
    for replica in &replicas {
        let command = own(replica);
        assert_eq!(command["kind"], 2);
        if *replica != *roots[0] {
            assert_eq!(text(command, "parentSpanId"), text(own(roots[0]), "spanId"));
        }
        let nanoseconds = |span: &Value, key: &str| text(span, key).parse::<u128>().unwrap();
        for stage in STAGES {
            let span = &named[&((*replica).clone(), stage.to_owned())];
            assert_eq!(text(span, "parentSpanId"), text(command, "spanId"), "{replica}: {stage}");
            let (begin, end) =
                (nanoseconds(span, "startTimeUnixNano"), nanoseconds(span, "endTimeUnixNano"));
            assert!(begin <= end, "{replica}: {stage}");
        }
        let numbers: Vec<_> = command["attributes"].as_array().unwrap().iter().collect();
        let of = |key: &str| {
            let one = numbers.iter().find(|one| one["key"] == key).unwrap();
            text(&one["value"], "intValue")
        };
        let root = own(roots[0])["attributes"].as_array().unwrap();
        assert!(root.iter().any(|one| one["key"] == "quorate.height"
            && text(&one["value"], "intValue") == of("quorate.height")));
        assert_eq!(of("quorate.commands"), "1");
    }
}

/// Without a collector that answers, everything goes on, and what was lost is counted.
#[test]
fn a_collector_that_is_gone_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let otlp = format!("tracing.otlp={}", listener.local_addr().unwrap());
    drop(listener);
    let cluster = Cluster::start(&[], &[&otlp, "tracing.sample=1", "listen.http=127.0.0.1:0"]);
    let client = cluster.client();
    (0..20).for_each(|number| order(&cluster, &client, number));
    wait_until("what was lost is counted", || {
        let address = last_http_address(&cluster.data(0)).unwrap();
        let told = quorate_node::http::ask(&address, "/metrics", Duration::from_secs(60)).unwrap();
        let dropped = "quorate_trace_spans_dropped_total ";
        let line = told.body.lines().find_map(|line| line.strip_prefix(dropped));
        line.is_some_and(|count| count.parse::<f64>().unwrap() > 0.0)
    });
    let address = last_http_address(&cluster.data(0)).unwrap();
    let status = ask_json(&address, "/status", Duration::from_secs(60)).unwrap();
    assert_eq!(status["not_ready"], Value::Null);
    // It is counted before the log says so.
    wait_until("the log says so", || cluster.log_text(0).contains("traces are lost"));
}

/// Without authorities, as in an empty container, no collector can be believed over TLS, and every
/// span would be lost. The replica does not start, and says which key to set.
#[test]
fn a_collector_over_tls_wants_authorities() {
    let cluster = Cluster::new(&[], &["tracing.otlp=https://127.0.0.1:4318"]);
    let mut command = cluster.command(0, &[]);
    let nobody = cluster.folder().join("nobody");
    std::fs::create_dir(&nobody).unwrap();
    command.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", nobody);
    let refused = cluster.refused_command(0, command);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let told = refused.stderr;
    assert!(told.contains("this system has no certificate authorities"), "{told}");
    assert!(told.contains("name a file of authorities in tracing.otlp_ca of node.toml"), "{told}");
    let refused = cluster.refused(0, &["--set", "tracing.otlp_ca=/nowhere/authority.pem"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("/nowhere/authority.pem"), "{}", refused.stderr);
}
