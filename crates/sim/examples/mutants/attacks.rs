use quorate_sim::Cluster;
pub const COUNT: u64 = 0;
pub fn name(_: u64) -> &'static str {
    ""
}
pub fn run(_: u64, _: &mut Option<Cluster>) {}
