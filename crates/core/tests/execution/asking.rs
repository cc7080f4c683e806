//! Whom a replica asks for the blocks that it lacks.

use quorate_core::base::membership::{Committee, ReplicaKey};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::protocol::Missing;
use quorate_core::replica::catch_up::CatchUp;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Duration, Epoch, Height, ReplicaId, Time};

use crate::fixtures::*;

const LIAR: ReplicaId = ReplicaId(1);
const HOLDER: ReplicaId = ReplicaId(2);

/// A liar was asked before, and goes on to send blocks of a chain of its own. A holder of the
/// wanted block is still asked for all of its chain, not only for what is above the liar's blocks.
#[test]
fn what_others_send_does_not_shorten_what_a_holder_is_asked_for() {
    let keys = (0..4).map(|id| ReplicaKey::from([id; 32])).collect();
    let committee = Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap();
    let mut catch_up = CatchUp::<Types, Journal>::new(0);
    let mut now = Time(0);
    let mut asks = |catch_up: &mut CatchUp<Types, Journal>, holder: ReplicaId, after: Duration| {
        now = now.after(after);
        let missing = Missing { block: Digest([holder.0 as u8; 32]), holders: vec![holder] };
        catch_up.want(Some(&missing), ReplicaId(0), &committee);
        match catch_up.due(now, Height(0))? {
            (to, PeerMessage::FetchChain { above, .. }) => Some((to, above)),
            _ => None,
        }
    };
    let (soon, late) = (Duration::from_millis(1), Duration::from_millis(200));
    assert_eq!(asks(&mut catch_up, LIAR, soon), Some((LIAR, Height(0))));
    assert_eq!(asks(&mut catch_up, HOLDER, late), Some((HOLDER, Height(0))));
    for height in 1..9 {
        catch_up.answered(LIAR, Some(Height(height)));
        assert_eq!(asks(&mut catch_up, HOLDER, soon), None);
    }
    catch_up.answered(HOLDER, Some(Height(3)));
    assert_eq!(asks(&mut catch_up, HOLDER, soon), Some((HOLDER, Height(3))));
}

/// Five replicas neither have the block nor answer, and each view lasts for the patience with two
/// of them. What the next view wants is asked of the others first, so that the holder's turn comes.
#[test]
fn who_was_asked_in_vain_is_asked_last_for_the_next_block() {
    let keys = (0..7).map(|id| ReplicaKey::from([id; 32])).collect();
    let committee = Committee::new(Digest([7; 32]), Epoch(0), keys).unwrap();
    let mut catch_up = CatchUp::<Types, Journal>::new(0);
    let mut now = Time(0);
    let mut asked = Vec::new();
    for view in 1..=3 {
        let missing = Missing { block: Digest([view; 32]), holders: Vec::new() };
        for _ in 0..700 {
            now = now.after(Duration::from_millis(1));
            catch_up.want(Some(&missing), ReplicaId(0), &committee);
            asked.extend(catch_up.due(now, Height(0)).map(|(to, _)| to.0));
        }
        catch_up.want(None, ReplicaId(0), &committee);
    }
    // The third one of a view still had time to answer.
    assert_eq!(asked, [1, 2, 3, 3, 4, 5, 5, 6, 1]);
    catch_up.gave(ReplicaId(4));
    let missing = Missing { block: Digest([4; 32]), holders: Vec::new() };
    catch_up.want(Some(&missing), ReplicaId(0), &committee);
    let (to, _) = catch_up.due(now, Height(0)).unwrap();
    assert_eq!(to, ReplicaId(4), "it gave something new since");
}
