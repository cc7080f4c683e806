//! Replicas that lost their data.

use super::Attack;

pub const ATTACKS: [(&str, Attack); 0] = [];
