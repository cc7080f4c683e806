//! Who may have a session, as the [list of clients](Clients) and the administrators of the epoch
//! say, and the directives that change it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Sessions;
use super::session::Session;
use crate::base::crypto::PublicKey;
use crate::base::membership::{Committee, Rules};
use crate::base::wire::DecodeError;
use crate::ledger::approvals;
use crate::ledger::clients::{Clients, Grant};
use crate::ledger::directive::{Refusal, SignedDirective};
use crate::ledger::frame::Frame;
use crate::ledger::generation::Generations;
use crate::ledger::outcome::Rejection;

/// The rights of clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    clients: Arc<Clients>,
    /// The committee of the epoch; `None` where members are fixed.
    committee: Option<Committee>,
    /// The members that are to deal in the key generation under way, by their own keys.
    dealers: Arc<BTreeSet<PublicKey>>,
}

impl Rights {
    pub(super) fn new(clients: Arc<Clients>, committee: Option<Committee>) -> Self {
        Self { clients, committee, dealers: Arc::default() }
    }

    /// The rules of the epoch.
    pub(super) fn rules(&self) -> Rules {
        self.committee.as_ref().map(Committee::rules).unwrap_or_default()
    }

    pub(super) fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// What a key is granted, if it is listed.
    pub(super) fn grant(&self, key: &PublicKey) -> Option<Arc<Grant>> {
        self.clients.grant(key).cloned()
    }

    /// Whether a key may have a session. Administrators always may: or nobody could change a list
    /// that does not name them. So may the members that are to deal, or no list could be had beside
    /// a threshold key.
    pub(super) fn may_open(&self, key: &PublicKey) -> Result<(), Rejection> {
        let is_administrator =
            |committee: &Committee| committee.governance().administrators.contains(key);
        let deals = planted!("dealers-need-a-grant", false, self.dealers.contains(key));
        match self.clients.admits(key) {
            Err(_) if deals || self.committee.as_ref().is_some_and(is_administrator) => Ok(()),
            admitted => admitted,
        }
    }

    /// Whether the commands of a frame may execute, whose key has a session. Administrators and
    /// members that are not listed may send what administrators sign and steps of key generations,
    /// and no more.
    pub(super) fn may_execute(&self, frame: &Frame) -> Result<(), Rejection> {
        match self.clients.admits(frame.key_in_place()) {
            Err(_) if frame.is_administrative(self.rules()) => Ok(()),
            admitted => admitted,
        }
    }

    /// Carries out the directive that `frame` is, if it is one. Returns the reply, and whether the
    /// list has changed.
    pub(super) fn carry_out(&mut self, frame: &Frame) -> Option<(Vec<u8>, bool)> {
        let judged = self.judge(frame.directive(self.rules())?);
        let said = judged.as_ref().map(|clients| clients.next_serial() - 1);
        let reply = approvals::reply(said);
        let is_carried_out = judged.is_ok();
        if let Ok(clients) = judged {
            self.clients = Arc::new(clients);
        }
        Some((reply, is_carried_out))
    }

    fn judge(&self, directive: Result<SignedDirective, DecodeError>) -> Result<Clients, Refusal> {
        let current = self.committee.as_ref().ok_or(Refusal::NotGoverned)?;
        directive.map_err(Refusal::Unreadable)?.judge(current, &self.clients)
    }
}

impl Sessions {
    /// The members that are to deal in the key generation under way may have sessions.
    pub(in crate::ledger) fn admit_dealers(&mut self, generations: &Generations) {
        let dealers = generations.current().map(|current| &current.plan().dealers);
        let dealers: BTreeSet<_> = dealers.into_iter().flatten().map(|dealer| dealer.key).collect();
        if *self.rights.dealers != dealers {
            self.rights.dealers = Arc::new(dealers);
        }
    }

    /// The own keys of those members. The same list until it changes.
    #[must_use]
    pub fn dealers(&self) -> &Arc<BTreeSet<PublicKey>> {
        &self.rights.dealers
    }

    /// Lets go of waiting frames that rest on signatures from these rules on, and did not in the
    /// former epoch: nobody has verified them (see [`directive`](crate::ledger::directive)). Their
    /// clients may send them again. The frames behind them go on waiting for their numbers.
    pub(super) fn drop_unverified(&mut self, former: Rules) {
        let now = self.rights.rules();
        let is_unverified = |frame: &Frame| frame.is_unverified_until(former, now);
        let waits_in = |session: &Session| {
            session.waiting.frames().iter().any(|frame| is_unverified(frame)).then_some(session.id)
        };
        let with: Vec<_> = self.live.iter().filter_map(|(_, session)| waits_in(session)).collect();
        for id in planted!("unverified-directive-waits-on", Vec::new(), with) {
            if let Some(session) = self.live.get_mut(&Session::place(id)) {
                session.waiting.drop_where(is_unverified);
            }
        }
    }
}
