//! The rooms of the engine: what it keeps, by what it keeps it for.
//!
//! Each room has few fields and says what they mean together. The chapters of the engine decide; a
//! room remembers. None knows the engine, and none sends anything.

mod collecting;
mod decisions;
mod elections;
mod new_views;
mod proposals;
mod said;

pub(super) use collecting::{Ask, Collecting, Trust};
pub(super) use decisions::Decisions;
pub(super) use elections::Elections;
pub(super) use new_views::{NewViews, Untold};
pub(super) use proposals::Proposals;
pub(super) use said::Said;
