//! The commands: which there are ([`table`]), and what becomes of one ([`dispatch`]).

mod acl;
mod client;
mod docs;
mod info;
mod local;
mod ordered;
pub mod table;
mod transaction;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::reply::Shape;
use super::resp::write::Protocol;
use super::resp::{Args, ProtocolError, write};
use super::{FrameLimits, LENGTH_BYTES};
use crate::acl::User;
use crate::acl::gate::Gate;
use quorate_app::kv::command::Command;
use table::{Handler, Spec};
use tokio::sync::Notify;
use transaction::Transaction;

/// What all connections share.
#[derive(Debug)]
pub struct Shared {
    /// When the gateway was started.
    pub started: Instant,
    /// Where it listens.
    pub address: SocketAddr,
    /// Most connections at a time.
    pub max_clients: usize,
    /// What one submission may hold.
    pub frame: FrameLimits,
    /// Commands read so far.
    pub commands: AtomicU64,
    /// Connections accepted so far; the latest one's id.
    pub connections: AtomicU64,
    /// Connections turned away so far.
    pub rejected: AtomicU64,
    /// Connections of web pages ended so far.
    web_pages: AtomicU64,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Who may do what.
    gate: Arc<Gate>,
}

impl Shared {
    /// A gateway that listens at `address`, without connections yet.
    #[must_use]
    pub fn new(address: SocketAddr, max_clients: usize, frame: FrameLimits) -> Self {
        Self {
            started: Instant::now(),
            address,
            max_clients,
            frame,
            commands: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            web_pages: AtomicU64::new(0),
            clients: Mutex::default(),
            gate: Arc::default(),
        }
    }

    /// The same for these users.
    #[must_use]
    pub fn for_users(self, gate: Arc<Gate>) -> Self {
        Self { gate, ..self }
    }

    /// Takes in a new connection from `address`. If there are too many, one that is idle gives way:
    /// of the address with most connections if that has more than this one would have, else any
    /// that was idle for [`GIVES_WAY_AFTER`]. `None` if there is no such.
    pub fn admit(self: &Arc<Self>, address: SocketAddr) -> Option<Connection> {
        let mut clients = lock(&self.clients);
        if clients.len() >= self.max_clients {
            let Some(leaves) = gives_way(&clients, address.ip()) else {
                self.rejected.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            if let Some(client) = clients.remove(&leaves) {
                client.leave.notify_one();
            }
        }
        let id = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            id,
            address,
            since: Instant::now(),
            name: Mutex::default(),
            active_ms: AtomicU64::new(0),
            speaks_resp3: AtomicBool::new(false),
            user: Mutex::default(),
            leave: Notify::new(),
        });
        clients.insert(id, Arc::clone(&client));
        let mut connection = Connection {
            shared: Arc::clone(self),
            client,
            protocol: Protocol::default(),
            muting: Muting::Off,
            transaction: Transaction::default(),
            user: None,
            generation: self.gate.generation(),
            failures: 0,
        };
        connection.become_user(self.gate.acl().newcomer());
        Some(connection)
    }

    /// How many connections there are.
    #[must_use]
    pub fn client_count(&self) -> usize {
        lock(&self.clients).len()
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.clients).values().cloned().collect()
    }
}

/// No holder of these locks panics half way through a change, so a poisoned one is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, as the others see it.
#[derive(Debug)]
struct Client {
    id: u64,
    address: SocketAddr,
    since: Instant,
    name: Mutex<Vec<u8>>,
    /// When it last sent something, in milliseconds after `since`.
    active_ms: AtomicU64,
    speaks_resp3: AtomicBool,
    /// The name of its user.
    user: Mutex<String>,
    /// Another one has its place.
    leave: Notify,
}

impl Client {
    fn idle(&self) -> Duration {
        let active = Duration::from_millis(self.active_ms.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(active)
    }
}

/// How long a connection must have been idle to give way to another one of its address.
pub const GIVES_WAY_AFTER: Duration = Duration::from_secs(60);

/// Which connection gives way to one from `newcomer`.
fn gives_way(clients: &BTreeMap<u64, Arc<Client>>, newcomer: IpAddr) -> Option<u64> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for client in clients.values() {
        *counts.entry(client.address.ip()).or_default() += 1;
    }
    let own = counts.get(&newcomer).copied().unwrap_or_default();
    let (most, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let unfair = count > own + 1;
    let candidates = clients.iter().filter(|(_, client)| match unfair {
        true => client.address.ip() == most,
        false => client.idle() >= GIVES_WAY_AFTER,
    });
    candidates.max_by_key(|(_, client)| client.idle()).map(|(id, _)| *id)
}

/// One connection's state. Dropping it takes it off the list of clients.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    client: Arc<Client>,
    protocol: Protocol,
    muting: Muting,
    transaction: Transaction,
    /// Who it is; none before it has said so.
    user: Option<Arc<User>>,
    /// The generation of the users that `user` is of.
    generation: u64,
    /// Wrong passwords in a row.
    failures: u32,
}

/// Which replies are not sent (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Muting {
    Off,
    /// The next command's, once this one is over.
    Next,
    /// This command's.
    Once,
    On,
}

impl Connection {
    /// Completes when another connection has this one's place.
    pub(super) fn told_to_leave(&self) -> impl Future<Output = ()> + Send + use<> {
        let client = Arc::clone(&self.client);
        async move { client.leave.notified().await }
    }

    fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.speaks_resp3.store(protocol == Protocol::Resp3, Ordering::Relaxed);
    }

    fn end_command(&mut self) {
        self.muting = match self.muting {
            Muting::Next => Muting::Once,
            Muting::Once => Muting::Off,
            other => other,
        };
    }

    /// A browser reaches this port too, and the body of what a page has it send could be commands:
    /// no Redis client says `POST` or `Host:`.
    fn note_web_page(&self) {
        let before = self.shared.web_pages.fetch_add(1, Ordering::Relaxed);
        if before.is_power_of_two() || before == 0 {
            tracing::warn!(
                "a connection from {} spoke HTTP and was ended ({} so far): a web page or a probe \
                 takes this for a web server, see which program at that address sends to {}",
                self.client.address,
                before + 1,
                self.shared.address
            );
        }
    }

    /// Notes that `commands` commands have arrived.
    pub fn count(&self, commands: u64) {
        self.shared.commands.fetch_add(commands, Ordering::Relaxed);
        let active_ms = self.client.since.elapsed().as_millis();
        let active_ms = u64::try_from(active_ms).unwrap_or(u64::MAX);
        self.client.active_ms.store(active_ms, Ordering::Relaxed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.shared.clients).remove(&self.client.id);
    }
}

/// What a run of commands from one connection has come to so far.
#[derive(Debug, Default)]
pub struct Batch {
    /// For each reply, in the order they must be sent, where it comes from.
    pub answers: Vec<Answer>,
    /// The replies that are known already, in RESP.
    pub local: Vec<u8>,
    /// The commands to be ordered, encoded one after the other.
    pub encoded: Vec<u8>,
    /// Where each of those ends.
    pub ends: Vec<usize>,
    /// Whether one of the commands may change something.
    pub writes: bool,
    /// Whether this is a transaction: it has one outcome, which an error takes the place of.
    pub together: bool,
    /// A transaction, which must be submitted behind this as it is. Nothing may be appended here
    /// once there is one.
    pub behind: Option<Box<Self>>,
}

/// Where replies come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The next so many bytes of [`Batch::local`].
    Local(usize),
    /// The cluster's next reply, and how it is to be written.
    Ordered(Shape, Protocol),
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It does.
    Continue,
    /// It ends once the replies have been sent.
    Close,
}

/// The text of an error, its class in front.
type Complaint = Cow<'static, str>;

const SYNTAX: Complaint = Cow::Borrowed("ERR syntax error");
const NOT_AN_INTEGER: Complaint = Cow::Borrowed("ERR value is not an integer or out of range");

impl Batch {
    /// Whether there is nothing to send or submit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Takes the last command out again if that makes the rest fit `most_bytes` of a frame, which
    /// all together do not. To be called before anything is appended behind it.
    pub fn split_overflow(&mut self, most_bytes: usize) -> Option<Self> {
        let frame_bytes = self.frame_bytes();
        let (last, before) = self.ends.split_last()?;
        let start = *before.last()?;
        if frame_bytes <= most_bytes {
            return None;
        }
        let ends = vec![last - start];
        self.ends.pop();
        let answers = self.answers.pop().into_iter().collect();
        let encoded = self.encoded.split_off(start);
        let writes = self.writes;
        Some(Self { answers, encoded, ends, writes, ..Self::default() })
    }

    /// How many bytes of a frame the commands take up.
    fn frame_bytes(&self) -> usize {
        self.encoded.len() + LENGTH_BYTES * self.ends.len()
    }

    /// Appends an answer that is known already.
    pub fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.local.len();
        write(&mut self.local);
        self.note_local(self.local.len() - start);
    }

    fn note_local(&mut self, bytes: usize) {
        match self.answers.last_mut() {
            Some(Answer::Local(before)) => *before += bytes,
            _ => self.answers.push(Answer::Local(bytes)),
        }
    }
}

/// Answers a command, or appends it to what is to be ordered.
pub fn dispatch(args: Args<'_>, connection: &mut Connection, batch: &mut Batch) -> Then {
    if is_word("post", args.get(0)) || is_word("host:", args.get(0)) {
        connection.note_web_page();
        return Then::Close;
    }
    if !connection.follow_users() {
        batch.answer(|out| write::error(out, "NOAUTH the user of this connection was changed"));
        return Then::Close;
    }
    let spec = table::find(table::COMMANDS, args.get(0));
    let complaint = match spec {
        Some(spec) => connection.may(spec, args).err(),
        None if !connection.is_known() => Some("NOAUTH Authentication required.".to_owned()),
        None => None,
    };
    if let Some(complaint) = complaint {
        connection.transaction.spoil();
        refuse(&complaint, connection, batch);
        connection.end_command();
        return Then::Continue;
    }
    let then = match spec {
        Some(spec) if connection.transaction.keeps(spec) => {
            transaction::keep(spec, args, connection, batch);
            Then::Continue
        }
        Some(spec) => run(spec, args, connection, batch),
        None => {
            connection.transaction.spoil();
            refuse_unknown(args, connection, batch);
            Then::Continue
        }
    };
    connection.end_command();
    then
}

/// Answers bytes that are no request, or a request of which nothing was kept.
pub fn refuse_request(
    error: ProtocolError,
    connection: &mut Connection,
    batch: &mut Batch,
) -> Then {
    if error.ends_connection() {
        batch.answer(|out| write::error(out, format!("ERR {error}")));
        return Then::Close;
    }
    connection.transaction.spoil();
    refuse(&format!("ERR {error}"), connection, batch);
    connection.end_command();
    Then::Continue
}

/// Whether the command takes so many arguments.
fn fits(spec: &Spec, args: Args<'_>) -> bool {
    match usize::try_from(spec.arity) {
        Ok(exactly) => args.len() == exactly,
        Err(_) => args.len() >= spec.arity.unsigned_abs() as usize,
    }
}

fn run(spec: &Spec, args: Args<'_>, connection: &mut Connection, batch: &mut Batch) -> Then {
    if !fits(spec, args) {
        let name = spec.name;
        let complaint = format!("ERR wrong number of arguments for '{name}' command");
        refuse(&complaint, connection, batch);
        return Then::Continue;
    }
    match spec.handler {
        Handler::Ordered(encode) => {
            order(encode, args, connection, batch);
            Then::Continue
        }
        Handler::Local(answer) => {
            let start = batch.local.len();
            let then = answer(args, connection, &mut batch.local);
            if is_muted(connection) {
                batch.local.truncate(start);
            }
            batch.note_local(batch.local.len() - start);
            then
        }
        Handler::Exec => {
            transaction::exec(connection, batch);
            Then::Continue
        }
        Handler::Container(whole) => match (args.len(), whole) {
            (1, Some(whole)) => {
                let start = batch.local.len();
                whole(connection.protocol, &mut batch.local);
                if is_muted(connection) {
                    batch.local.truncate(start);
                }
                batch.note_local(batch.local.len() - start);
                Then::Continue
            }
            _ => run_part(spec, args, connection, batch),
        },
    }
}

/// Runs a subcommand.
fn run_part(spec: &Spec, args: Args<'_>, connection: &mut Connection, batch: &mut Batch) -> Then {
    let word = args.get(1);
    if let Some(part) = spec.parts.iter().find(|part| is_word(part.last_word(), word)) {
        return run(part, args, connection, batch);
    }
    if args.len() == 2 && is_word("help", word) {
        if !is_muted(connection) {
            batch.answer(|out| docs::help(out, spec));
        }
        return Then::Continue;
    }
    let name = spec.name.to_ascii_uppercase();
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
    let complaint = format!("ERR unknown subcommand '{word}'. Try {name} HELP.");
    refuse(&complaint, connection, batch);
    Then::Continue
}

fn is_word(word: &str, given: &[u8]) -> bool {
    given.eq_ignore_ascii_case(word.as_bytes())
}

fn order(
    encode: fn(Args<'_>, &mut Vec<u8>) -> Result<Shape, Complaint>,
    args: Args<'_>,
    connection: &Connection,
    batch: &mut Batch,
) {
    let start = batch.encoded.len();
    let result = encode(args, &mut batch.encoded);
    let most_bytes = connection.shared.frame.command_bytes();
    let complaint = match result {
        Ok(_) if batch.encoded.len() - start > most_bytes => {
            Cow::Owned(format!("ERR command is longer than {most_bytes} bytes"))
        }
        Ok(shape) => {
            let command = Command::decode(&batch.encoded[start..]);
            batch.writes |= !command.is_ok_and(|command| command.is_read_only());
            batch.ends.push(batch.encoded.len());
            let shape = if is_muted(connection) { Shape::Silent } else { shape };
            batch.answers.push(Answer::Ordered(shape, connection.protocol));
            return;
        }
        Err(complaint) => complaint,
    };
    batch.encoded.truncate(start);
    refuse(&complaint, connection, batch);
}

fn is_muted(connection: &Connection) -> bool {
    matches!(connection.muting, Muting::Once | Muting::On)
}

fn refuse(complaint: &str, connection: &Connection, batch: &mut Batch) {
    if !is_muted(connection) {
        batch.answer(|out| write::error(out, complaint));
    }
}

/// What cannot be had here, and why.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (
        &[
            "expire",
            "expireat",
            "expiretime",
            "getex",
            "pexpire",
            "pexpireat",
            "pexpiretime",
            "psetex",
            "setex",
        ],
        "keys do not expire, since replicas agree on no clock",
    ),
    (
        &[
            "psubscribe",
            "publish",
            "pubsub",
            "punsubscribe",
            "spublish",
            "ssubscribe",
            "subscribe",
            "sunsubscribe",
            "unsubscribe",
        ],
        "there is no publish and subscribe",
    ),
    (
        &["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "function", "script"],
        "there are no scripts",
    ),
    (&["monitor", "psync", "replicaof", "slaveof", "sync"], "replication is not Redis's"),
];

fn refuse_unknown(args: Args<'_>, connection: &Connection, batch: &mut Batch) {
    let name = args.get(0);
    for (names, reason) in UNSUPPORTED {
        if let Some(name) = names.iter().find(|candidate| is_word(candidate, name)) {
            let name = name.to_ascii_uppercase();
            return refuse(&format!("ERR {name} is not supported: {reason}"), connection, batch);
        }
    }
    if is_muted(connection) {
        return;
    }
    // Redis 7's words, cut where Redis cuts them.
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(&name[..name.len().min(128)]);
    text.extend_from_slice(b"', with args beginning with: ");
    let args_at = text.len();
    for arg in args.from(1) {
        let room = 128usize.saturating_sub(text.len() - args_at);
        if room == 0 {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(&arg[..arg.len().min(room)]);
        text.extend_from_slice(b"' ");
    }
    batch.answer(|out| write::error(out, &text));
}
