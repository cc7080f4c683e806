//! How messages about epochs, and what is kept of them, are written.

use super::words::{
    Ballot, Certificate, Chain, Complaint, Decided, MAX_CHAIN, Odd, Proposal, REACH, Remembered,
    Report, Signed, SignedReport, Word,
};
use crate::base::crypto::Signature;
use crate::base::membership::MAX_REPLICAS;
use crate::base::types::{Height, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::protocols::snow::snowman::place::Place;

impl Encode for Signed {
    fn encode(&self, out: &mut Vec<u8>) {
        self.signer.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for Signed {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { signer: ReplicaId::decode(reader)?, signature: Signature::decode(reader)? })
    }
}

impl Encode for Complaint {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.base.encode(out);
    }
}

impl Decode for Complaint {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { epoch: reader.u64()?, base: Place::decode(reader)? })
    }
}

impl Encode for Certificate {
    fn encode(&self, out: &mut Vec<u8>) {
        self.complaint.encode(out);
        put_list(out, &self.signatures);
    }
}

impl Decode for Certificate {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            complaint: Complaint::decode(reader)?,
            signatures: reader.list("signatures of complaints", MAX_REPLICAS)?,
        })
    }
}

impl Encode for Report {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.round.encode(out);
        self.base.encode(out);
        put_list(out, &self.chain);
    }
}

impl Decode for Report {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: reader.u64()?,
            round: reader.u32()?,
            base: Place::decode(reader)?,
            chain: reader.list("blocks of a report", REACH)?,
        })
    }
}

impl Encode for SignedReport {
    fn encode(&self, out: &mut Vec<u8>) {
        self.from.encode(out);
        self.report.encode(out);
        self.signature.encode(out);
    }
}

impl Decode for SignedReport {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            from: ReplicaId::decode(reader)?,
            report: Report::decode(reader)?,
            signature: Signature::decode(reader)?,
        })
    }
}

impl Encode for Ballot {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.round.encode(out);
        self.place.encode(out);
    }
}

impl Decode for Ballot {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { epoch: reader.u64()?, round: reader.u32()?, place: Place::decode(reader)? })
    }
}

impl Encode for Proposal {
    fn encode(&self, out: &mut Vec<u8>) {
        self.ballot.encode(out);
        self.base.encode(out);
        put_list(out, &self.chain);
        put_list(out, &self.reports);
    }
}

impl Decode for Proposal {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            ballot: Ballot::decode(reader)?,
            base: Place::decode(reader)?,
            chain: reader.list("blocks of a proposal", REACH)?,
            reports: reader.list("reports of a proposal", MAX_REPLICAS)?,
        })
    }
}

impl Encode for Decided {
    fn encode(&self, out: &mut Vec<u8>) {
        self.ballot.encode(out);
        put_list(out, &self.signatures);
    }
}

impl Decode for Decided {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            ballot: Ballot::decode(reader)?,
            signatures: reader.list("signatures of votes", MAX_REPLICAS)?,
        })
    }
}

impl Encode for Word {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Complaint { complaint, signature } => {
                out.push(1);
                complaint.encode(out);
                signature.encode(out);
            }
            Self::Report { certificate, signed } => {
                out.push(2);
                certificate.encode(out);
                signed.encode(out);
            }
            Self::Proposal(proposal) => {
                out.push(3);
                proposal.encode(out);
            }
            Self::Vote { ballot, signature } => {
                out.push(4);
                ballot.encode(out);
                signature.encode(out);
            }
            Self::Decided(decided) => {
                out.push(5);
                decided.encode(out);
            }
        }
    }
}

impl Decode for Word {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::Complaint {
                complaint: Complaint::decode(reader)?,
                signature: Signature::decode(reader)?,
            },
            2 => Self::Report {
                certificate: Certificate::decode(reader)?,
                signed: SignedReport::decode(reader)?,
            },
            3 => Self::Proposal(Proposal::decode(reader)?),
            4 => Self::Vote {
                ballot: Ballot::decode(reader)?,
                signature: Signature::decode(reader)?,
            },
            5 => Self::Decided(Decided::decode(reader)?),
            _ => return Err(DecodeError::Invalid { field: "kind of a message about epochs" }),
        })
    }
}

impl Encode for Chain {
    fn encode(&self, out: &mut Vec<u8>) {
        self.first.encode(out);
        put_list(out, &self.ids);
    }
}

impl Decode for Chain {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            first: Height::decode(reader)?,
            ids: reader.list("blocks of a chain", MAX_CHAIN)?,
        })
    }
}

/// A vote that is remembered.
struct Voted(u32, Chain);

impl Decode for Voted {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(reader.u32()?, Chain::decode(reader)?))
    }
}

impl Encode for Odd {
    fn encode(&self, out: &mut Vec<u8>) {
        self.certificate.encode(out);
        self.round.encode(out);
        self.stand.encode(out);
        match &self.vote {
            None => out.push(0),
            Some((round, chain)) => {
                out.push(1);
                round.encode(out);
                chain.encode(out);
            }
        }
    }
}

impl Decode for Odd {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            certificate: Certificate::decode(reader)?,
            round: reader.u32()?,
            stand: Chain::decode(reader)?,
            vote: reader.option::<Voted>("vote of an epoch")?.map(|Voted(round, it)| (round, it)),
        })
    }
}

impl Encode for Remembered {
    fn encode(&self, out: &mut Vec<u8>) {
        self.decided.encode(out);
        self.over.encode(out);
        self.odd.encode(out);
    }
}

impl Decode for Remembered {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            decided: reader.option("decision of an epoch")?,
            over: reader.u64()?,
            odd: reader.option("epoch that is not over")?,
        })
    }
}
