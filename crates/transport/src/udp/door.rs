//! The door: one socket on which all sessions arrive, told apart by their addresses.
//!
//! Four kinds of datagrams precede DTLS. Their first byte tells them from DTLS, whose first byte is
//! 20 to 63 (RFC 7983):
//!
//! | first byte | | from | then |
//! |---|---|---|---|
//! | 1 | ask | who dials | nonce, zeros to 64 bytes |
//! | 2 | token | who is dialled | nonce (8 bytes), token (16) |
//! | 3 | open | who dials | nonce, token, a datagram of DTLS |
//! | 4 | gone | who is dialled | mark (16) |
//!
//! **No place for forged addresses.** The answer to an ask is a token: a hash of the address and a
//! secret. The token is shorter than the ask. The door stores nothing until the address shows its
//! token. (DTLS has a cookie for this, but the library keeps a session for each asking address.)
//!
//! **Gone.** After a restart, datagrams of earlier sessions arrive. The door answers them with the
//! address's mark. The other end received this mark through the session. An observer of the path to
//! that address can learn it. So the other end believes a mark only if it heard nothing of the
//! session for a second.
//!
//! **Anew.** If an address has a live session, an opening of another attempt from it is ignored.
//! Otherwise an observer of the path could end the session. A session is alive if one of its
//! datagrams was opened lately.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::Digest;
use tokio::sync::mpsc;

use super::datagrams::{Burst, Datagrams, Received};

const ASK: u8 = 1;
const TOKEN: u8 = 2;
const OPEN: u8 = 3;
const GONE: u8 = 4;
/// The length of an ask. It is longer than its answer.
const ASK_BYTES: usize = 64;
const NONCE_BYTES: usize = 8;
const SECRET_BYTES: usize = 16;
/// The length of the prefix of a DTLS datagram until the other side has answered one.
pub(super) const OPENING_BYTES: usize = 1 + NONCE_BYTES + SECRET_BYTES;
/// A token is valid in its period and the next one.
const PERIOD: Duration = Duration::from_secs(16);
/// The possible first bytes of a DTLS datagram.
const DTLS: std::ops::RangeInclusive<u8> = 20..=63;
/// Shorter than any record of a session, and longer than the answer to it.
const RECORD_BYTES: usize = 1 + SECRET_BYTES + 4;
/// A session that was silent for this long may be replaced. Links ping more often, and end by then.
const ALIVE: Duration = Duration::from_secs(10);
/// The bytes that may wait for a session that does not read.
const WAITING_BYTES: usize = 1 << 20;
const WAITING_BURSTS: usize = 256;

/// Tells the attempts to dial apart.
pub(super) type Nonce = [u8; NONCE_BYTES];
/// A token or a mark.
pub(super) type Secret = [u8; SECRET_BYTES];

/// The request for a token.
pub(super) fn ask(nonce: Nonce) -> [u8; ASK_BYTES] {
    let mut datagram = [0; ASK_BYTES];
    datagram[0] = ASK;
    datagram[1..=NONCE_BYTES].copy_from_slice(&nonce);
    datagram
}

/// Reads the token from an answer to [`ask`].
pub(super) fn token(datagram: &[u8], nonce: Nonce) -> Option<Secret> {
    let (&kind, rest) = datagram.split_first()?;
    let (echo, token) = rest.split_first_chunk::<NONCE_BYTES>()?;
    (kind == TOKEN && *echo == nonce).then_some(token)?.try_into().ok()
}

/// The prefix of DTLS datagrams until the other side has answered one.
pub(super) fn opening(nonce: Nonce, token: Secret) -> [u8; OPENING_BYTES] {
    let mut opening = [0; OPENING_BYTES];
    opening[0] = OPEN;
    opening[1..=NONCE_BYTES].copy_from_slice(&nonce);
    opening[1 + NONCE_BYTES..].copy_from_slice(&token);
    opening
}

/// Whether this datagram is for the channel.
pub(super) fn is_dtls(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| DTLS.contains(first))
}

/// Reads the mark, if the datagram says that the session is gone.
pub(super) fn gone(datagram: &[u8]) -> Option<Secret> {
    let (&kind, mark) = datagram.split_first()?;
    (kind == GONE).then_some(mark)?.try_into().ok()
}

/// The queue of datagrams for one session.
#[derive(Debug)]
struct Waiting {
    bytes: Bytes,
    each: usize,
}

/// A session that the door knows by its address.
#[derive(Debug)]
struct Known {
    nonce: Nonce,
    sender: mpsc::Sender<Waiting>,
    waiting: Arc<AtomicUsize>,
    heard: Arc<AtomicU64>,
}

impl Known {
    /// Passes datagrams on if there is room.
    fn pass(&self, bytes: Bytes, each: usize) {
        let length = bytes.len();
        if self.waiting.fetch_add(length, Ordering::Relaxed) + length > WAITING_BYTES
            || self.sender.try_send(Waiting { bytes, each }).is_err()
        {
            self.waiting.fetch_sub(length, Ordering::Relaxed);
        }
    }
}

type Sessions = Mutex<HashMap<SocketAddr, Known>>;

fn locked(sessions: &Sessions) -> MutexGuard<'_, HashMap<SocketAddr, Known>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A session's share of the socket. Dropping it ends the session.
pub(super) struct Session {
    pub(super) datagrams: Arc<Datagrams>,
    pub(super) address: SocketAddr,
    /// The mark that the other side must be told.
    pub(super) mark: Secret,
    nonce: Nonce,
    receiver: mpsc::Receiver<Waiting>,
    waiting: Arc<AtomicUsize>,
    /// The time at which something was opened last, in milliseconds since `began`; 0 means never.
    heard: Arc<AtomicU64>,
    began: Instant,
    sessions: Arc<Sessions>,
}

impl Session {
    /// Records that a datagram of the other side was opened.
    pub(super) fn note_heard(&self) {
        self.heard.store(milliseconds(self.began).max(1), Ordering::Relaxed);
    }

    /// The next datagrams, or `None` if a newer session of the same address took over.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Bytes, usize)>> {
        let Some(Waiting { bytes, each }) = ready!(self.receiver.poll_recv(cx)) else {
            return Poll::Ready(None);
        };
        self.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        Poll::Ready(Some((bytes, each)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut sessions = locked(&self.sessions);
        if sessions.get(&self.address).is_some_and(|known| known.nonce == self.nonce) {
            sessions.remove(&self.address);
        }
    }
}

/// The socket on which sessions arrive.
pub(super) struct Door {
    datagrams: Arc<Datagrams>,
    sessions: Arc<Sessions>,
    most_sessions: usize,
    /// The secret of tokens. Each process has its own.
    secret: Digest,
    /// The secret of marks. It survives a restart.
    restart_secret: Digest,
    began: Instant,
    arrivals: mpsc::Sender<Session>,
}

impl Door {
    /// Routes the datagrams that arrive at `datagrams` to their sessions. New sessions go to
    /// `arrivals`.
    pub(super) fn new(
        datagrams: Arc<Datagrams>,
        restart_secret: Digest,
        most_sessions: usize,
        arrivals: mpsc::Sender<Session>,
    ) -> io::Result<Self> {
        let mut secret = Digest::default();
        getrandom::fill(&mut secret.0).map_err(io::Error::other)?;
        let (sessions, began) = (Arc::default(), Instant::now());
        Ok(Self { datagrams, sessions, most_sessions, secret, restart_secret, began, arrivals })
    }

    /// Serves the socket until the future is dropped.
    pub(super) async fn serve(self) {
        let mut received = Received::default();
        loop {
            let burst = std::future::poll_fn(|cx| {
                self.receive(cx, &mut received).map(|burst| burst.is_ok())
            });
            if !burst.await {
                // The system is out of some resource.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    fn receive(&self, cx: &mut Context<'_>, received: &mut Received) -> Poll<io::Result<()>> {
        let burst = ready!(self.datagrams.poll_receive(cx, received))?;
        let Burst { from, bytes, each } = burst;
        // Datagrams received in one call have one length, but may be of several kinds.
        if bytes.chunks(each).all(is_dtls) {
            self.to_session(from, bytes, each);
        } else {
            bytes.chunks(each).for_each(|datagram| self.handle(from, datagram));
        }
        Poll::Ready(Ok(()))
    }

    /// Handles one datagram of any kind.
    pub(super) fn handle(&self, from: SocketAddr, datagram: &[u8]) {
        match is_dtls(datagram) {
            true => self.to_session(from, datagram, datagram.len()),
            false => self.in_front(from, datagram),
        }
    }

    fn to_session(&self, from: SocketAddr, bytes: &[u8], each: usize) {
        match locked(&self.sessions).get(&from) {
            Some(known) => known.pass(Bytes::copy_from_slice(bytes), each),
            None => self.say_gone(from, bytes),
        }
    }

    fn say_gone(&self, to: SocketAddr, bytes: &[u8]) {
        if bytes.len() >= RECORD_BYTES {
            let mut datagram = [GONE; 1 + SECRET_BYTES];
            datagram[1..].copy_from_slice(&mark(&self.restart_secret, to));
            self.datagrams.send(to, &datagram, datagram.len());
        }
    }

    fn in_front(&self, from: SocketAddr, datagram: &[u8]) {
        let Some((kind, rest)) = datagram.split_first() else { return };
        let Some((&nonce, rest)) = rest.split_first_chunk::<NONCE_BYTES>() else { return };
        match *kind {
            ASK if datagram.len() >= ASK_BYTES => {
                let mut answer = opening(nonce, self.token(self.period(), from, nonce));
                answer[0] = TOKEN;
                self.datagrams.send(from, &answer, answer.len());
            }
            OPEN => {
                let Some((token, sealed)) = rest.split_first_chunk::<SECRET_BYTES>() else {
                    return;
                };
                let now = self.period();
                let holds = |period| *token == self.token(period, from, nonce);
                if (holds(now) || now.checked_sub(1).is_some_and(holds)) && is_dtls(sealed) {
                    self.open(from, nonce, Bytes::copy_from_slice(sealed));
                }
            }
            _ => {}
        }
    }

    /// Handles an opening of a verified address: it belongs to the current attempt or starts a new
    /// one.
    fn open(&self, address: SocketAddr, nonce: Nonce, sealed: Bytes) {
        let each = sealed.len();
        let mut sessions = locked(&self.sessions);
        match sessions.get(&address) {
            Some(known) if known.nonce == nonce => return known.pass(sealed, each),
            Some(known) if self.is_alive(known) => return,
            None if sessions.len() >= self.most_sessions => return,
            // The other side has started again.
            _ => {}
        }
        let (sender, receiver) = mpsc::channel(WAITING_BURSTS);
        let (waiting, heard) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let session = Session {
            datagrams: Arc::clone(&self.datagrams),
            address,
            mark: mark(&self.restart_secret, address),
            nonce,
            receiver,
            waiting: Arc::clone(&waiting),
            heard: Arc::clone(&heard),
            began: self.began,
            sessions: Arc::clone(&self.sessions),
        };
        let known = Known { nonce, sender, waiting, heard };
        known.pass(sealed, each);
        sessions.insert(address, known);
        drop(sessions);
        // If the queue is full, the other side tries again.
        drop(self.arrivals.try_send(session));
    }

    fn is_alive(&self, known: &Known) -> bool {
        let heard = known.heard.load(Ordering::Relaxed);
        let silent = milliseconds(self.began).saturating_sub(heard);
        heard > 0 && u128::from(silent) < ALIVE.as_millis()
    }

    fn period(&self) -> u64 {
        self.began.elapsed().as_secs() / PERIOD.as_secs()
    }

    fn token(&self, period: u64, address: SocketAddr, nonce: Nonce) -> Secret {
        let bytes = [&self.secret.0[..], &period.to_le_bytes(), &nonce, &written(address)].concat();
        shortened(Digest::of("quorate udp token", &bytes))
    }
}

fn milliseconds(since: Instant) -> u64 {
    since.elapsed().as_millis() as u64
}

fn mark(secret: &Digest, address: SocketAddr) -> Secret {
    shortened(Digest::of("quorate udp gone", &[&secret.0[..], &written(address)].concat()))
}

fn shortened(digest: Digest) -> Secret {
    digest.0.first_chunk().copied().unwrap_or_default()
}

fn written(address: SocketAddr) -> Vec<u8> {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    [&ip.octets()[..], &address.port().to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_shorter_than_what_it_answers() {
        const { assert!(OPENING_BYTES < ASK_BYTES && 1 + SECRET_BYTES < RECORD_BYTES) }
    }

    #[test]
    fn tokens_are_for_one_address_one_attempt_and_a_while() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let datagrams = Arc::new(Datagrams::new(socket).unwrap());
        let door = Door::new(datagrams, Digest::default(), 2, mpsc::channel(1).0).unwrap();
        let addresses: [SocketAddr; 3] =
            ["127.0.0.1:1", "127.0.0.1:2", "[::1]:1"].map(|address| address.parse().unwrap());
        let mut all = Vec::new();
        for address in addresses {
            for nonce in [[1; 8], [2; 8]] {
                all.extend([3, 4].map(|period| door.token(period, address, nonce)));
            }
            all.push(mark(&Digest::default(), address));
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        let answer = opening([1; 8], [7; 16]);
        assert_eq!(token(&answer, [1; 8]), None, "that is what opens");
        let answer = [&[TOKEN], &answer[1..]].concat();
        assert_eq!((token(&answer, [1; 8]), token(&answer, [2; 8])), (Some([7; 16]), None));
    }
}
