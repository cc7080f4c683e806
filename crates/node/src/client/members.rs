//! The replicas that a client talks to: those that it began with, or, where members may change,
//! those of the newest committee that it knows.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::Session;
use quorate_core::client::message::Request;
use quorate_core::{Committee, Digest, ReplicaId, Time};

use super::link::{Contact, Link};
use super::query::Questions;
use super::succession::{Chain, addresses};
use super::{Authenticity, ClientConfig, ReplicaAddress};

/// How the client stands with each replica, by id; shared with its handles.
pub(super) type Contacts = Arc<RwLock<Vec<Arc<Contact>>>>;

/// The links to the replicas.
pub(super) struct Members {
    chain: Digest,
    /// By id; `None`: vacant.
    links: Vec<Option<(ReplicaAddress, Link)>>,
    contacts: Contacts,
    questions: Arc<Questions>,
    /// Where members may change: their committees so far.
    following: Option<Chain>,
    /// Finds out how epochs ended since, where members prove other keys than are known.
    seeking: Option<Pin<Box<Seeking>>>,
}

type Seeking = dyn Future<Output = Vec<Bytes>> + Send;

impl Members {
    /// Those that a client begins with.
    pub(super) fn new(
        config: &ClientConfig,
        contacts: Contacts,
        questions: Arc<Questions>,
    ) -> Self {
        let following = match &config.authenticity {
            Authenticity::Members(following) => Some(following.begin()),
            _ => None,
        };
        let chain = config.session.chain;
        let (links, seeking) = (Vec::new(), None);
        let mut members = Self { chain, links, contacts, questions, following, seeking };
        let is_ahead =
            |following: &Chain| following.committee().epoch() > following.committees()[0].epoch();
        if !members.following.as_ref().is_some_and(is_ahead) {
            members.reach(config.replicas.iter().cloned().map(Some).collect());
        }
        members
    }

    /// Before the first step: goes over to later members than the first, if they are known.
    pub(super) fn begin(&mut self, session: &mut Session) {
        if self.links.is_empty() {
            self.go_over(Time(0), session);
        }
    }

    /// From now on the replicas are at these addresses. Returns those that left, or are others.
    fn reach(&mut self, replicas: Vec<Option<ReplicaAddress>>) -> Vec<ReplicaId> {
        let mut contacts = self.contacts.write().unwrap_or_else(PoisonError::into_inner);
        contacts.resize_with(replicas.len(), Arc::default);
        let mut left = Vec::new();
        let mut links = Vec::with_capacity(replicas.len());
        for (id, wanted) in replicas.into_iter().enumerate() {
            let replica = ReplicaId(id as u16);
            let before = self.links.get_mut(id).and_then(Option::take);
            links.push(match (before, wanted) {
                (Some((address, link)), Some(wanted)) if address == wanted => Some((address, link)),
                (before, wanted) => {
                    left.extend(before.map(|_| replica));
                    contacts[id] = Arc::default();
                    wanted.map(|address| {
                        let contact = Arc::clone(&contacts[id]);
                        (address.clone(), Link::new(replica, address, self.chain, contact))
                    })
                }
            });
        }
        let beyond = self.links.iter().enumerate().skip(links.len());
        left.extend(beyond.filter_map(|(id, link)| link.as_ref().map(|_| ReplicaId(id as u16))));
        self.links = links;
        left
    }

    /// The links, each with whom it leads to.
    pub(super) fn links(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Link)> {
        let links = self.links.iter_mut().enumerate();
        links.filter_map(|(id, link)| Some((ReplicaId(id as u16), &mut link.as_mut()?.1)))
    }

    /// The link to a replica, if it is a member.
    pub(super) fn link(&mut self, replica: ReplicaId) -> Option<&mut Link> {
        self.links.get_mut(replica.index())?.as_mut().map(|(_, link)| link)
    }

    /// Writes what was sent.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        self.links().for_each(|(_, link)| link.write(cx));
    }

    /// How many places of members there are.
    pub(super) fn size(&self) -> usize {
        self.links.len()
    }

    /// The newest committee that is known, where members may change.
    pub(super) fn committee(&self) -> Option<&Committee> {
        self.following.as_ref().map(Chain::committee)
    }

    /// Whether the members may change.
    pub(super) fn may_change(&self) -> bool {
        self.following.is_some()
    }

    /// Asks a replica, or all, how the newest epoch that is known here ended.
    pub(super) fn ask(&mut self, replica: Option<ReplicaId>) {
        let Some(following) = &self.following else { return };
        let request = Request::Handovers { id: 0, from: following.committee().epoch() };
        let request = Bytes::from(request.to_bytes());
        let asked = |id: &ReplicaId| replica.is_none_or(|replica| replica == *id);
        self.links().filter(|(id, _)| asked(id)).for_each(|(_, link)| link.send(&request));
    }

    /// Members prove other keys than are known. Where they may change, they are asked by whatever
    /// key how epochs ended, which proves itself.
    pub(super) fn seek(&mut self) {
        let Some(following) = self.following.as_ref().filter(|_| self.seeking.is_none()) else {
            return;
        };
        let following = following.following();
        self.seeking = Some(Box::pin(async move {
            let mut chain = following.begin();
            // The next dial by a key that is not theirs seeks again.
            let _ = chain.catch_up().await;
            chain.handovers().to_vec()
        }));
    }

    /// How epochs ended, once that is found out.
    pub(super) fn found(&mut self, cx: &mut Context<'_>) -> Option<Vec<Bytes>> {
        let Poll::Ready(found) = self.seeking.as_mut()?.as_mut().poll(cx) else { return None };
        self.seeking = None;
        Some(found)
    }

    /// Follows handovers; goes over to the members that they lead to.
    pub(super) fn follow(&mut self, now: Time, handovers: Vec<Bytes>, session: &mut Session) {
        let Some(following) = &mut self.following else { return };
        match following.take(handovers) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::warn!("a replica's handovers are not followed: {error}"),
        }
        self.go_over(now, session);
        // There may be later ones. New members are asked when they are reached.
        self.ask(None);
    }

    /// Goes over to the members of the newest committee that is known.
    fn go_over(&mut self, now: Time, session: &mut Session) {
        let Some(following) = &self.following else { return };
        let committee = following.committee().clone();
        let mut replicas = vec![None; committee.size()];
        for (replica, address) in addresses(&committee) {
            replicas[replica.index()] = Some(address);
        }
        self.questions.change_members(&committee, &replicas);
        let left = self.reach(replicas);
        let ids = (0..committee.size()).map(|id| ReplicaId(id as u16));
        session.change_members(now, ids.map(|id| committee.weight(id)).collect(), &left);
    }
}
