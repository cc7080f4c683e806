//! What correct replicas of Snowman may say of epochs: judged from their messages alone, across
//! their crashes, by code that shares no predicate with production.
//!
//! - An odd epoch begins by complaints of more replicas than may lie, and each of the correct ones
//!   among these has signed one.
//! - A replica has one report, and one vote, in a round, and its vote follows its report.
//! - It reports to no earlier round than before.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::Digest;
use quorate_core::base::crypto::Statement;
use quorate_core::base::wire::Encode as _;
use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::snow::snowman::frosty::words::{Report, Word};

/// The phase of a complaint's statement.
const COMPLAINT: u8 = 4;

/// What all correct replicas have said of epochs.
#[derive(Debug, Default)]
pub struct Epochs {
    /// How many replicas there are.
    replicas: usize,
    /// Who is correct, as far as it has said anything about epochs.
    correct: BTreeSet<usize>,
    /// Who signed which complaint.
    complaints: BTreeSet<(usize, [u8; 32])>,
    reports: BTreeMap<(usize, u64, u32), Report>,
    votes: BTreeMap<(usize, u64, u32), BlockId>,
    /// By replica: the last round that it reported in.
    rounds: BTreeMap<usize, (u64, u32)>,
    /// The odd epochs that correct replicas entered.
    pub entered: BTreeSet<u64>,
    /// How many of these nobody was told of.
    pub news: u64,
}

impl Epochs {
    /// Of so many replicas.
    pub fn of(replicas: usize) -> Self {
        Self { replicas, ..Self::default() }
    }

    /// A correct replica signs. Kinds and offsets as `crypto::Statement` documents its bytes.
    pub fn signs(&mut self, replica: usize, statement: &Statement) {
        let bytes = statement.as_bytes();
        if (bytes[57], bytes[66]) == (1, COMPLAINT) {
            let content: [u8; 32] = bytes[67..].try_into().expect("32 bytes");
            self.complaints.insert((replica, content));
        }
    }

    /// A correct replica sends a message about epochs.
    ///
    /// # Panics
    /// If it may not.
    pub fn sends(&mut self, replica: usize, word: &Word) {
        self.correct.insert(replica);
        match word {
            Word::Report { certificate, signed } => {
                let (complaint, report) = (&certificate.complaint, &signed.report);
                let signers = certificate.signatures.iter().map(|signed| signed.signer.index());
                let signers: BTreeSet<usize> = signers.collect();
                let content = Digest::of("quorate frosty complaint", &complaint.to_bytes());
                let unsigned: Vec<_> = signers
                    .intersection(&self.correct)
                    .filter(|id| !self.complaints.contains(&(**id, content.0)))
                    .collect();
                assert!(
                    5 * signers.len() >= self.replicas,
                    "epochs: r{replica} entered {} by {} complaints",
                    complaint.epoch,
                    signers.len()
                );
                // Whoever has said nothing of epochs is not known to be correct. That is lenient.
                assert!(
                    unsigned.is_empty(),
                    "epochs: {unsigned:?} did not complain for {} above {:?}",
                    complaint.epoch,
                    complaint.base
                );
                self.reports(replica, report);
            }
            Word::Vote { ballot, .. } => {
                let round = (replica, ballot.epoch, ballot.round);
                let before = *self.votes.entry(round).or_insert(ballot.place.block);
                assert_eq!(before, ballot.place.block, "epochs: two votes in {round:?}");
            }
            Word::Complaint { .. } | Word::Proposal(_) | Word::Decided(_) => {}
        }
    }

    fn reports(&mut self, replica: usize, report: &Report) {
        let (epoch, round) = (report.epoch, report.round);
        self.news += u64::from(self.entered.insert(epoch));
        let before = self.reports.entry((replica, epoch, round)).or_insert_with(|| report.clone());
        assert_eq!(before, report, "epochs: r{replica} has two reports in {epoch}/{round}");
        let last = self.rounds.entry(replica).or_default();
        // It repeats its last report to those who ask.
        assert!((epoch, round) >= *last, "epochs: r{replica} goes back to {epoch}/{round}");
        *last = (epoch, round);
    }
}
