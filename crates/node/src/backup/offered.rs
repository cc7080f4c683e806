//! What the offer of a state proves, and how a replica gets that state, whatever the protocol.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::Decode as _;
use quorate_core::client::proven::NotProven;
use quorate_core::protocols::protocol::{
    Capability, Handover, Malformed, Protocol, SharedHandover, Verifier as _,
};
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::Offer;
use quorate_core::{Committee, Digest, Epoch, Height};
use quorate_journal::{Chunks, Disks, OpenError, Owner, Restored};
use quorate_store::disk::FileDisk;

use crate::config::Cluster;
use crate::family::{self, Build, Family, Job, Lacking};

/// The committee of an epoch, if it is known.
pub type Committees<'a> = &'a dyn Fn(Epoch) -> Option<Committee>;

/// What an offer proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The epoch whose committee stands for it.
    pub epoch: Epoch,
    /// The height of the state.
    pub height: Height,
    /// The block behind which it stands.
    pub block: Digest,
    /// Its root.
    pub root: Digest,
}

/// Whether blocks and states of the cluster prove themselves.
///
/// # Errors
/// [`Lacking`] names what the protocol cannot do.
pub fn check_protocol(cluster: &Cluster) -> Result<(), Lacking> {
    struct Look;
    impl Job for Look {
        type Output = Option<Capability>;
        fn run<B: Build>(self, _: B) -> Self::Output {
            let needed = [Capability::Pull, Capability::VerifiedReads];
            needed.into_iter().find(|one| !B::Protocol::CAPABILITIES.contains(one))
        }
    }
    let protocol = cluster.protocol.name();
    match Family::agreed(cluster).run(Look) {
        Some(wanted) => Err(Lacking::Capability { protocol, wanted }),
        None => Ok(()),
    }
}

/// Checks an encoded offer.
///
/// # Errors
/// [`NotProven`].
pub fn check(
    cluster: &Cluster,
    committees: Committees<'_>,
    offer: &Bytes,
) -> Result<Offered, NotProven> {
    Family::agreed(cluster).run(Check { cluster, committees, offer })
}

struct Check<'a> {
    cluster: &'a Cluster,
    committees: Committees<'a>,
    offer: &'a Bytes,
}

impl Job for Check<'_> {
    type Output = Result<Offered, NotProven>;

    fn run<B: Build>(self, build: B) -> Self::Output {
        let Offer { epoch, block, recent, shown } =
            Offer::<B::Types>::from_bytes(self.offer.clone())?;
        let unknown = NotProven::Certificate(Malformed::WrongEpoch);
        let committee = (self.committees)(epoch).ok_or(unknown)?;
        let scheme = family::scheme_of(self.cluster, &committee);
        let verifier = build.verifier(committee);
        let checks = verifier
            .claim_evidence(&shown.block.id(), &shown.evidence)
            .map_err(NotProven::Certificate)?;
        let verdicts = scheme.verify(&checks);
        if verdicts.len() != checks.len() || !verdicts.iter().all(|verdict| *verdict) {
            return Err(NotProven::Signature);
        }
        let headers: Vec<_> = recent.iter().chain([block.header()]).collect();
        let linked = headers.windows(2).all(|pair| pair[1].parent() == pair[0].id());
        if !linked || shown.block.height() < block.height() {
            return Err(NotProven::OtherBlock);
        }
        let root = <B::Protocol as Protocol>::Verifier::attested_root(&shown);
        Ok(Offered { epoch, height: block.height(), block: block.id(), root })
    }
}

/// A replica that gets a state.
pub struct Receiver<'a> {
    /// Its cluster.
    pub cluster: &'a Cluster,
    /// The first committee.
    pub committee: Committee,
    /// Its consensus key.
    pub key: ReplicaKey,
    /// Its data folder.
    pub data: &'a Path,
}

impl Receiver<'_> {
    /// Writes a state with this root into the data folder: that of a checked offer, for a replica
    /// that lost its data, with the checked ends of the epochs before it; without an offer the
    /// first one of its chain.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn take(
        self,
        ends: &[Bytes],
        offer: Option<&Bytes>,
        root: Digest,
        chunks: Chunks<'_>,
    ) -> Result<(), OpenError> {
        Family::agreed(self.cluster).run(Put { receiver: self, ends, offer, root, chunks })
    }
}

struct Put<'a, 'b> {
    receiver: Receiver<'a>,
    ends: &'b [Bytes],
    offer: Option<&'b Bytes>,
    root: Digest,
    chunks: Chunks<'b>,
}

impl Job for Put<'_, '_> {
    type Output = Result<(), OpenError>;

    fn run<B: Build>(self, build: B) -> Self::Output {
        let Self { receiver: Receiver { committee, key, data, .. }, ends, offer, root, chunks } =
            self;
        let open = |name: &str| FileDisk::open(data.join(name)).map_err(OpenError::List);
        let disks = Disks { log: Arc::new(open("wal")?), states: Arc::new(open("snapshots")?) };
        let owner = Owner::new(build.origin(&committee), key);
        let offer = offer.cloned().map(Offer::<B::Types>::from_bytes).transpose();
        let offer = offer.map_err(OpenError::Description)?;
        let handovers: Result<Vec<SharedHandover<B::Types>>, _> =
            ends.iter().map(|end| Handover::from_bytes(end.clone()).map(Arc::new)).collect();
        let handovers = handovers.map_err(OpenError::Description)?;
        let (block, recent) = match &offer {
            Some(offer) => (Arc::clone(&offer.block), offer.recent.clone()),
            None => (owner.genesis(), Vec::new()),
        };
        // What the chain up to it commits, the blocks above it tell: as of a state from a peer.
        let meta = SnapshotMeta { block, committed: Height(0), recent, roots: vec![root] };
        quorate_journal::restore(&disks, &owner, Restored { handovers, meta, offer, chunks })
    }
}

/// The genesis block of a cluster's first committee.
pub fn genesis(cluster: &Cluster, committee: &Committee) -> Digest {
    struct Genesis<'a>(&'a Committee);
    impl Job for Genesis<'_> {
        type Output = Digest;
        fn run<B: Build>(self, build: B) -> Digest {
            build.origin(self.0).genesis.id()
        }
    }
    Family::agreed(cluster).run(Genesis(committee))
}
