//! Redis's own clients at the gateway, where they are installed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use crate::cluster::{Cluster, quorate};
use crate::needs;

struct Gateway {
    child: Child,
    port: String,
}

impl Gateway {
    fn start(cluster: &Cluster) -> Self {
        let mut child = quorate()
            .args(["--output", "json", "gateway", "--listen", "127.0.0.1:0", "--home"])
            .arg(cluster.folder().join("client"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.rsplit(':').next().unwrap().trim_matches(|c: char| !c.is_ascii_digit());
        Self { child, port: port.to_owned() }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program).args(["-p", &self.port]).args(arguments).output().unwrap()
    }

    fn cli(&self, arguments: &[&str]) -> String {
        let output = self.run("redis-cli", arguments);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_clients_are_served() {
    let cluster = Cluster::start(&[], &[]);
    let gateway = Gateway::start(&cluster);
    let connect = || TcpStream::connect(format!("127.0.0.1:{}", gateway.port)).unwrap();
    // Pipelined: all answers, in order.
    let mut pipelined = connect();
    let mut commands = Vec::new();
    for number in 0..1000 {
        commands.extend(format!("SET p:{number} {number}\r\nGET p:{number}\r\n").into_bytes());
    }
    pipelined.write_all(&commands).unwrap();
    let mut lines = BufReader::new(pipelined.try_clone().unwrap()).lines();
    for number in 0..1000 {
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        assert_eq!(lines.next().unwrap().unwrap(), format!("${}", number.to_string().len()));
        assert_eq!(lines.next().unwrap().unwrap(), number.to_string());
    }
    // What is not the protocol ends its own connection alone.
    let mut garbage = connect();
    garbage.write_all(b"*1\r\n$-7\r\n\x00\xff\r\n").unwrap();
    let mut answer = Vec::new();
    garbage.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"-ERR Protocol error"), "{answer:?}");
    pipelined.write_all(b"PING\r\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "+PONG");
    if needs::program("redis-cli", "redis-tools") {
        assert_eq!(gateway.cli(&["SET", "k", "v"]), "OK");
        assert_eq!(gateway.cli(&["GET", "k"]), "v");
        assert_eq!(gateway.cli(&["INCR", "n"]), "1");
        assert_eq!(gateway.cli(&["HSET", "h", "a", "1", "b", "2"]), "2");
        assert_eq!(gateway.cli(&["HGETALL", "h"]), "a\n1\nb\n2");
        assert_eq!(gateway.cli(&["DEL", "k", "h"]), "2");
    }
    if needs::program("redis-benchmark", "redis-tools") {
        let arguments = ["-t", "set,get", "-n", "20000", "-c", "20", "-P", "16", "-q"];
        let output = gateway.run("redis-benchmark", &arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("SET: ") && text.contains("GET: "), "{text}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("rror"), "{errors}");
    }
}
