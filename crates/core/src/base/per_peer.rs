//! A value for each replica of a committee.

use std::slice;

use crate::base::types::ReplicaId;

/// A value for each replica, looked up by its id. An id outside the committee has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerPeer<T>(Vec<T>);

impl<T: Default> PerPeer<T> {
    /// First values for so many replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        let mut all = Self(Vec::new());
        all.grow(replicas);
        all
    }

    /// Has values for so many replicas; those there are stay.
    pub fn grow(&mut self, replicas: usize) {
        if replicas > self.0.len() {
            self.0.resize_with(replicas, T::default);
        }
    }
}

impl<T> PerPeer<T> {
    /// How many replicas there are.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.0.len()
    }

    /// The value of a replica.
    #[must_use]
    pub fn get(&self, replica: ReplicaId) -> Option<&T> {
        self.0.get(replica.index())
    }

    /// The value of a replica.
    #[must_use]
    pub fn get_mut(&mut self, replica: ReplicaId) -> Option<&mut T> {
        self.0.get_mut(replica.index())
    }

    /// All values, in the order of the ids.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }

    /// All values, in the order of the ids.
    pub fn iter_mut(&mut self) -> slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// Each replica with its value, in the order of the ids.
    pub fn of_each(&self) -> impl Iterator<Item = (ReplicaId, &T)> + Clone {
        self.0.iter().enumerate().map(|(at, value)| (ReplicaId(at as u16), value))
    }

    /// Each replica with its value, in the order of the ids.
    pub fn of_each_mut(&mut self) -> impl Iterator<Item = (ReplicaId, &mut T)> {
        self.0.iter_mut().enumerate().map(|(at, value)| (ReplicaId(at as u16), value))
    }
}

impl<'a, T> IntoIterator for &'a PerPeer<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut PerPeer<T> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_has_a_value_and_nobody_else() {
        let mut heard: PerPeer<u64> = PerPeer::new(4);
        for id in [0, 3, 4, u16::MAX] {
            if let Some(place) = heard.get_mut(ReplicaId(id)) {
                *place += 7;
            }
        }
        assert_eq!(heard.iter().copied().collect::<Vec<_>>(), [7, 0, 0, 7]);
        assert_eq!((heard.get(ReplicaId(3)), heard.get(ReplicaId(4))), (Some(&7), None));
        assert_eq!(heard.of_each().last(), Some((ReplicaId(3), &7)));
    }

    #[test]
    fn what_is_there_stays_when_a_committee_grows() {
        let mut heard: PerPeer<u64> = PerPeer::new(1);
        heard.iter_mut().for_each(|value| *value = 9);
        heard.grow(3);
        heard.grow(2);
        assert_eq!(heard.iter().copied().collect::<Vec<_>>(), [9, 0, 0]);
        assert_eq!(heard.replicas(), 3);
    }
}
