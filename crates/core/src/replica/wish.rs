//! The root that somebody waits for.

use crate::base::types::{Duration, Height, Time};

/// How long a wish counts.
const WISHED_FOR: Duration = Duration::from_secs(5);

/// Up to which height roots are wanted, and until when that counts.
#[derive(Debug, Default)]
pub(super) struct Wish {
    height: Option<Height>,
    until: Time,
}

impl Wish {
    /// Up to which height roots are wanted.
    pub fn height(&self, now: Time) -> Option<Height> {
        self.height.filter(|_| now < self.until)
    }

    /// Roots are wanted up to `height`, or higher where that was said before.
    pub fn raise(&mut self, now: Time, height: Height) {
        self.height = self.height(now).max(Some(height));
        self.until = now.after(WISHED_FOR);
    }

    /// Whether as much was wanted a short time ago. After that it is said again, to those who may
    /// have missed it.
    pub fn was_raised_lately(&self, now: Time, height: Height) -> bool {
        self.height(now) >= Some(height) && self.until > now.after(WISHED_FOR / 2)
    }
}
