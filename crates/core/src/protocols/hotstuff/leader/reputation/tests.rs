//! The draw, over all its numbers.

use super::*;

#[test]
fn each_replica_is_chosen_in_proportion_to_its_weight_exactly() {
    for weights in [vec![7], vec![1, 1, 1], vec![10, 1, 10, 4], vec![1, 5, 0, 12, 3]] {
        let (count, sum) = (weights.len() as u64, weights.iter().sum::<u64>());
        let highest = *weights.iter().max().expect("some");
        let mut times = vec![0; weights.len()];
        for first_choice in 0..count as u16 {
            for (second, third) in (0..highest).flat_map(|s| (0..sum).map(move |t| (s, t))) {
                let drawn = chosen((&weights, second), (&weights, third), ReplicaId(first_choice));
                times[drawn.index()] += 1;
            }
        }
        // Of count · highest · sum draws, weight / sum.
        let expected: Vec<u64> = weights.iter().map(|weight| count * highest * weight).collect();
        assert_eq!(times, expected);
    }
}

#[test]
fn a_first_choice_of_the_highest_weight_is_always_chosen() {
    let weights = [1, 1000, 10, 1000];
    for (second, third) in (0..1000).flat_map(|s| (0..2011).step_by(97).map(move |t| (s, t))) {
        let drawn = chosen((&weights, second), (&weights, third), ReplicaId(3));
        assert_eq!(drawn, ReplicaId(3));
    }
}
