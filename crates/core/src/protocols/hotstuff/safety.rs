//! The safety record: what a replica of HotStuff must never forget.

use crate::base::types::View;
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::protocol::Ballot;

/// The safety record: all that a replica must never forget. Written as one, before anything that
/// rests on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Safety {
    /// The last vote.
    pub voted: Option<Ballot>,
    /// The lock.
    pub lock: Qc,
    /// The highest QC.
    pub high_qc: Qc,
    /// The highest time-out certificate, if it is above the high QC.
    pub high_tc: Option<Tc>,
    /// The highest view given up: no vote in it or below.
    pub timed_out: View,
    /// The highest view in which this replica may have proposed. Written with the vote of the view
    /// before, so that the proposal itself need not wait for the disk: after a restart nothing is
    /// proposed in this view or below, whatever was.
    pub reserved: View,
    /// After data was lost: no vote, time-out or proposal up to this view, for what was said in
    /// them is not known.
    pub abstain_until: View,
}

impl Safety {
    /// The record of a replica that never said anything.
    #[must_use]
    pub fn new(genesis: BlockId) -> Self {
        Self {
            voted: None,
            lock: Qc::genesis(genesis),
            high_qc: Qc::genesis(genesis),
            high_tc: None,
            timed_out: View(0),
            reserved: View(0),
            abstain_until: View(0),
        }
    }
}

/// The version of the safety record. Blocks have had their identity from their headers since
/// version 3.
pub const SAFETY_VERSION: u8 = 3;

impl Encode for Safety {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(SAFETY_VERSION);
        self.voted.encode(out);
        self.lock.encode(out);
        self.high_qc.encode(out);
        self.high_tc.encode(out);
        self.timed_out.encode(out);
        self.reserved.encode(out);
        self.abstain_until.encode(out);
    }
}

impl Decode for Safety {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.version("safety record", SAFETY_VERSION)?;
        Ok(Self {
            voted: reader.option("last vote")?,
            lock: Qc::decode(reader)?,
            high_qc: Qc::decode(reader)?,
            high_tc: reader.option("high TC")?,
            timed_out: View::decode(reader)?,
            reserved: View::decode(reader)?,
            abstain_until: View::decode(reader)?,
        })
    }
}
