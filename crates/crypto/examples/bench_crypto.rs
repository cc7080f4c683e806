//! Measures the cost of signatures and certificates on this machine, scheme by scheme:
//! `make bench-crypto`.
//!
//! Every figure is the median of many runs on one thread, in processor time, so that other work of
//! the machine matters little. The input is what the core verifies: statements of 99 bytes, and the
//! checks of a decoded certificate. Figures of a dissertation stand beside them for comparison.

#[path = "bench_crypto/machine.rs"]
mod machine;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use quorate_core::base::crypto::{Check, Form, Scheme as _, Share, Signer as _};
use quorate_core::base::membership::{self, Committee, ReplicaKey};
use quorate_core::base::types::{Digest, Epoch, ReplicaId, View};
use quorate_core::base::wire::{Decode as _, Encode as _, Reader};
use quorate_core::protocols::hotstuff::certificate::{Domain, Proof, Qc, Vote};
use quorate_core::protocols::protocol::Ballot;
use quorate_crypto::bls::threshold;
use quorate_crypto::committee_keys::{GroupKey, MemberKey};
use quorate_crypto::{CommitteeScheme, ConsensusKey, SchemeName};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const REPLICAS: [usize; 4] = [4, 8, 32, 100];
/// The time for which a figure is measured, at least.
const TIME: Duration = Duration::from_millis(300);
const RUNS: usize = 31;
/// A run repeats shorter work until it takes this long.
const SHORTEST_RUN: Duration = Duration::from_micros(50);

/// Table 4.1 of the dissertation: BLS of the Tezos cryptography library, OCaml's Core_bench. Its
/// columns are sign, check, aggregate, aggregate check.
const DISSERTATION: [(usize, [f64; 4]); 2] =
    [(4, [427.87, 1171.77, 302.90, 1179.25]), (8, [427.87, 1171.77, 605.38, 1180.61])];
const DISSERTATION_NAME: &str = "Tezos BLS (Table 4.1)";
const DISSERTATION_MACHINE: &str =
    "2 x Intel Xeon Gold 6230R, 768 GB (Cambridge Computer Laboratory's server Sofia)";

/// One line of the table; times in microseconds.
struct Row {
    scheme: String,
    /// The number of replicas; none for the dissertation, which counts signatures.
    replicas: Option<usize>,
    votes: usize,
    sign: f64,
    verify: f64,
    batch: Option<f64>,
    combine: Option<f64>,
    certificate: f64,
    certificate_bytes: Option<usize>,
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let written: fn(&[Row]) -> String =
        match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] | ["-o", "table"] => as_table,
            ["-o", "json"] => as_json,
            ["-o", "csv"] => as_csv,
            _ => {
                eprintln!("usage: bench_crypto [-o table|json|csv]");
                std::process::exit(2);
            }
        };
    let measured = SchemeName::ALL
        .into_iter()
        .flat_map(|scheme| REPLICAS.map(|replicas| Bench::new(scheme, replicas).row()));
    let rows: Vec<Row> = measured.chain(DISSERTATION.map(dissertation)).collect();
    println!("{}", written(&rows));
}

fn dissertation((votes, [sign, verify, combine, certificate]): (usize, [f64; 4])) -> Row {
    Row {
        scheme: DISSERTATION_NAME.to_owned(),
        replicas: None,
        votes,
        sign,
        verify,
        batch: None,
        combine: Some(combine),
        certificate,
        certificate_bytes: None,
    }
}

/// A committee, and a quorum of its votes for one block.
struct Bench {
    name: SchemeName,
    keys: Vec<ConsensusKey>,
    scheme: CommitteeScheme,
    domain: Domain,
    ballot: Ballot,
}

impl Bench {
    fn new(name: SchemeName, replicas: usize) -> Self {
        let quorum = membership::quorum(replicas);
        let mut group = None;
        let keys: Vec<_> = if name.is_dealt() {
            let deal = threshold::deal(replicas, quorum).expect("randomness");
            group = Some(deal.group);
            deal.shares.into_iter().map(ConsensusKey::dealt).collect()
        } else {
            (0..replicas).map(|_| ConsensusKey::generate(name).expect("randomness")).collect()
        };
        let public: Vec<_> =
            keys.iter().map(|key| (key.public_key(), key.proof_of_possession())).collect();
        let members: Vec<_> = public
            .iter()
            .map(|(key, proof)| MemberKey { key, possession: proof.as_ref().map(|p| &p[..]) })
            .collect();
        let group = group.as_ref().map(|key| GroupKey { key, quorum });
        let scheme = CommitteeScheme::new(name, &members, group).expect("good keys");
        let names = public.iter().filter_map(|(key, _)| ReplicaKey::new(key)).collect();
        let committee = Committee::new(Digest([1; 32]), Epoch(1), names).expect("a committee");
        assert_eq!(committee.quorum(), quorum);
        let domain = Domain::new(committee, 1).with_forms(name.vote_form(), name.time_out_form());
        let ballot = Ballot { view: View(7), phase: 1, block: Digest([2; 32]) };
        Self { name, keys, scheme, domain, ballot }
    }

    fn row(&self) -> Row {
        let statement = self.domain.vote(self.ballot.view, self.ballot.phase, &self.ballot.block);
        let shares: Vec<Share> = (0..self.domain.committee().quorum())
            .map(|at| {
                let (voter, signature) = (ReplicaId(at as u16), self.keys[at].sign(&statement));
                Vote { ballot: self.ballot, voter, signature }.share(&self.domain)
            })
            .collect();
        let checks: Vec<_> = shares.iter().copied().map(Check::Replica).collect();
        let form = self.name.vote_form();
        let combine = || self.scheme.combine(form, &shares);
        let (bytes, certificate) = self.certificate(&shares);
        Row {
            scheme: self.name.to_string(),
            replicas: Some(self.keys.len()),
            votes: shares.len(),
            sign: median_us(|| self.keys[0].sign(black_box(&statement))),
            verify: median_us(|| self.verified(&checks[..1])),
            batch: Some(median_us(|| self.verified(&checks))),
            combine: (form != Form::List).then(|| median_us(combine)),
            certificate: median_us(|| self.verified(&certificate)),
            certificate_bytes: Some(bytes),
        }
    }

    /// The certificate of votes: its length on the wire, and the checks of the decoded certificate.
    fn certificate(&self, shares: &[Share]) -> (usize, Vec<Check>) {
        let joined = self.scheme.combine(self.name.vote_form(), shares);
        let signers = shares.iter().map(|share| share.signer);
        let proof = match (self.name.vote_form(), joined) {
            (Form::Aggregate, Some(signature)) => Proof::Aggregate(signers.collect(), signature),
            (Form::Threshold, Some(signature)) => Proof::Threshold(signature),
            _ => Proof::List(shares.iter().map(|share| (share.signer, share.signature)).collect()),
        };
        let mut bytes = self.ballot.to_bytes();
        proof.encode(&mut bytes);
        let length = bytes.len();
        let qc = Qc::decode(&mut Reader::new(bytes.into())).expect("a certificate");
        (length, qc.checks(&self.domain, &Digest([0; 32])).expect("well formed"))
    }

    fn verified(&self, checks: &[Check]) {
        let verdicts = self.scheme.verify(black_box(checks));
        assert!(verdicts.into_iter().all(|verdict| verdict), "{}", self.name);
    }
}

/// The median of many runs.
fn median_us<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut repeats = 1;
    let mut run = |repeats: u32| {
        let start = processor_time();
        for _ in 0..repeats {
            black_box(work());
        }
        processor_time().saturating_sub(start)
    };
    while run(repeats) < SHORTEST_RUN {
        repeats *= 2;
    }
    let start = Instant::now();
    let mut runs = Vec::new();
    while runs.len() < RUNS || start.elapsed() < TIME {
        runs.push(run(repeats).as_secs_f64() * 1e6 / f64::from(repeats));
    }
    runs.sort_unstable_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn as_table(rows: &[Row]) -> String {
    let mut table = format!(
        "Microseconds of processor time, medians, one thread of: {}\n{DISSERTATION_NAME}: {DISSERTATION_MACHINE}\n\n\
         {:<22} {:>8} {:>5} {:>8} {:>9} {:>12} {:>9} {:>12} {:>12}\n",
        machine::processor(),
        "scheme",
        "replicas",
        "votes",
        "sign",
        "verify",
        "verify votes",
        "combine",
        "verify cert.",
        "cert. bytes",
    );
    let figure = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.1}"));
    let count = |value: Option<usize>| value.map_or("-".to_owned(), |count| count.to_string());
    for row in rows {
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "{:<22} {:>8} {:>5} {:>8} {:>9} {:>12} {:>9} {:>12} {:>12}",
            row.scheme,
            count(row.replicas),
            row.votes,
            figure(Some(row.sign)),
            figure(Some(row.verify)),
            figure(row.batch),
            figure(row.combine),
            figure(Some(row.certificate)),
            count(row.certificate_bytes),
        );
    }
    table.truncate(table.trim_end().len());
    table
}

/// As docs/studies/crypto/runs.csv has them.
fn as_csv(rows: &[Row]) -> String {
    let mut text = format!(
        "scheme,replicas,votes,sign_us,verify_us,verify_votes_us,combine_us,verify_certificate_us,\
         certificate_bytes,{}",
        machine::COLUMNS
    );
    let optional = |value: Option<f64>| value.map_or_else(String::new, |us| format!("{us:.2}"));
    let count = |value: Option<usize>| value.map_or_else(String::new, |count| count.to_string());
    for row in rows {
        let theirs = || format!(",{},", DISSERTATION_MACHINE.replace(',', ";"));
        let whose = if row.replicas.is_some() { machine::cells() } else { theirs() };
        let _ = write!(
            text,
            "\n{},{},{},{:.2},{:.2},{},{},{:.2},{},{}",
            row.scheme,
            count(row.replicas),
            row.votes,
            row.sign,
            row.verify,
            optional(row.batch),
            optional(row.combine),
            row.certificate,
            count(row.certificate_bytes),
            whose
        );
    }
    text
}

fn as_json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "scheme": row.scheme,
                "machine": if row.replicas.is_some() { machine::processor() } else { DISSERTATION_MACHINE.to_owned() },
                "replicas": row.replicas,
                "votes": row.votes,
                "sign_us": row.sign,
                "verify_us": row.verify,
                "verify_votes_us": row.batch,
                "combine_us": row.combine,
                "verify_certificate_us": row.certificate,
                "certificate_bytes": row.certificate_bytes,
            })
        })
        .collect();
    json!({ "rows": rows }).to_string()
}
