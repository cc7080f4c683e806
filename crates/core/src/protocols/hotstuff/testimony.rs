//! Coming back without memory.
//!
//! A replica whose data folder was lost cannot know what it voted for. It asks all others which
//! view they are in, waits for q of them, and then abstains, durably, from votes, time-outs and
//! proposals until a certificate stands [`ABSTAINED_VIEWS`] views and more beyond the highest view
//! that any of them has shown.
//!
//! Each testimony carries the certificate by which its sender entered the view, so that nobody can
//! name one that the cluster did not come to, and the highest counts, however many name lower ones.
//! Why that is enough: what the replica may have signed in view v needed a certificate of view
//! v − 1. Its q signers and the q that answer share at least f + 1 replicas, two more than the
//! other liars there may be, so a correct one is among them that had signed in view v − 1, and
//! shows the certificate that leads there: it gives up a view early only with others that do, whose
//! time-outs bring their certificates along. (To count how many name a view, or to take the f-th
//! highest, is not enough: correct replicas that were cut off know as little as liars pretend to.)

use crate::base::types::View;
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::safety::Safety;

/// How many views beyond the highest testimony a replica without memory abstains.
pub const ABSTAINED_VIEWS: u64 = 16;

/// What another replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// The view it is in.
    pub view: View,
    /// Its high QC.
    pub high_qc: Qc,
    /// Its high TC, if that is above the high QC.
    pub high_tc: Option<Tc>,
}

impl Testimony {
    /// The view that its certificates lead to, whatever it says.
    #[must_use]
    pub fn proven(&self) -> View {
        self.high_tc.as_ref().map_or(View(0), Tc::view).max(self.high_qc.view()).next()
    }
}

/// What a replica that lost its memory remembers from now on: `fresh`, and to abstain.
#[must_use]
pub fn recollect(testimonies: &[Testimony], fresh: Safety) -> Option<Safety> {
    let entered = testimonies.iter().map(Testimony::proven).max()?;
    let high_qc = testimonies.iter().map(|t| &t.high_qc).max_by_key(|qc| qc.view())?;
    let beyond = entered.plus(ABSTAINED_VIEWS);
    let highest = mutant!("rejoin-without-abstaining", View(0), beyond);
    // Its lost lock was no higher than the highest QC of those who voted above it.
    let (lock, high_qc) = (high_qc.clone(), high_qc.clone());
    Some(Safety { abstain_until: highest, lock, high_qc, ..fresh })
}

impl Encode for Testimony {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.high_qc.encode(out);
        self.high_tc.encode(out);
    }
}

impl Decode for Testimony {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            high_qc: Qc::decode(reader)?,
            high_tc: reader.option("TC of a testimony")?,
        })
    }
}
