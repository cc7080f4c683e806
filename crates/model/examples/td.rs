use quorate_model::rounds::Scheduler;
use quorate_model::two_delay::{Rule, TwoDelay, explore};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let scheduler = if a[2] == "full" { Scheduler::Full } else { Scheduler::Sparing };
    let model = TwoDelay {
        replicas: a[3].parse().unwrap(),
        views: a[1].parse().unwrap(),
        blocks: a[4].parse().unwrap(),
        scheduler,
        rule: Rule::Right,
    };
    let run = explore(model, 2);
    println!("{run}");
    println!("{:?}", run.violation);
}
