//! The attending thread: wallets' questions. It reads the ledger itself, verifies the transactions
//! of all frames that wait as one batch, and passes those on that hold.

use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use quorate_transport::{Arrivals, ConnectionId, Event};

use super::metrics::Metrics;
use super::{Asker, Deed, Shared, tell};
use crate::ask::{Answer, MAX_LISTED, Question, frame, read_frame};
use crate::ledger::LedgerError;
use crate::refusal::Refusal;
use crate::transaction::Transaction;
use crate::verify::verify;

/// Frames attended to together.
const FRAMES: usize = 512;

pub(super) fn run(
    shared: &Shared,
    mut events: Arrivals<(ConnectionId, Event)>,
    deeds: &SyncSender<Deed>,
) {
    while let Some(first) = events.blocking_recv() {
        let mut batch = vec![first];
        let _room = events.try_recv_many(&mut batch, FRAMES);
        let mut submitted = Vec::new();
        for (connection, event) in batch {
            match event {
                Event::Opened => {}
                Event::Closed => {
                    if !tell(deeds, Deed::Gone(connection)) {
                        return;
                    }
                }
                Event::Frame(bytes) => attend(shared, connection, bytes, &mut submitted, deeds),
            }
        }
        if !pass_on(shared, submitted, deeds) {
            return;
        }
    }
}

/// Says something to a wallet; one that is gone has no need of it.
pub(super) fn say(shared: &Shared, connection: ConnectionId, number: u64, answer: &Answer) {
    let _ = shared.listener.send(connection, frame(number, answer));
}

/// Says why a transaction is not taken, and counts it.
pub(super) fn refuse(shared: &Shared, connection: ConnectionId, number: u64, refusal: &Refusal) {
    shared.metrics.refuse(refusal);
    let answer = Answer::Refused(refusal.name().to_owned(), refusal.to_string());
    say(shared, connection, number, &answer);
}

fn attend(
    shared: &Shared,
    connection: ConnectionId,
    bytes: Bytes,
    submitted: &mut Vec<(ConnectionId, u64, Transaction)>,
    deeds: &SyncSender<Deed>,
) {
    let Ok((number, question)) = read_frame::<Question>(bytes) else {
        // Whoever speaks another language is let go.
        shared.metrics.refuse(&Refusal::Malformed { what: "question" });
        return shared.listener.disconnect(connection);
    };
    let read = match question {
        Question::Submit(bytes) => {
            match Transaction::read(bytes) {
                Ok(transaction) => submitted.push((connection, number, transaction)),
                Err(refusal) => refuse(shared, connection, number, &refusal),
            }
            return;
        }
        Question::Status(id) => {
            // The deciding thread knows what is pending.
            tell(deeds, Deed::Why(id, Asker::Wallet(connection, number)));
            return;
        }
        Question::Account(address) => shared.view.account(&address).map(Answer::Account),
        Question::Unspent(address, most) => {
            let most = (most as usize).min(MAX_LISTED);
            shared.view.unspent(&address, most).map(Answer::Unspent)
        }
        Question::History(address, skip, most) => {
            let most = (most as usize).min(MAX_LISTED);
            shared.view.history(&address, skip, most).map(Answer::History)
        }
    };
    let failed = |error: LedgerError| Answer::Refused("ledger".to_owned(), error.to_string());
    say(shared, connection, number, &read.unwrap_or_else(failed));
}

fn pass_on(
    shared: &Shared,
    submitted: Vec<(ConnectionId, u64, Transaction)>,
    deeds: &SyncSender<Deed>,
) -> bool {
    if submitted.is_empty() {
        return true;
    }
    let (askers, transactions): (Vec<_>, Vec<_>) =
        submitted.into_iter().map(|(connection, number, of)| ((connection, number), of)).unzip();
    let signatures: usize =
        transactions.iter().map(|transaction| transaction.checks(&shared.chain).count()).sum();
    Metrics::add(&shared.metrics.signatures, signatures as u64);
    let verdicts = verify(&shared.scheme, &shared.chain, transactions);
    let mut good = Vec::new();
    for ((connection, number), verdict) in askers.into_iter().zip(verdicts) {
        match verdict {
            Ok(signed) => good.push((connection, number, signed)),
            Err(refusal) => refuse(shared, connection, number, &refusal),
        }
    }
    good.is_empty() || tell(deeds, Deed::Submit(good))
}
