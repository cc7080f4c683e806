//! What a driver puts around a replica that is to be Byzantine.

use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::client::message::Response;
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::rules::Facts;
use quorate_core::{Duration, ReplicaId, Time};

use crate::{Adversary, Context, Peer, Seen, Sent};

/// The keys an adversary works with: its own, and what anybody can do.
#[derive(Clone, Copy)]
pub struct Own<'a> {
    /// Signs with the replica's own key.
    pub signer: &'a dyn Signer,
    /// Joins signatures and verifies them.
    pub scheme: &'a dyn Scheme,
}

/// What an adversary has done, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Sent by the replica, and never left.
    pub withheld: u64,
    /// Left later than they were sent.
    pub delayed: u64,
    /// Left as something else, or with something beside them.
    pub bent: u64,
    /// Left without the replica having sent anything.
    pub unasked: u64,
    /// Answers to clients that were withheld, bent or added.
    pub answers: u64,
}

impl Deeds {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.withheld + self.delayed + self.bent + self.unasked + self.answers
    }
}

/// An adversary with what it has seen, around one replica.
#[derive(Debug)]
pub struct Layer {
    adversary: Box<dyn Adversary>,
    me: ReplicaId,
    domain: Domain,
    facts: &'static Facts,
    seen: Seen,
    deeds: Deeds,
    next_tick: Option<Time>,
}

impl Layer {
    /// `adversary` around replica `me`, which runs the variant of these facts.
    #[must_use]
    pub fn new(
        adversary: Box<dyn Adversary>,
        me: ReplicaId,
        domain: Domain,
        facts: &'static Facts,
    ) -> Self {
        let next_tick = adversary.wants_tick().map(|span| Time(0).after(span));
        let (seen, deeds) = (Seen::default(), Deeds::default());
        Self { adversary, me, domain, facts, seen, deeds, next_tick }
    }

    /// What it has done so far.
    #[must_use]
    pub fn deeds(&self) -> Deeds {
        self.deeds
    }

    /// The replica sends `message` to `to`: what leaves instead.
    pub fn sends(&mut self, now: Time, own: Own<'_>, to: ReplicaId, message: Peer) -> Vec<Sent> {
        self.seen.own(&message);
        let mut out = Vec::new();
        let sent = message.clone();
        let Self { adversary, me, domain, facts, seen, .. } = self;
        adversary.sends(&context(now, own, *me, domain, facts, seen), to, message, &mut out);
        self.keep_to_others(&mut out);
        match out.as_slice() {
            [] => self.deeds.withheld += 1,
            [same] if same.to == to && same.message == sent => {
                self.deeds.delayed += u64::from(same.delay > Duration::ZERO);
            }
            _ => self.deeds.bent += 1,
        }
        out
    }

    /// A message arrives.
    pub fn receives(&mut self, now: Time, own: Own<'_>, from: ReplicaId, message: &Peer) {
        self.seen.heard(&self.domain, own.scheme, from, message);
        let Self { adversary, me, domain, facts, seen, .. } = self;
        adversary.receives(&context(now, own, *me, domain, facts, seen), from, message);
    }

    /// The replica answers a client: what is answered instead.
    pub fn responds(&mut self, now: Time, own: Own<'_>, response: Response) -> Vec<Response> {
        let mut out = Vec::new();
        let answer = response.clone();
        let Self { adversary, me, domain, facts, seen, .. } = self;
        adversary.responds(&context(now, own, *me, domain, facts, seen), response, &mut out);
        self.deeds.answers += u64::from(out != [answer]);
        out
    }

    /// When [`tick`](Self::tick) is due; `None`: never.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.next_tick
    }

    /// What is sent unasked, if that is due. The next tick is counted from now: a driver that was
    /// late does not make up for it.
    pub fn tick(&mut self, now: Time, own: Own<'_>) -> Vec<Sent> {
        let mut out = Vec::new();
        if self.next_tick.is_none_or(|due| now < due) {
            return out;
        }
        let Self { adversary, me, domain, facts, seen, .. } = self;
        adversary.tick(&context(now, own, *me, domain, facts, seen), &mut out);
        self.next_tick = self.adversary.wants_tick().map(|span| now.after(span));
        self.keep_to_others(&mut out);
        self.deeds.unasked += out.len() as u64;
        out
    }

    /// There is no way to itself, nor to whom there is not.
    fn keep_to_others(&self, out: &mut Vec<Sent>) {
        out.retain(|sent| sent.to != self.me && self.domain.committee().contains(sent.to));
    }
}

fn context<'a>(
    now: Time,
    own: Own<'a>,
    me: ReplicaId,
    domain: &'a Domain,
    facts: &'static Facts,
    seen: &'a Seen,
) -> Context<'a> {
    Context { now, me, domain, facts, seen, signer: own.signer, scheme: own.scheme }
}
