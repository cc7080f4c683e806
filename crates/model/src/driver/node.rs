//! A correct replica: the production driver, and what the world around it does at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};

use quorate_core::base::crypto::{Claim, Scheme, Signature, Signer, Statement, Verified};
use quorate_core::base::types::{Digest, Height, ReplicaId, Time, View};
use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::frame::FrameId;
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::certificate::{Qc, TimeOut};
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{Decision, Input, Ledger, Output, Protocol, Recovered};
use quorate_sim::keys::{Key, Mock};

/// The fourth replica.
pub const LIAR: ReplicaId = ReplicaId(3);

/// The blocks there are, wherever they are kept.
pub type Blocks = BTreeMap<BlockId, SharedBlock>;

/// A ledger with work to do, whose state never changes.
struct Work;

impl Ledger for Work {
    fn has_pending(&self) -> bool {
        true
    }

    fn payload(&mut self, _: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId> {
        vec![Digest::default()]
    }

    fn executed(&self) -> Height {
        Height(0)
    }

    fn state_root(&self, _: Height) -> Option<Digest> {
        Some(Digest::default())
    }
}

/// A vote as it was signed: view, phase and block.
pub type Signed = (View, u8, BlockId);

/// A correct replica.
#[derive(Clone, Debug)]
pub struct Node {
    me: ReplicaId,
    protocol: HotStuff,
    /// The last vote it signed.
    pub voted: Option<(Signed, Signature)>,
    /// Its last time-out.
    pub gave_up: Option<(TimeOut, Qc)>,
    /// What it committed, oldest first.
    pub committed: Vec<BlockId>,
    /// It signed two votes for one view and phase, a lower one after a higher one, or one for a
    /// view that it had given up.
    pub broke_a_vow: bool,
}

impl Node {
    /// A replica that never ran.
    pub fn new(me: ReplicaId, protocol: HotStuff) -> Self {
        let mut node = Self {
            me,
            protocol,
            voted: None,
            gave_up: None,
            committed: Vec::new(),
            broke_a_vow: false,
        };
        let root = crate::values::genesis();
        let recovered = Recovered {
            memory: None,
            root,
            root_committed: Height(0),
            recent: Vec::new(),
            blocks: Vec::new(),
        };
        node.feed(Time(0), Input::Start(Box::new(recovered)));
        node
    }

    /// The view it is in.
    pub fn view(&self) -> View {
        self.protocol.status().view
    }

    /// Its highest certificate.
    pub fn high_qc(&self) -> &Qc {
        self.protocol.high_qc()
    }

    /// The liar says something, and whatever blocks are missing then are fetched. Nothing happens
    /// if it is refused.
    pub fn hear(&mut self, now: Time, message: Message, blocks: &Blocks) {
        let Ok(claim) = self.protocol.claim(LIAR, message) else { return };
        let Some(message) = checked(claim) else { return };
        self.feed(now, Input::Message { from: LIAR, message });
        // A block of another chain than what it committed does not fit, and is fetched in vain.
        let mut fetched = None;
        while let Some(block) = self.missing(blocks).filter(|block| fetched != Some(block.id())) {
            fetched = Some(block.id());
            let Some(block) = self.protocol.claim_block(block).ok().and_then(checked) else {
                return;
            };
            self.feed(now, Input::Fetched { from: LIAR, block });
        }
    }

    /// The lowest block that it lacks of the chain it asks for.
    fn missing(&self, blocks: &Blocks) -> Option<SharedBlock> {
        let of = self.protocol.missing()?.block;
        let chain = std::iter::successors(blocks.get(&of), |block| blocks.get(&block.parent()));
        chain.take_while(|block| self.protocol.tree().find(&block.id()).is_none()).last().cloned()
    }

    /// Its timer runs out.
    pub fn time_out(&mut self, now: Time) {
        self.feed(now, Input::Timeout);
    }

    fn feed(&mut self, now: Time, input: Input<Types>) {
        let fx = self.protocol.step(now, input, &mut Work);
        let Ok(outputs) = fx.persist(|_| Ok::<(), Infallible>(()));
        for output in outputs {
            match output {
                Output::Sign(statement) => {
                    let signature = Key::of_replica(self.me.index()).sign(&statement);
                    self.signs(&statement, signature);
                    self.feed(now, Input::Signed { statement, signature });
                }
                Output::Verify { ask, checks } => {
                    let verdicts = Mock.verify(&checks);
                    self.feed(now, Input::Checked { ask, verdicts });
                }
                Output::Combine { ask, form, shares } => {
                    let signature = Mock.combine(form, &shares);
                    self.feed(now, Input::Combined { ask, signature });
                }
                Output::Commit(decisions) => {
                    let blocks = decisions.iter().filter_map(Decision::block);
                    self.committed.extend(blocks.map(|block| block.id()));
                }
                Output::Broadcast(Message::TimeOut { time_out, high_qc, .. }) => {
                    self.gave_up = Some((time_out, high_qc));
                }
                Output::Send { .. }
                | Output::Broadcast(_)
                | Output::PassOn { .. }
                | Output::Prepared { .. }
                | Output::RollBack
                | Output::Event(_) => {}
            }
        }
    }

    /// Kinds and offsets as `crypto::Statement` documents its bytes.
    fn signs(&mut self, statement: &Statement, signature: Signature) {
        const VOTE: u8 = 1;
        let bytes = statement.as_bytes();
        let (Ok(view), Ok(block)) = (bytes[58..66].try_into(), bytes[67..].try_into()) else {
            return;
        };
        if bytes[57] != VOTE {
            return;
        }
        let (view, phase, block) = (View(u64::from_le_bytes(view)), bytes[66], Digest(block));
        let again = self.voted.is_some_and(|(last, _)| last == (view, phase, block));
        let higher = self.voted.is_none_or(|((v, p, _), _)| (v, p) < (view, phase));
        let given_up = self.gave_up.as_ref().is_some_and(|(time_out, _)| time_out.view >= view);
        self.broke_a_vow |= !again && (given_up || !higher);
        self.voted = Some(((view, phase, block), signature));
    }

    /// What tells two replicas apart, in 64 bits.
    pub fn fingerprint(&self) -> u64 {
        struct Into(DefaultHasher);
        impl fmt::Write for Into {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut into = Into(DefaultHasher::new());
        // Hashing does not fail.
        let _ = write!(into, "{self:?}");
        into.0.finish()
    }
}

fn checked<T>(claim: Claim<T>) -> Option<Verified<T>> {
    let verdicts = Mock.verify(claim.checks());
    claim.settle(&verdicts)
}
