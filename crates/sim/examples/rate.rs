use quorate_sim::twins::*;
use quorate_sim::twins::space::Kind;
fn main() {
    let views: usize = std::env::args().nth(1).map_or(7, |v| v.parse().unwrap());
    let sample: u128 = std::env::args().nth(2).map_or(4000, |v| v.parse().unwrap());
    let name = std::env::args().nth(3).unwrap_or("all".into());
    let shape = Shape::new(4, 1).unwrap();
    let space = Space::new(Kind { shape, partitions: 2, views, by_phase: false, one_way: false }).unwrap();
    println!("{} letters, {} perms, {:?} / {}", space.letters(), space.permutations(), space.unpruned(), space.count());
    for variant in Variant::named(&name) {
        let plan = Plan::new(variant, Signatures::mixed(4));
        let numbers = Numbers::sample(space.count(), sample, 1);
        let at = std::time::Instant::now();
        let (mut c, mut f, mut e, mut n, mut worst, mut msgs, mut bad) = (0,0,0,0,0,0u64,0);
        for k in 0..numbers.len() {
            let s = space.scenario(numbers.get(k).unwrap()).unwrap();
            let o = run(&plan, &s);
            c += o.committed as u64; f += o.forked as u64; e += o.equivocated as u64; n += o.noticed as u64;
            worst = worst.max(o.suffix_views); msgs += o.delivered;
            if let Some(v) = &o.violation { bad += 1; if bad < 3 { println!("{v}\n{s}"); } }
        }
        let t = at.elapsed().as_secs_f64();
        println!("{:32} {:>8.0}/s committed {c} forked {f} equiv {e} noticed {n} worst {worst} msgs {} bad {bad}", plan.variant.name, numbers.len() as f64 / t, msgs / numbers.len() as u64);
    }
}
