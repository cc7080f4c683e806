//! Spans on their way to the collector: OTLP/HTTP in JSON, the protocol of OpenTelemetry's
//! collectors (OpenTelemetry Protocol Specification 1.x, "OTLP/HTTP" and "JSON Protobuf Encoding"):
//! ids in hexadecimal, 64-bit numbers as texts, names in lower camel case.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{COMMAND, Source, Span, span_id, trace_id};
use crate::http::Asker;
use crate::replica::metrics::Metrics;

/// Spans of one request at most, and how long the first of them waits for others.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_millis(200);
/// How long the collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where it takes traces.
const PATH: &str = "/v1/traces";

/// `SpanKind`: something that others asked for, and a part of it.
const SERVER: u8 = 2;
const INTERNAL: u8 = 1;

/// Sends what comes, until nobody can tell anything more.
pub(super) fn send_all(
    spans: &Receiver<Span>,
    (asker, collector): (&Asker, &str),
    source: Source,
    metrics: &Metrics,
) {
    let mut failures = 0_u64;
    while let Ok(first) = spans.recv() {
        let (mut batch, until) = (vec![first], Instant::now() + GATHER);
        while batch.len() < BATCH
            && let Ok(next) = spans.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            batch.push(next);
        }
        let count = batch.len() as u64;
        let body = request(&batch, source, (Instant::now(), SystemTime::now())).to_string();
        let why = match asker.post_json(collector, PATH, &body, PATIENCE) {
            Ok(reply) if (200..300).contains(&reply.code) => {
                metrics.trace_spans_total.add(count);
                continue;
            }
            Ok(reply) => format!("{collector} answers with status {}", reply.code),
            Err(error) => error.to_string(),
        };
        metrics.trace_spans_dropped_total.add(count);
        failures += 1;
        if failures.is_power_of_two() {
            tracing::warn!(
                failures,
                "traces are lost: {why}; see that a collector takes OTLP over HTTP there \
                 (`tracing.otlp`), and whose certificate it has (`tracing.otlp_ca`)"
            );
        }
    }
}

/// An `ExportTraceServiceRequest`. Spans are timed by a clock that only goes on; `now` is one
/// moment of it, and of the calendar's.
fn request(spans: &[Span], source: Source, now: (Instant, SystemTime)) -> Value {
    let text = |key: &str, value: String| json!({ "key": key, "value": { "stringValue": value } });
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            text("service.name", "quorate".to_owned()),
            text("service.version", crate::http::VERSION.to_owned()),
            text("service.instance.id", format!("replica-{}", source.replica)),
            text("quorate.chain", source.chain.to_string()),
        ] },
        "scopeSpans": [{
            "scope": { "name": "quorate", "version": crate::http::VERSION },
            "spans": spans.iter().map(|span| of_span(span, source, now)).collect::<Vec<_>>(),
        }],
    }] })
}

fn of_span(span: &Span, source: Source, (instant, time): (Instant, SystemTime)) -> Value {
    let nanoseconds = |moment: Instant| {
        let ago = instant.saturating_duration_since(moment);
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        since.saturating_sub(ago).as_nanos().to_string()
    };
    let number = |(key, value): &(&str, u64)| json!({ "key": key, "value": { "intValue": value.to_string() } });
    let mut json = json!({
        "traceId": hex(&trace_id(&span.frame)),
        "spanId": hex(&span_id(&span.frame, source.replica, span.name)),
        "name": span.name,
        "kind": if span.name == COMMAND { SERVER } else { INTERNAL },
        "startTimeUnixNano": nanoseconds(span.begin),
        "endTimeUnixNano": nanoseconds(span.end.max(span.begin)),
        "attributes": span.attributes.iter().map(number).collect::<Vec<_>>(),
        "status": {},
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = hex(&parent).into();
    }
    json
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use quorate_core::{Digest, ReplicaId};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::super::{Settings, Trust};
    use super::*;
    use crate::config::HostPort;
    use crate::tls::TlsFiles;

    fn source() -> Source {
        Source { chain: Digest([0xab; 32]), replica: ReplicaId(2) }
    }

    fn span(begin: Instant, parent: Option<[u8; 8]>) -> Span {
        let (end, attributes) = (begin + Duration::from_nanos(40), vec![("quorate.height", 7)]);
        Span { frame: Digest([1; 32]), name: COMMAND, parent, begin, end, attributes }
    }

    /// As the specification's example spells it.
    #[test]
    fn a_span_is_what_collectors_read() {
        let now = Instant::now();
        let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let at = (now + Duration::from_secs(1), time);
        let told = request(&[span(now, Some([9; 8]))], source(), at);
        let resource = &told["resourceSpans"][0]["resource"]["attributes"];
        assert_eq!(
            resource[0],
            json!({ "key": "service.name", "value": { "stringValue": "quorate" } })
        );
        assert_eq!(resource[2]["value"]["stringValue"], "replica-2");
        let spans = &told["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let expected = json!([{
            "traceId": "01".repeat(16),
            "spanId": hex(&span_id(&Digest([1; 32]), ReplicaId(2), COMMAND)),
            "parentSpanId": "09".repeat(8),
            "name": "command",
            "kind": 2,
            "startTimeUnixNano": "1699999999000000000",
            "endTimeUnixNano": "1699999999000000040",
            "attributes": [{ "key": "quorate.height", "value": { "intValue": "7" } }],
            "status": {},
        }]);
        assert_eq!(*spans, expected);
        let root = request(&[span(now, None)], source(), at);
        assert!(
            root["resourceSpans"][0]["scopeSpans"][0]["spans"][0].get("parentSpanId").is_none()
        );
    }

    /// A collector that refuses loses a batch, and the next one is sent all the same.
    #[test]
    fn what_the_collector_does_not_take_is_counted_and_the_rest_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let collector = std::thread::spawn(move || {
            let mut heads = Vec::new();
            for answer in ["HTTP/1.1 503 Busy\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n{}"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut said = Vec::new();
                // The whole request: its body ends so.
                while !said.ends_with(b"}]}]}") {
                    let mut bytes = [0; 4096];
                    let count = stream.read(&mut bytes).unwrap();
                    said.extend_from_slice(&bytes[..count]);
                }
                stream.write_all(answer.as_bytes()).unwrap();
                heads.push(String::from_utf8(said).unwrap());
            }
            heads
        });
        let (queue, spans) = sync_channel(4);
        let metrics = std::sync::Arc::new(Metrics::default());
        let counted = std::sync::Arc::clone(&metrics);
        let sender = std::thread::spawn(move || {
            send_all(&spans, (&Asker::default(), &address), source(), &counted);
        });
        let now = Instant::now();
        queue.send(span(now, None)).unwrap();
        while metrics.trace_spans_dropped_total.get() == 0 {
            std::thread::yield_now();
        }
        queue.send(span(now, None)).unwrap();
        drop(queue);
        sender.join().unwrap();
        assert_eq!(metrics.trace_spans_dropped_total.get(), 1);
        assert_eq!(metrics.trace_spans_total.get(), 1);
        for request in collector.join().unwrap() {
            assert!(request.starts_with("POST /v1/traces HTTP/1.0\r\n"), "{request}");
            assert!(request.contains("\r\nContent-Type: application/json\r\n"), "{request}");
        }
    }

    /// A certificate of its own, and its key.
    fn pair(folder: &Path, name: &str) -> TlsFiles {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) =
            (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        TlsFiles { certificate, key, client_authorities: None }
    }

    /// Answers one request over TLS with 200. Whether one came.
    fn answers_once(listener: &TcpListener, config: Arc<ServerConfig>) -> bool {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        let mut said = Vec::new();
        while !said.ends_with(b"}]}]}") {
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(count @ 1..) => said.extend_from_slice(&bytes[..count]),
                Ok(0) | Err(_) => return false,
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{}").unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        said.starts_with(b"POST /v1/traces HTTP/1.0\r\n")
    }

    /// Over TLS a collector is told whose authority is known, and nobody else.
    #[test]
    fn a_collector_over_tls_is_believed_by_its_certificate_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| pair(folder.path(), name));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector: HostPort = listener.local_addr().unwrap().to_string().parse().unwrap();
        let told = |trust: Trust| {
            let to = Settings { collector: collector.clone(), trust: Some(trust), sample: 1.0 };
            let (asker, metrics) = (to.asker().unwrap(), Metrics::default());
            let (queue, spans) = sync_channel(1);
            queue.send(span(Instant::now(), None)).unwrap();
            drop(queue);
            let config = own.load().unwrap();
            std::thread::scope(|scope| {
                let answers = scope.spawn(|| answers_once(&listener, config));
                send_all(&spans, (&asker, &collector.to_string()), source(), &metrics);
                let sent = metrics.trace_spans_total.get() == 1;
                assert_eq!(sent, metrics.trace_spans_dropped_total.get() == 0);
                assert_eq!(answers.join().unwrap(), sent);
                sent
            })
        };
        assert!(told(Trust::File(own.certificate.clone())));
        assert!(!told(Trust::File(other.certificate.clone())), "of another authority");
        let missing = Trust::File(folder.path().join("none.pem"));
        let to = Settings { collector, trust: Some(missing), sample: 1.0 };
        let said = to.asker().unwrap_err().to_string();
        assert!(said.contains("none.pem"), "{said}");
    }
}
