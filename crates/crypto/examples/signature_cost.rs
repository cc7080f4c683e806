//! Measures the cost of a signature on this machine:
//! `cargo run --release -p quorate-crypto --example signature_cost`. It prints microseconds for
//! each signature, the best of many rounds.

use std::hint::black_box;
use std::time::Instant;

use quorate_core::base::crypto::{Check, ClientSigner, Scheme, Share, Signer, Statement};
use quorate_core::base::types::{Digest, ReplicaId};
use quorate_crypto::{Ed25519, SecretKey};

fn best_us(mut work: impl FnMut()) -> f64 {
    let rounds = (0..200).map(|_| {
        let start = Instant::now();
        for _ in 0..10 {
            work();
        }
        start.elapsed().as_secs_f64() * 1e5
    });
    rounds.fold(f64::INFINITY, f64::min)
}

fn main() {
    let keys: Vec<_> = (0..64u8).map(|number| SecretKey::from_seed(&[number; 32])).collect();
    let public: Vec<_> = keys.iter().map(ClientSigner::public_key).collect();
    let statement =
        |number: u8| Statement::frame(&Digest([1; 32]), &Digest::of("bench", &[number]));
    let shares: Vec<_> = (0..64)
        .map(|at| {
            let (signer, statement) = (ReplicaId(at), statement(at as u8));
            let signature = keys[signer.index()].sign(&statement);
            Check::Replica(Share { signer, statement, signature })
        })
        .collect();
    let checks = |signer: &dyn Fn(usize) -> usize| -> Vec<Check> {
        (0..64)
            .map(|at| {
                let (key, statement) = (&keys[signer(at)], statement(at as u8));
                Check::Client { key: key.public_key(), statement, signature: key.sign(&statement) }
            })
            .collect()
    };
    println!(
        "sign {:.1}",
        best_us(|| {
            black_box(keys[0].sign(&statement(0)));
        })
    );
    println!("{:>5} {:>10} {:>12} {:>9}", "batch", "committee", "known keys", "one key");
    let (many, one) = (checks(&|at| at), checks(&|_| 0));
    for size in [1, 2, 3, 4, 7, 16, 32, 64] {
        let committee = Ed25519::new(&public[..size]);
        let stranger = Ed25519::default();
        let cost = |scheme: &Ed25519, checks: &[Check]| {
            assert!(scheme.verify(checks).into_iter().all(|verdict| verdict));
            best_us(|| drop(black_box(scheme.verify(checks)))) / checks.len() as f64
        };
        println!(
            "{size:>5} {:>10.1} {:>12.1} {:>9.1}",
            cost(&committee, &shares[..size]),
            cost(&stranger, &many[..size]),
            cost(&stranger, &one[..size]),
        );
    }
}
