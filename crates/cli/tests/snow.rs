//! `quorate snow`: the page, served, and the grid without a terminal.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorate");

/// A server, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..end]).to_lowercase(), answer[end + 4..].to_vec())
}

#[test]
fn the_page_is_served_with_its_parts_and_nothing_else() {
    let child = Command::new(PROGRAM)
        .args(["snow", "serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let (head, body) = get(&address, "/");
    assert!(head.starts_with("http/1.1 200") && head.contains("text/html"), "{head}");
    assert!(head.contains("script-src 'self' 'wasm-unsafe-eval';"), "{head}");
    let page = String::from_utf8(body).unwrap();
    assert!(page.contains("<script src=\"snow.js\"></script>") && !page.contains("<style>"));
    assert_eq!(get(&address, "/snow.wasm").1, quorate_snow::page::MODULE);
    assert!(get(&address, "/snow.wasm").0.contains("application/wasm"));
    assert!(get(&address, "/snow.css").0.contains("text/css"));
    assert_eq!(get(&address, "/snow.js").1, quorate_snow::page::script().into_bytes());
    assert!(get(&address, "/etc/passwd").0.starts_with("http/1.1 404"));
}

#[test]
fn the_grid_is_printed_until_all_have_decided() {
    let run = |arguments: &[&str]| {
        let said = Command::new(PROGRAM).args(["snow", "watch"]).args(arguments).output().unwrap();
        (said.status.code(), String::from_utf8(said.stdout).unwrap())
    };
    let (code, text) = run(&["-n", "100", "--byzantine", "4", "--step", "200", "--seed", "3"]);
    assert_eq!(code, Some(0));
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    let count = |letter: char| {
        last.lines().skip(1).flat_map(str::chars).filter(|found| *found == letter).count()
    };
    let both = (count('O'), count('X'));
    assert!(both == (96, 0) || both == (0, 96), "{last}");
    assert_eq!(count('#'), 4);
    let (code, text) = run(&["-n", "100", "--frames", "2"]);
    assert_eq!((code, text.matches("undecided").count()), (Some(0), 2));
    assert_eq!(run(&["--alpha", "4"]).0, Some(2));
    let broken = ["-n", "100", "--byzantine", "80", "--adversary", "split", "--step", "1000"];
    assert_eq!(run(&broken).0, Some(5), "two decisions are a failure");
}
