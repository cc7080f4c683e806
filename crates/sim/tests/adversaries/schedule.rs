//! Adversaries act in their windows, and not outside of them.

use quorate_adversary::Schedule;
use quorate_sim::{Cluster, Config};

use crate::matrix::must_answer;

#[test]
fn a_replica_is_honest_outside_of_its_window() {
    let schedule: Schedule = "silent-leader@2s..4s,double-voter@10s..".parse().expect("a schedule");
    let mut cluster = Cluster::new(Config::default());
    cluster.make_liar(1, schedule.build(1).expect("adversaries of HotStuff"));
    let mut run_to = |micros: u64| {
        while cluster.now.0 < micros * 1_000 {
            must_answer(&mut cluster, 1, "in its window and outside");
            cluster.run_for(10_000);
        }
        (cluster.deeds(1).withheld, cluster.deeds(1).bent)
    };
    assert_eq!(run_to(1_900_000), (0, 0));
    let (withheld, bent) = run_to(4_000_000);
    assert!(withheld > 0 && bent == 0, "{withheld} {bent}");
    assert_eq!(run_to(9_900_000), (withheld, 0));
    let (after, bent) = run_to(12_000_000);
    assert!(after == withheld && bent > 0, "{after} {bent}");
}

#[test]
fn the_same_seed_lies_alike() {
    let run = || {
        let everything = "small-scope,replayer,forged-certificates@100ms..2s,equivocating-leader";
        let schedule: Schedule = everything.parse().expect("a schedule");
        let mut cluster = Cluster::new(Config::default());
        cluster.make_liar(1, schedule.build(9).expect("adversaries of HotStuff"));
        must_answer(&mut cluster, 20, everything);
        (cluster.hash, cluster.steps, cluster.deeds(1))
    };
    assert_eq!(run(), run());
}
