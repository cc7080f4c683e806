//! Coming back without memory.
//!
//! A replica r whose data folder was lost knows neither what it prepared nor which views it gave up
//! on. (*Practical Byzantine Fault Tolerance and Proactive Recovery*, section 4.3, has replicas
//! recover with their log, and makes what they said before worthless by new keys. Neither is so
//! here.) It asks all others which view they are in or wait for, waits for q of them, and then
//! *abstains*, durably: it follows what they order and signs checkpoints of what it executed, but
//! says no PREPARE, COMMIT, PRE-PREPARE, VIEW-CHANGE or NEW-VIEW, until it enters a view
//! [`BEYOND`] or more above the highest that any of them named. Meanwhile it counts toward f.
//!
//! # Why it said nothing of such a view
//! Let W be the highest view that q replicas gave up others for, r and liars among them, when r
//! lost its data; 1 if there is none. A correct replica gives up for at most W + 1: in a view that
//! began, so that q gave up others for it, for the next one (the timer, mercy); out of a view that
//! has not begun only if q gave up for that; after a new view that does not follow from its q view
//! changes, for the next one; and it joins f + 1 others, so a correct one. Of the q that gave up
//! for W and the q that answer, without r, n − 2f ≥ f + 1 are the same, and at most f − 1 of these
//! are faulty, for r counts toward f. A correct one of them wrote down a view of at least W before
//! it said so. So r said nothing of W + 2 or later, and what it says from there on contradicts
//! nothing.
//!
//! # Why what it forgot is not missed
//! Its sets P and Q are empty. A block that was committed in an earlier view was prepared by q, of
//! whom at least q − f are correct and remember it; any q view changes contain one of these. So the
//! view that r enters begins with every block committed before, as if r were faulty, and r
//! pre-prepares these anew. Once a stable checkpoint is not below the last of them, nothing that r
//! forgot can matter; until then r still counts toward f, and another replica must not lose its
//! data as well.
//!
//! # Why it does not wait for ever
//! A primary that works is never left by itself. So r says what it waits for with where it stands,
//! and the others leave a view that has lasted long for the next one, as they do for a replica that
//! gave up alone (mercy): two views later it speaks. The price is two view changes. A liar that
//! names a view which never comes keeps r abstaining, and the others ignore what r waits for then:
//! its data has to be removed and the others asked once more.

use super::words::{Memory, Testimony};
use crate::base::types::View;

/// How many views above the highest that is named a replica without memory speaks again.
pub const BEYOND: u64 = 2;

/// What a replica that lost its memory is to remember, by what a quorum says.
pub(super) fn recollect(testimonies: &[Testimony]) -> Option<Memory> {
    let highest = testimonies.iter().map(|testimony| testimony.view).max()?;
    let stables = testimonies.iter().filter_map(|testimony| testimony.stable.clone());
    let stable = stables.max_by_key(|stable| stable.checkpoint.height);
    let awaits = Some(highest.plus(BEYOND));
    Some(Memory { view: View(1), stable, awaits, ..Memory::default() })
}
