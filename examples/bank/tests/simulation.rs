//! The bank against crashes, liars and partitions; and two banks with a bug, which are found.

use std::collections::HashMap;

use bank::Bank;
use quorate_service::{Bytes, Decided, Digest, Replies, RestoreError, Snapshot, StateMachine};
use quorate_sim::rng::Rng;
use quorate_sim::service::Trial;

/// What clients ask for: of few accounts, some of which are not there.
fn command(rng: &mut Rng) -> Vec<u8> {
    let (one, other) = (rng.below(6), rng.below(6));
    match rng.below(10) {
        0..=2 => format!("open a{one}"),
        3 => format!("balance a{one}"),
        4 => "total".to_owned(),
        5 => "nonsense \u{1F980}".to_owned(),
        _ => format!("transfer a{one} a{other} {}", rng.pick(&[1, 70, 900, u64::MAX])),
    }
    .into_bytes()
}

/// No money comes or goes but with an account.
fn conserved(bank: &Bank) -> Result<(), String> {
    match bank.total() == bank.issued() {
        true => Ok(()),
        false => {
            Err(format!("there is {} of money, and {} was issued", bank.total(), bank.issued()))
        }
    }
}

#[test]
fn the_bank_stands() {
    let happened = Trial::new(|| Bank::new(1000), command).invariant(conserved).run(0..40);
    assert!(happened.acknowledged > 1000, "{happened:?}");
    for fault in ["crash", "partition", "restart"] {
        assert!(happened.faults.of(fault) > 0, "no {fault} happened: {:?}", happened.faults);
    }
}

/// It takes the money before it looks whether somebody is there to get it.
struct NotAtomic(Bank);

impl StateMachine for NotAtomic {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        for command in block.commands {
            let line = String::from_utf8_lossy(command).into_owned();
            let words: Vec<&str> = line.split(' ').collect();
            if let ["transfer", from, to, amount] = *words.as_slice()
                && let (Ok(amount), Ok(balance)) = (amount.parse::<u64>(), self.0.balance(from))
                && let Some(left) = balance.checked_sub(amount)
                && self.0.balance(to).is_err()
            {
                self.0.set(from, left);
                replies.push(b"error: there is no such account");
            } else {
                let one = Decided { commands: &[*command], callers: &[], ..block.clone() };
                self.0.apply(&one, replies);
            }
        }
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.0.query(question)
    }

    fn root(&mut self) -> Digest {
        self.0.root()
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.snapshot()
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.0.restore(chunks)
    }
}

#[test]
fn a_transfer_that_is_not_atomic_is_found() {
    let trial = Trial::new(|| NotAtomic(Bank::new(1000)), command);
    let found = trial.invariant(|bank| conserved(&bank.0)).find(0..100);
    let found = found.expect("the bug is found");
    assert_eq!(found.oracle, "invariant");
    assert!(found.what.contains("of money"), "{found:?}");
}

/// It says the total in the order of a hash map, which differs from process to process.
struct Undeterministic {
    bank: Bank,
    opened: HashMap<Vec<u8>, ()>,
}

impl StateMachine for Undeterministic {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        self.opened.extend(block.commands.iter().map(|command| (command.to_vec(), ())));
        self.bank.apply(block, replies);
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.bank.query(question)
    }

    fn root(&mut self) -> Digest {
        let first = self.opened.keys().next().cloned().unwrap_or_default();
        Digest::of("bank", &[&self.bank.root().0[..], &first].concat())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.bank.snapshot()
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.bank.restore(chunks)
    }
}

#[test]
fn a_state_that_depends_on_a_hash_maps_order_is_found() {
    let fresh = || Undeterministic { bank: Bank::new(1000), opened: HashMap::new() };
    let found = Trial::new(fresh, command).find(0..100).expect("the bug is found");
    assert!(found.what.contains("is in another state"), "{found:?}");
}
