use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::replica::inbox::inbox;
use crate::replica::spread::Spread;

/// However many threads share a batch, and whichever of them is done first, its results come in its
/// order.
#[test]
fn what_is_spread_comes_back_in_its_order() {
    let (_, outside, _queues) = inbox();
    for width in [1, 2, 3, 7] {
        let spread = Spread::start("spread", width, &outside).unwrap();
        for length in [0, 1, 5, 6, 31, 100] {
            let sizes = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&sizes);
            let doubled = spread.map((0..length).collect(), 5, move |part: Vec<u32>| {
                noted.lock().unwrap().push(part.len());
                // The first parts take longest.
                std::thread::yield_now();
                part.into_iter().map(|number| 2 * number).collect()
            });
            let expected: Vec<u32> = (0..length).map(|number| 2 * number).collect();
            assert_eq!(doubled, expected, "{length} over {width}");
            let parts = sizes.lock().unwrap().len();
            assert!(parts <= width, "{parts} parts over {width}");
            assert!(parts > 1 || width == 1 || length < 10, "{length} over {width} not divided");
        }
    }
}

/// The others do work: a part that waits for another one would wait for ever.
#[test]
fn parts_are_worked_on_side_by_side() {
    let (_, outside, _queues) = inbox();
    let spread = Spread::start("spread", 3, &outside).unwrap();
    let meeting = Arc::new(std::sync::Barrier::new(3));
    let threads = spread.map(vec![0, 1, 2], 1, move |part: Vec<u32>| {
        meeting.wait();
        vec![std::thread::current().id(); part.len()]
    });
    assert_eq!(threads.into_iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>().len(), 3);
}
