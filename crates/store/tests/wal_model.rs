//! Random runs of a log against a model, with restarts and power cuts.

mod common;

use common::{Record, options, replay};
use proptest::prelude::*;
use quorate_store::disk::{CrashDisk, Fate};
use quorate_store::wal::{Durability, Log};
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Append { kind: u8, size: usize },
    Commit { slot: Option<usize>, durability: Durability },
    Retire { index: usize },
    Restart,
    PowerCut { seed: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let durability = prop_oneof![3 => Just(Durability::Sync), 1 => Just(Durability::Os)];
    prop_oneof![
        6 => (1u8..=255, prop_oneof![0usize..40, 0usize..3000, 0usize..11_000])
            .prop_map(|(kind, size)| Step::Append { kind, size }),
        4 => (proptest::option::of(0usize..=4072), durability)
            .prop_map(|(slot, durability)| Step::Commit { slot, durability }),
        1 => any::<usize>().prop_map(|index| Step::Retire { index }),
        1 => Just(Step::Restart),
        1 => any::<u64>().prop_map(|seed| Step::PowerCut { seed }),
    ]
}

/// The content that the log must have: committed records, of which `durable` must not be lost, and
/// records that were only appended.
#[derive(Default)]
struct Model {
    committed: Vec<Record>,
    durable: usize,
    pending: Vec<Record>,
    slot: Option<Vec<u8>>,
    /// Safety records that may be there after a power cut: the durable one and all later ones.
    slots_since: Vec<Option<Vec<u8>>>,
    stamp: u8,
}

impl Model {
    fn compare(&self, log: &Log) {
        let first = log.first_position();
        let kept = self.committed.partition_point(|record| record.position < first);
        // Records appended without a commit may be found: a rotation wrote them out.
        let found = replay(log).unwrap();
        let all: Vec<&Record> = self.committed[kept..].iter().chain(&self.pending).collect();
        assert!(found.len() >= self.committed.len() - kept);
        assert_eq!(found.iter().collect::<Vec<_>>(), all[..found.len()]);
        for record in &found {
            assert_eq!(log.read(record.position).unwrap(), (record.kind, record.payload.clone()));
        }
    }

    fn compare_after_power_cut(&self, log: &Log, slot: &Option<Vec<u8>>) {
        let found = replay(log).unwrap();
        assert!(found.len() >= self.durable, "{} of {}", found.len(), self.durable);
        let all: Vec<&Record> = self.committed.iter().chain(&self.pending).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), all[..found.len()]);
        assert!(self.slots_since.contains(slot));
    }

    /// After a restart, the found records are the committed ones.
    fn settle(&mut self, log: &Log, slot: Option<Vec<u8>>) {
        self.committed = replay(log).unwrap();
        self.durable = self.committed.len();
        self.pending.clear();
        self.slot = slot;
        self.slots_since = vec![self.slot.clone()];
    }
}

fn run(steps: &[Step]) {
    let mut crash = CrashDisk::new();
    let mut log = Log::open(Arc::new(crash.clone()), options()).unwrap().0;
    let mut model = Model { slots_since: vec![None], ..Model::default() };
    for step in steps {
        model.stamp = model.stamp.wrapping_add(1);
        match *step {
            Step::Append { kind, size } => {
                let payload = vec![model.stamp; size];
                let position = log.append(kind, &[&payload]).unwrap();
                let last = model.pending.last().or(model.committed.last());
                assert!(last.is_none_or(|last| last.position < position));
                model.pending.push(Record { position, kind, payload });
            }
            Step::Commit { slot, durability } => {
                if let Some(size) = slot {
                    model.slot = Some(vec![model.stamp; size]);
                    model.slots_since.push(model.slot.clone());
                }
                log.commit(slot.and(model.slot.as_deref()), durability).unwrap();
                model.committed.append(&mut model.pending);
                if durability == Durability::Sync {
                    model.durable = model.committed.len();
                    model.slots_since = vec![model.slot.clone()];
                }
                assert_eq!(log.slot(), model.slot.as_deref());
            }
            Step::Retire { index } if !model.committed.is_empty() => {
                let position = model.committed[index % model.committed.len()].position;
                log.retire_before(position).unwrap();
                assert!(log.first_position() <= position);
                let gone = model
                    .committed
                    .partition_point(|record| record.position < log.first_position());
                model.committed.drain(..gone);
                model.durable = model.durable.saturating_sub(gone);
            }
            Step::Retire { .. } => {}
            Step::Restart => {
                drop(log);
                let (again, recovered) = Log::open(Arc::new(crash.clone()), options()).unwrap();
                log = again;
                assert_eq!(recovered.slot, model.slot);
                assert!(recovered.cut.is_none() && !recovered.repaired && !recovered.created);
                model.compare(&log);
                model.settle(&log, recovered.slot);
            }
            Step::PowerCut { seed } => {
                let after = crash.materialise(crash.operations(), Fate::Mixed { seed });
                crash = CrashDisk::over(&after).unwrap();
                let (again, recovered) = Log::open(Arc::new(crash.clone()), options()).unwrap();
                log = again;
                model.compare_after_power_cut(&log, &recovered.slot);
                model.settle(&log, recovered.slot);
            }
        }
        model.compare(&log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_log_is_its_model(steps in proptest::collection::vec(step(), 1..80)) {
        run(&steps);
    }
}
