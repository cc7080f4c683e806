//! What the load generator says of a cluster that stands still.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::{Cluster, quorate};

/// All replicas are stopped for a second, again and again, so that one stop at least falls into
/// what is measured. The commands that were due meanwhile are charged to it, though no session had
/// room for them.
#[test]
fn an_open_loop_shows_a_stall_of_a_second_as_a_second() {
    let cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let load = "load --rate 200 --payload 0B --clients 2 --outstanding 2 --warmup 1 --seconds 6 -o json --home";
    let mut load = quorate()
        .args(load.split_whitespace())
        .arg(cluster.folder().join("client"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while load.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(120), "the load does not end");
        for (signal, seconds) in [(Signal::STOP, 1.0), (Signal::CONT, 1.5)] {
            (0..cluster.size()).for_each(|replica| cluster.signal(replica, signal));
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
    }
    let output = load.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["max_ms"].as_f64().unwrap() >= 1_000.0, "{report}");
    // A second in 2.5: more than one command in ten waited for a tenth of a second and more.
    assert!(report["p90_ms"].as_f64().unwrap() >= 100.0, "{report}");
    assert_eq!((&report["wrong"], &report["unanswered"]), (&0.into(), &0.into()), "{report}");
}
