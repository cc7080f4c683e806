//! Answers of liars, and of several replicas that say the same.

use quorate_core::Epoch;
use quorate_core::base::crypto::Scheme;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::DecodeError;

use super::*;

/// The committee of an epoch.
fn committee(epoch: u64) -> Committee {
    let keys = (0..4).map(|id| ReplicaKey::from([id; 32]));
    Committee::new(Digest([7; 32]), Epoch(epoch), keys.collect()).unwrap()
}

/// Believes each epoch's number for its end, and nothing else.
struct Numbers(Committee);

impl Follower for Numbers {
    fn committee(&self) -> &Committee {
        &self.0
    }

    fn follow(&mut self, handover: Bytes, _: &dyn Scheme) -> Result<bool, NotFollowed> {
        let Epoch(epoch) = self.0.epoch();
        match u64::from(handover[0]) {
            ended if ended < epoch => Ok(false),
            ended if ended == epoch => {
                self.0 = committee(epoch + 1);
                Ok(true)
            }
            _ => {
                let reason = DecodeError::Invalid { field: "no end" };
                Err(NotFollowed::Unreadable { epoch: Epoch(epoch), reason })
            }
        }
    }
}

fn ends<const N: usize>(epochs: [u8; N]) -> Vec<Bytes> {
    epochs.map(|epoch| Bytes::from(vec![epoch])).into()
}

fn chain() -> Chain {
    Chain {
        cluster: Arc::new(Cluster::new("chain".to_owned(), [7; 32], Vec::new())),
        follower: Box::new(Numbers(committee(0))),
        scheme: MembersScheme::default(),
        handovers: Vec::new(),
        committees: vec![committee(0)],
    }
}

#[test]
fn garbage_behind_what_is_genuine_hides_nothing() {
    let mut chain = chain();
    assert_eq!(chain.take(ends([0, 1, 99, 2])), Ok(true));
    assert_eq!(chain.committee().epoch(), Epoch(2));
    assert_eq!(chain.committees().len(), 3);
    assert!(chain.take(ends([99])).is_err(), "it leads nowhere");
}

#[test]
fn who_says_the_same_again_is_no_liar() {
    let mut chain = chain();
    assert_eq!(chain.take(ends([0, 1])), Ok(true));
    assert_eq!(chain.take(ends([0, 1])), Ok(false));
    assert_eq!(chain.take(ends([1, 2])), Ok(true));
    assert_eq!(chain.handovers(), ends([0, 1, 2]));
}
