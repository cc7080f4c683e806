//! The deciding thread: one turn takes all that waits, writes what was accepted, and then speaks.

mod explaining;
mod submitting;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::snow::avalanche::{
    Avalanche, Effects, Input, Message, NotTaken, Output, Past, Record, Settings, Vertex, VertexId,
};
use quorate_core::protocols::snow::parameters::Invalid;
use quorate_core::{ReplicaId, Time};
use quorate_transport::ConnectionId;

use super::attend::{refuse, say};
use super::behind::Survey;
use super::bench::Bench;
use super::catch_up::CatchUp;
use super::frames::{Batch, Frame};
use super::inspect::with_vertex;
use super::metrics::{Foul, Metrics};
use super::past::LedgerPast;
use super::served::Served;
use super::{Deed, Deeds, End, Shared, bytes, keep};
use crate::ask::Answer;
use crate::ledger::{Ledger, Outcome};
use crate::network::Network;
use crate::refusal::Refusal;
use crate::transaction::TransactionId;
use crate::verify::Signed;
use explaining::{Rejected, reason_of};

/// Deeds of one turn.
const DEEDS: usize = 512;
/// How often connections and the bench are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When a question to a peer is overdue.
const OVERDUE: Duration = Duration::from_secs(3);
/// Transactions that somebody waits for, and how many wait for one.
const MAX_WATCHED: usize = 65_536;
const MAX_WATCHERS: usize = 16;
/// Vertices put into the ledger together while catching up.
const GROUP: usize = 256;
/// A round that brought no more than so many is the last.
const FEW: usize = 16;

/// The protocol of a node.
///
/// # Errors
/// [`Invalid`] if its parameters do not fit the network.
pub(super) fn protocol(network: &Network, me: ReplicaId) -> Result<Avalanche<Signed>, Invalid> {
    let mut seed = [0; 8];
    // Without randomness from the system TLS does not work either.
    let _ = getrandom::fill(&mut seed);
    let settings = Settings::new(network.parameters);
    Avalanche::new(settings, me, &network.stakes(), u64::from_le_bytes(seed))
}

pub(super) struct Decider {
    shared: Arc<Shared>,
    ledger: Ledger,
    past: LedgerPast,
    protocol: Avalanche<Signed>,
    /// Until it has caught up.
    catch_up: Option<CatchUp>,
    survey: Survey,
    /// Wallets' transactions that were pending when this node turned out to be behind.
    pending: Vec<Signed>,
    bench: Bench,
    connected: Vec<ReplicaId>,
    /// Those that the protocol was told are not to be asked.
    unreachable: BTreeSet<ReplicaId>,
    watchers: HashMap<TransactionId, Vec<(ConnectionId, u64)>>,
    rejected: Rejected,
    served: Served,
    batches: Vec<Batch>,
    begin: Instant,
    looked: Instant,
}

/// A wallet's transaction: from whom, by which number.
type FromWallet = (ConnectionId, u64, TransactionId);

/// Why the loop ends, or that it goes on.
type Turn = Result<(), End>;

impl Decider {
    pub(super) fn new(shared: Arc<Shared>, ledger: Ledger, protocol: Avalanche<Signed>) -> Self {
        let network = &shared.network;
        let stakes = network.stakes();
        let permille = network.parameters.most_benched_permille();
        let past = LedgerPast::new(ledger.view(), network.genesis.id());
        let begin = Instant::now();
        Self {
            past,
            protocol,
            catch_up: Some(CatchUp::new(stakes.clone(), shared.me)),
            survey: Survey::new(stakes.clone(), Time(0)),
            pending: Vec::new(),
            bench: Bench::new(stakes.clone(), permille, OVERDUE),
            connected: Vec::new(),
            unreachable: BTreeSet::new(),
            watchers: HashMap::new(),
            rejected: Rejected::default(),
            served: Served::default(),
            batches: stakes.iter().map(|_| Batch::default()).collect(),
            begin,
            looked: begin,
            ledger,
            shared,
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn run(mut self, deeds: &Deeds) -> End {
        self.tell_totals();
        loop {
            let due = match self.catch_up {
                None => self.protocol.deadline().map_or(LOOK_EVERY, |due| due.since(self.now())),
                Some(_) => LOOK_EVERY,
            };
            let first = match deeds.recv_timeout(due.min(LOOK_EVERY)) {
                Ok(deed) => Some(deed),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return End::Panicked,
            };
            if self.shared.stopping.load(Ordering::Relaxed) {
                return End::Stopped;
            }
            let worked = Instant::now();
            let waiting = first.into_iter().chain(deeds.try_iter().take(DEEDS));
            if let Err(end) = self.turn(waiting.collect()) {
                return end;
            }
            let nanoseconds = u64::try_from(worked.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Metrics::add(&self.shared.metrics.work_nanoseconds, nanoseconds);
        }
    }

    fn turn(&mut self, deeds: Vec<Deed>) -> Turn {
        let mut effects = Effects::default();
        let mut submitted = Vec::new();
        for deed in deeds {
            self.take(deed, &mut effects, &mut submitted)?;
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.look(&mut effects, &mut submitted)?;
        }
        if self.catch_up.is_none() && self.protocol.deadline().is_some_and(|due| due <= self.now())
        {
            self.step(Input::Timeout, &mut effects)?;
        }
        self.finish(effects, &submitted)
    }

    fn take(
        &mut self,
        deed: Deed,
        effects: &mut Effects<Signed>,
        submitted: &mut Vec<FromWallet>,
    ) -> Turn {
        match deed {
            Deed::Message(from, message) => self.hear(from, message, effects)?,
            Deed::Page(from, first, vertices) => {
                let accepted = |id: &VertexId| self.past.has_vertex(id);
                match &mut self.catch_up {
                    Some(catch_up) => catch_up.page(from, first, &vertices, accepted),
                    None => self
                        .survey
                        .page(from, &vertices, |id| accepted(id) || self.protocol.knows(id)),
                }
            }
            Deed::Fetched(from, vertices) => {
                Metrics::add(&self.shared.metrics.fetched, vertices.len() as u64);
                if let Some(catch_up) = &mut self.catch_up {
                    catch_up.fetched(from, vertices);
                }
            }
            Deed::Submit(transactions) => {
                let mut good = Vec::new();
                for (connection, number, transaction) in transactions {
                    if self.may_submit(connection, number, &transaction, &good) {
                        submitted.push((connection, number, transaction.id()));
                        good.push(transaction);
                    }
                }
                if !good.is_empty() {
                    self.step(Input::Submit(good), effects)?;
                }
            }
            Deed::Why(id, asker) => self.explain(&id, asker),
            Deed::Gone(connection) => self.watchers.retain(|_, watchers| {
                watchers.retain(|(of, _)| *of != connection);
                !watchers.is_empty()
            }),
            Deed::Stop => return Err(End::Stopped),
        }
        Ok(())
    }

    fn hear(
        &mut self,
        from: ReplicaId,
        message: Message<Signed>,
        effects: &mut Effects<Signed>,
    ) -> Turn {
        let metrics = &self.shared.metrics;
        if self.catch_up.is_some() {
            metrics.foul(Foul::NotReady);
            return Ok(());
        }
        match &message {
            Message::Query { .. } => Metrics::count(&metrics.queries_received),
            Message::Answer { poll, .. } => {
                if let Err(foul) = self.bench.answers(from, *poll) {
                    metrics.foul(foul);
                    return Ok(());
                }
                Metrics::count(&metrics.answers_received);
            }
            Message::Want(_) => {}
            Message::Have(vertex) => {
                if !self.bench.brings(from, &vertex.id()) {
                    metrics.foul(Foul::UnaskedVertex);
                    return Ok(());
                }
            }
        }
        self.step(Input::Message { from, message }, effects)
    }

    fn step(&mut self, input: Input<Signed>, effects: &mut Effects<Signed>) -> Turn {
        let fx = self.protocol.step(self.now(), input, &self.past);
        self.past.note(fx.records());
        effects.merge(fx);
        self.past.failure().map_or(Ok(()), |error| Err(End::Ledger(error)))
    }

    /// Looks at connections and bench, and goes on catching up.
    fn look(&mut self, effects: &mut Effects<Signed>, submitted: &mut Vec<FromWallet>) -> Turn {
        let now = self.now();
        self.connected = self.shared.peers.connected();
        if self.catch_up.is_some() {
            return self.go_on_catching_up(now, effects, submitted);
        }
        self.look_behind(now)?;
        for (peer, benched) in self.bench.look(now) {
            tracing::info!("peer {peer} is {}", if benched { "benched" } else { "asked again" });
            Metrics::add(&self.shared.metrics.benchings, u64::from(benched));
        }
        self.shared.metrics.benched.store(self.bench.benched() as u64, Ordering::Relaxed);
        for place in 0..self.shared.network.nodes.len() {
            let peer = ReplicaId(place as u16);
            let reachable = self.connected.contains(&peer) && !self.bench.is_benched(peer);
            if peer == self.shared.me || reachable != self.unreachable.contains(&peer) {
                continue;
            }
            if reachable {
                self.unreachable.remove(&peer);
                self.step(Input::Reachable(peer), effects)?;
            } else {
                self.unreachable.insert(peer);
                self.step(Input::Unreachable(peer), effects)?;
            }
        }
        Ok(())
    }

    /// Asks what others accepted. If that is not known here, begins anew beside the ledger, as
    /// after a restart: what was lost on the way does not come any more.
    fn look_behind(&mut self, now: Time) -> Turn {
        let is_known = |id: &VertexId| self.past.has_vertex(id) || self.protocol.knows(id);
        let Some((asked, is_behind)) = self.survey.look(now, &self.connected, is_known) else {
            return Ok(());
        };
        if !is_behind {
            let frame = bytes(&Frame::AskPage(u64::MAX));
            for peer in asked {
                self.shared.peers.send(peer, frame.clone());
            }
            return Ok(());
        }
        tracing::warn!("behind the network: catching up");
        Metrics::count(&self.shared.metrics.fell_behind);
        self.shared.metrics.ready.store(0, Ordering::Relaxed);
        let (network, old) = (&self.shared.network, &self.protocol);
        let watched = self.watchers.keys();
        self.pending = watched.filter_map(|id| old.transaction(id).cloned()).collect();
        // Its parameters fitted when the node began.
        let Ok(fresh) = protocol(network, self.shared.me) else { return Err(End::Panicked) };
        self.protocol = fresh.in_place_of(old);
        self.unreachable.clear();
        self.catch_up = Some(CatchUp::new(network.stakes(), self.shared.me));
        Ok(())
    }

    /// Takes part again: what wallets wait for is handed in once more.
    fn rejoin(&mut self, effects: &mut Effects<Signed>, submitted: &mut Vec<FromWallet>) -> Turn {
        self.survey = Survey::new(self.shared.network.stakes(), self.now());
        let pending = std::mem::take(&mut self.pending);
        for id in pending.iter().map(|one| one.id()) {
            let waiting = self.watchers.remove(&id).unwrap_or_default();
            submitted.extend(waiting.into_iter().map(|(wallet, number)| (wallet, number, id)));
        }
        self.step(Input::Submit(pending), effects)
    }

    fn go_on_catching_up(
        &mut self,
        now: Time,
        effects: &mut Effects<Signed>,
        submitted: &mut Vec<FromWallet>,
    ) -> Turn {
        let Some(catch_up) = &mut self.catch_up else { return Ok(()) };
        for (peer, frame) in catch_up.ask(now, &self.connected) {
            self.shared.peers.send(peer, bytes(&frame));
        }
        let Some(missed) = catch_up.finish() else { return Ok(()) };
        let brought = missed.len();
        self.put(missed)?;
        if brought > FEW {
            let stakes = self.shared.network.stakes();
            self.catch_up = Some(CatchUp::new(stakes, self.shared.me));
        } else {
            self.catch_up = None;
            self.shared.metrics.ready.store(1, Ordering::Relaxed);
            tracing::info!("caught up at {} accepted payments", self.ledger.meta().accepted);
            self.rejoin(effects, submitted)?;
        }
        Ok(())
    }

    /// Puts vertices that the network accepted into the ledger, those first that others rest on.
    fn put(&mut self, mut vertices: Vec<Arc<Vertex<Signed>>>) -> Turn {
        let mut progress = true;
        while progress && !vertices.is_empty() {
            progress = false;
            let mut later = Vec::new();
            for group in vertices.chunks(GROUP) {
                let all = group.iter().flat_map(|vertex| vertex.transactions()).cloned();
                let all: Vec<_> = all.collect();
                let mut outcomes = self.ledger.accept(&all, &[]).map_err(End::Ledger)?.into_iter();
                let mut notes = Vec::new();
                for vertex in group {
                    let of: Vec<_> = outcomes.by_ref().take(vertex.transactions().len()).collect();
                    let refused = of.iter().find_map(|outcome| match outcome {
                        Outcome::Refused(refusal) => Some(refusal),
                        _ => None,
                    });
                    match refused {
                        None => {
                            progress = true;
                            notes.push((vertex.id().0, keep::note(vertex)));
                        }
                        Some(Refusal::UnknownInput(_)) => later.push(Arc::clone(vertex)),
                        Some(refusal) => return Err(contradiction(refusal)),
                    }
                }
                self.ledger.accept(&[], &notes).map_err(End::Ledger)?;
            }
            vertices = later;
        }
        self.tell_totals();
        Ok(())
    }

    /// Writes what was accepted, and then does what rests on it.
    fn finish(&mut self, effects: Effects<Signed>, submitted: &[FromWallet]) -> Turn {
        let (ledger, metrics) = (&mut self.ledger, &self.shared.metrics);
        let wrote = effects.has_records();
        let begun = Instant::now();
        let outputs = effects.persist(|records| write(ledger, records))?;
        if wrote {
            self.past.is_written();
            Metrics::count(&metrics.writes);
            let spent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Metrics::add(&metrics.write_nanoseconds, spent);
            self.tell_totals();
        }
        self.answer_submitted(&outputs, submitted);
        self.release(outputs)
    }

    /// Watches what was taken, and tells its wallets so.
    fn answer_submitted(&mut self, outputs: &[Output<Signed>], submitted: &[FromWallet]) {
        if submitted.is_empty() {
            return;
        }
        let not_taken: HashMap<_, _> = outputs
            .iter()
            .filter_map(|output| match output {
                Output::NotTaken { transaction, reason } => Some((*transaction, *reason)),
                _ => None,
            })
            .collect();
        for (connection, number, id) in submitted {
            let (connection, number) = (*connection, *number);
            match not_taken.get(id) {
                Some(NotTaken::Known) | None => {
                    if self.past.ask(self.past.view.accepted(id)).is_some() {
                        say(&self.shared, connection, number, &Answer::Taken(*id));
                        say(&self.shared, connection, number, &Answer::Accepted(*id));
                        continue;
                    }
                    let room = self.watchers.len() < MAX_WATCHED;
                    let watchers = self.watchers.entry(*id).or_default();
                    if room && watchers.len() < MAX_WATCHERS {
                        watchers.push((connection, number));
                    }
                    Metrics::count(&self.shared.metrics.submitted);
                    say(&self.shared, connection, number, &Answer::Taken(*id));
                }
                Some(NotTaken::Spent { input, by }) => {
                    let refusal = Refusal::Spent { output: *input, by: *by };
                    refuse(&self.shared, connection, number, &refusal);
                }
                Some(NotTaken::Unknown(input)) => {
                    refuse(&self.shared, connection, number, &Refusal::UnknownInput(*input));
                }
                Some(reason @ (NotTaken::Busy | NotTaken::Malformed)) => {
                    self.turn_away(connection, number, 0, "busy", &reason.to_string());
                }
            }
        }
    }

    fn release(&mut self, outputs: Vec<Output<Signed>>) -> Turn {
        let now = self.now();
        let mut encoded: HashMap<VertexId, Vec<u8>> = HashMap::new();
        for output in outputs {
            match output {
                Output::Send { to, message } => self.send(to, &message, &mut encoded, now),
                Output::Serve { to, vertex } => {
                    if !self.served.may(to, now) {
                        self.shared.metrics.foul(Foul::TooOften);
                        continue;
                    }
                    match keep::vertex_bytes(&self.past.view, &vertex).map_err(End::Ledger)? {
                        Some(bytes) => {
                            self.served.note(to, bytes.len());
                            self.post(to, &with_vertex(None, &bytes));
                        }
                        None => self.shared.metrics.foul(Foul::UnknownVertex),
                    }
                }
                Output::Accepted { transaction, .. } => {
                    let id = transaction.id();
                    self.tell_watchers(&id, &Answer::Accepted(id));
                }
                Output::Rejected { transaction, reason } => {
                    Metrics::count(&self.shared.metrics.rejected);
                    let why = reason_of(&reason);
                    self.rejected.note(transaction, reason);
                    self.tell_watchers(&transaction, &Answer::Rejected(transaction, why));
                }
                // Answered already.
                Output::NotTaken { .. } => {}
            }
        }
        for place in 0..self.batches.len() {
            self.leave(place);
        }
        Ok(())
    }

    fn send(
        &mut self,
        to: ReplicaId,
        message: &Message<Signed>,
        encoded: &mut HashMap<VertexId, Vec<u8>>,
        now: Time,
    ) {
        match message {
            Message::Query { poll, vertex } => {
                self.bench.asks(to, *poll, now);
                Metrics::count(&self.shared.metrics.queries_sent);
                let bytes = encoded.entry(vertex.id()).or_insert_with(|| vertex.to_bytes());
                let message = with_vertex(Some(*poll), bytes);
                self.post(to, &message);
            }
            Message::Want(vertex) => {
                self.bench.wants(to, *vertex);
                self.post(to, &message.to_bytes());
            }
            Message::Have(_) if !self.served.may(to, now) => {
                self.shared.metrics.foul(Foul::TooOften);
            }
            Message::Have(_) => {
                let bytes = message.to_bytes();
                self.served.note(to, bytes.len());
                self.post(to, &bytes);
            }
            Message::Answer { .. } => self.post(to, &message.to_bytes()),
        }
    }

    /// Puts a message into what leaves for a peer.
    fn post(&mut self, to: ReplicaId, message: &[u8]) {
        let Some(batch) = self.batches.get_mut(to.index()) else { return };
        batch.add(message);
        if batch.is_full() {
            self.leave(to.index());
        }
    }

    fn leave(&mut self, place: usize) {
        if let Some(frame) = self.batches.get_mut(place).and_then(Batch::take) {
            Metrics::count(&self.shared.metrics.frames_sent);
            self.shared.peers.send(ReplicaId(place as u16), frame);
        }
    }

    fn tell_watchers(&mut self, id: &TransactionId, answer: &Answer) {
        for (connection, number) in self.watchers.remove(id).unwrap_or_default() {
            say(&self.shared, connection, number, answer);
        }
    }

    fn tell_totals(&self) {
        let meta = self.ledger.meta();
        self.shared.metrics.accepted.store(meta.accepted, Ordering::Relaxed);
        self.shared.metrics.vertices.store(meta.notes, Ordering::Relaxed);
    }
}

/// Writes what the protocol accepted, all with one sync.
fn write(ledger: &mut Ledger, records: Vec<Record<Signed>>) -> Turn {
    let (mut transactions, mut notes) = (Vec::new(), Vec::<(quorate_core::Digest, Bytes)>::new());
    for record in records {
        match record {
            Record::Transaction(transaction) => transactions.push(transaction),
            Record::Vertex(vertex) => notes.push((vertex.id().0, keep::note(&vertex))),
        }
    }
    for outcome in ledger.accept(&transactions, &notes).map_err(End::Ledger)? {
        if let Outcome::Refused(refusal) = outcome {
            return Err(contradiction(&refusal));
        }
    }
    Ok(())
}

/// The network accepted what the ledger cannot take.
fn contradiction(refusal: &Refusal) -> End {
    End::Unsafe(format!("the network accepted a payment that this ledger refuses: {refusal}"))
}
