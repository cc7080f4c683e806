use crate::replica::inbox::{Answer, inbox};

#[test]
fn a_thread_that_panics_stops_the_replica() {
    let (_peers, outside, queues) = inbox();
    std::thread::spawn(outside.guard("first", || {})).join().unwrap();
    assert!(queues.answers.try_recv().is_err());
    assert!(std::thread::spawn(outside.guard("second", || panic!("on purpose"))).join().is_err());
    assert!(
        matches!(queues.answers.try_recv(), Ok(Answer::Panicked(why)) if why.contains("second"))
    );
}
