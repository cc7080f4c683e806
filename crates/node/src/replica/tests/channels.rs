use quorate_core::ReplicaId;

use crate::replica::channels::Channels;

/// A peer that was gone and came back between two looks has to be told where this replica stands.
#[test]
fn a_channel_in_the_place_of_another_has_opened() {
    const ONE: ReplicaId = ReplicaId(1);
    const TWO: ReplicaId = ReplicaId(2);
    let mut channels = Channels::default();
    assert_eq!(channels.look(0, || panic!("nothing has changed")), None);
    assert_eq!(channels.look(2, || vec![(ONE, 1), (TWO, 1)]), Some(vec![ONE, TWO]));
    assert_eq!(channels.look(2, || panic!("nothing has changed")), None);
    assert_eq!(channels.look(4, || vec![(ONE, 1), (TWO, 2)]), Some(vec![TWO]));
    assert_eq!(channels.look(5, || vec![(TWO, 2)]), Some(Vec::new()));
    assert_eq!(channels.count(), 1);
    assert_eq!(channels.look(6, || vec![(ONE, 2), (TWO, 2)]), Some(vec![ONE]));
}
