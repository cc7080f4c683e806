//! What all threads of a replica know of its members: the committee of the newest epoch here, how
//! the epochs before it ended, and whom there are channels to.
//!
//! # Who left
//! A member that left keeps its channels for one more epoch. It may have been away when the members
//! changed; its old peers are then the only ones that it knows, and the handover that they send it
//! is how it learns that it is a member no more. Its words count for nothing meanwhile: the core
//! takes only words of members, and answers old epochs with handovers. With the next change the
//! channels end, so that there are never more than two committees' worth of them. A member that was
//! away for longer asks as any client does, and is told on the clients' side without limit.
//!
//! # Who has another transport key
//! A member whose key a change replaced is accepted by both until the epoch is *settled*: until a
//! certificate of it is durable here ([`transport_key`](super::transport_key)).

use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::Rules;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::MAX_HANDOVERS;
use quorate_core::protocols::protocol::{Handover, SharedHandover, Types};
use quorate_core::{Committee, Epoch, ReplicaId, planted};
use quorate_transport::Member;

use super::admission::Published;
use crate::config::{Contact, peers};

/// Bytes of handovers that one answer holds; one handover is sent whatever it takes.
const ANSWER_BYTES: usize = 256 << 10;

/// What all threads know of the members.
#[derive(Debug)]
pub struct Epochs {
    known: RwLock<Known>,
    /// Who its clients are.
    pub(super) clients: Published,
}

#[derive(Debug)]
struct Known {
    committee: Committee,
    /// That of the epoch before.
    former: Option<Committee>,
    /// A certificate of the epoch is durable here, or the epoch is the first one.
    settled: bool,
    /// A later one, which somebody proved. The replica has not come to it yet.
    ahead: Option<Committee>,
    /// How epochs ended, from the first, as clients are told: without void blocks.
    handovers: Vec<Bytes>,
}

impl Epochs {
    /// Before anything has changed.
    #[must_use]
    pub fn new(first: Committee) -> Self {
        let known = Known {
            committee: first,
            former: None,
            settled: true,
            ahead: None,
            handovers: Vec::new(),
        };
        Self { known: RwLock::new(known), clients: Published::default() }
    }

    fn read<R>(&self, of: impl FnOnce(&Known) -> R) -> R {
        of(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The committee of the newest epoch that the replica has come to.
    #[must_use]
    pub fn committee(&self) -> Committee {
        self.read(|known| known.committee.clone())
    }

    /// The rules of that epoch.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.read(|known| known.committee.rules())
    }

    /// Whether the members may change.
    #[must_use]
    pub fn is_governed(&self) -> bool {
        self.read(|known| !known.committee.governance().administrators.is_empty())
    }

    /// The replica has come to the epoch of this committee.
    pub fn begin(&self, committee: Committee) {
        self.change(|known| {
            let former = std::mem::replace(&mut known.committee, committee);
            known.ahead.take_if(|ahead| ahead.epoch() <= known.committee.epoch());
            known.former = Some(former);
            known.settled = false;
        });
    }

    /// A certificate of the epoch is durable here.
    pub fn settle(&self) {
        self.change(|known| known.settled = true);
    }

    /// Whether one is.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.read(|known| known.settled)
    }

    /// The transport key that the newest committee names for `me`, as far as it is proven.
    #[must_use]
    pub fn transport_key(&self, me: ReplicaId) -> Option<PublicKey> {
        self.read(|known| {
            let mut newest = known.ahead.iter().chain([&known.committee]);
            let contact = |committee: &Committee| Contact::of(committee.member(me)?).ok();
            newest.find_map(contact).map(|contact| contact.transport_key)
        })
    }

    /// Somebody proved that these are the members by now.
    pub fn is_ahead(&self, committee: Committee) {
        self.change(|known| {
            let is_later = committee.epoch() > known.committee.epoch();
            known.ahead = Some(committee).filter(|_| is_later);
        });
    }

    /// How many epochs have ended, as far as clients are told.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.read(|known| known.handovers.len())
    }

    /// Epochs have ended so, from the first.
    pub fn add<T: Types>(&self, all: &[SharedHandover<T>]) {
        let told = self.ended();
        let new = all.iter().skip(told).map(|handover| {
            let Handover { state, next, shown, .. } = &**handover;
            let (next, shown) = (next.clone(), shown.clone());
            let lean = Handover::<T> { state: *state, next, shown, void: Vec::new() };
            Bytes::from(lean.to_bytes())
        });
        let new: Vec<Bytes> = new.collect();
        self.change(|known| known.handovers.extend(new));
    }

    /// How epochs ended, from this one on: as many as one answer holds.
    #[must_use]
    pub fn handovers(&self, from: Epoch) -> Vec<Bytes> {
        let from = usize::try_from(from.0).unwrap_or(usize::MAX);
        self.read(|known| {
            let mut bytes = 0;
            let ends = known.handovers.iter().skip(from).take(MAX_HANDOVERS).enumerate();
            let fits = ends.take_while(|(at, end)| {
                bytes += end.len();
                *at == 0 || bytes <= ANSWER_BYTES
            });
            fits.map(|(_, end)| end.clone()).collect()
        })
    }

    /// Whom there are channels to, by id: the members, those who were before, and those who are to
    /// be by what is proven. Each by the key that it has by the first of these lists that has it;
    /// and by the one that it had before, if the next one is not settled.
    #[must_use]
    pub fn peers(&self) -> Vec<Option<Member>> {
        self.read(|known| {
            let Known { committee, former, ahead, settled, .. } = known;
            let by_weight_of_word = [ahead.as_ref(), Some(committee), former.as_ref()];
            let lists = by_weight_of_word.into_iter().flatten().map(peers).collect::<Vec<_>>();
            let size = lists.iter().map(Vec::len).max().unwrap_or_default();
            let before = usize::from(*settled && former.is_some());
            let count = lists.len() - planted!("former-transport-key-for-ever", 0, before);
            let both = |id: usize| {
                let first = lists.iter().find_map(|list| list.get(id)?.clone())?;
                let keys = lists[..count].iter().filter_map(|list| list.get(id)?.as_ref());
                let former = keys.map(|member| member.key).find(|key| *key != first.key);
                Some(Member { former, ..first })
            };
            (0..size).map(both).collect()
        })
    }

    /// How `me` takes part.
    #[must_use]
    pub fn standing(&self, me: ReplicaId) -> Standing {
        self.read(|known| match known.committee.member(me) {
            Some(member) if member.is_learner() => Standing::Learner,
            Some(_) => Standing::Member,
            None if known.former.is_none() => Standing::Newcomer,
            None => Standing::Left,
        })
    }
}

/// How a replica takes part in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Member,
    /// It is sent everything, and counts for nothing.
    Learner,
    /// It is no member, and knows the first epoch alone.
    Newcomer,
    /// It is no member of this epoch.
    Left,
}

impl Standing {
    /// What an operator should know of it, if it does not simply count.
    #[must_use]
    pub fn said(self) -> Option<&'static str> {
        match self {
            Self::Member => None,
            Self::Learner => Some(
                "this replica is a learner: it is sent everything, and counts once it is promoted \
                 (`quorate member promote`)",
            ),
            Self::Newcomer => Some(
                "this replica is no member yet: hand its config/member.toml to an administrator \
                 (`quorate member add`)",
            ),
            Self::Left => Some(
                "this replica is no member any more: it orders nothing, and tells who asks how the \
                 members changed. Stop it once clients have gone over to the new members, and keep \
                 or remove its data as you like",
            ),
        }
    }

    /// Its name in `/status`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Learner => "learner",
            Self::Newcomer => "newcomer",
            Self::Left => "left",
        }
    }
}
