//! A small client for those endpoints: one request, one answer, both bounded.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Bytes of an answer at most.
const ANSWER_BYTES: u64 = 4 << 20;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code, such as 200.
    pub code: u16,
    /// The body.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody can be reached there, or the connection broke.
    #[error("{address} does not answer: {source}")]
    Io {
        /// Who was asked.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Whoever answers there is no replica.
    #[error("{address} does not answer as a replica does: {what}")]
    Foreign {
        /// Who was asked.
        address: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// Asks `address` (`host:port`) for `path`, and blocks for `patience` at most.
///
/// # Errors
/// [`AskError`].
pub fn ask(address: &str, path: &str, patience: Duration) -> Result<Reply, AskError> {
    let text = exchange(address, path, patience)
        .map_err(|source| AskError::Io { address: address.to_owned(), source })?;
    let foreign = |what| AskError::Foreign { address: address.to_owned(), what };
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| foreign("no HTTP head"))?;
    let code = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok())
        .ok_or_else(|| foreign("no HTTP status"))?;
    Ok(Reply { code, body: body.to_owned() })
}

/// As [`ask`], for an answer of 200 in JSON.
///
/// # Errors
/// [`AskError`].
pub fn ask_json(address: &str, path: &str, patience: Duration) -> Result<Value, AskError> {
    let foreign = |what| AskError::Foreign { address: address.to_owned(), what };
    let reply = ask(address, path, patience)?;
    if reply.code != 200 {
        return Err(foreign("not status 200"));
    }
    serde_json::from_str(&reply.body).map_err(|_| foreign("the body is not JSON"))
}

fn exchange(address: &str, path: &str, patience: Duration) -> io::Result<String> {
    let deadline = Instant::now() + patience;
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let socket = address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such host"))?;
    let mut stream = TcpStream::connect_timeout(&socket, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    // HTTP/1.0: the answer comes in one piece and ends with the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut part)? {
            0 => break,
            count => bytes.extend_from_slice(&part[..count]),
        }
        if bytes.len() as u64 > ANSWER_BYTES {
            return Err(io::Error::other("the answer is too long"));
        }
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}
