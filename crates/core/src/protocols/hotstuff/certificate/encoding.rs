//! The canonical bytes of votes, time-outs and certificates.

use std::sync::Arc;

use super::{Proof, Qc, Tc, TcParts, TimeOut, Vote};
use crate::base::crypto::{Signature, Signers};
use crate::base::membership::MAX_REPLICAS;
use crate::base::types::{ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::protocols::protocol::Ballot;

impl Encode for Vote {
    fn encode(&self, out: &mut Vec<u8>) {
        self.ballot.encode(out);
        self.voter.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for Vote {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            ballot: Ballot::decode(reader)?,
            voter: ReplicaId::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

/// A signer beside its signature.
impl Encode for (ReplicaId, Signature) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl Decode for (ReplicaId, Signature) {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok((ReplicaId::decode(reader)?, Signature::decode(reader)?))
    }
}

/// Who gave up, and the view of its high QC.
impl Encode for (ReplicaId, View) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl Decode for (ReplicaId, View) {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok((ReplicaId::decode(reader)?, View::decode(reader)?))
    }
}

impl Encode for Proof {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::List(signatures) => {
                out.push(1);
                put_list(out, signatures);
            }
            Self::Aggregate(signers, signature) => {
                out.push(2);
                signers.encode(out);
                signature.encode(out);
            }
            Self::Threshold(signature) => {
                out.push(3);
                signature.encode(out);
            }
        }
    }
}

impl Decode for Proof {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::List(reader.list("signers of a QC", MAX_REPLICAS)?)),
            2 => Ok(Self::Aggregate(Signers::decode(reader)?, Signature::decode(reader)?)),
            3 => Ok(Self::Threshold(Signature::decode(reader)?)),
            _ => Err(DecodeError::Invalid { field: "form of a QC" }),
        }
    }
}

impl Encode for Qc {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.ballot.encode(out);
        self.0.proof.encode(out);
    }
}

impl Decode for Qc {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::new(Ballot::decode(reader)?, Proof::decode(reader)?))
    }
}

impl Encode for TimeOut {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        self.high_qc_view.encode(out);
        self.replica.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for TimeOut {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            high_qc_view: View::decode(reader)?,
            replica: ReplicaId::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for Tc {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.view.encode(out);
        put_list(out, &self.0.entries);
        put_list(out, &self.0.signatures);
        put_list(out, &self.0.qcs);
    }
}

impl Decode for Tc {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let parts = TcParts {
            view: View::decode(reader)?,
            entries: reader.list("signers of a TC", MAX_REPLICAS)?,
            signatures: reader.list("signatures of a TC", MAX_REPLICAS)?,
            qcs: reader.list("QCs of a TC", MAX_REPLICAS)?,
        };
        if parts.qcs.is_empty() {
            return Err(DecodeError::Invalid { field: "QCs of a TC" });
        }
        Ok(Self(Arc::new(parts)))
    }
}
