//! The rules of `deploy/prometheus`, evaluated as Prometheus does: on the series of a target's
//! page, and on `up`, which says whether the target gave one in time.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_node::http::ask;

const RULES: &str = include_str!("../../../../../deploy/prometheus/alerts.yml");
const SCRAPES: &str = include_str!("../../../../../deploy/prometheus/prometheus.yml");

/// A rule fires where a series has a value. All rules have this form.
struct Rule {
    alert: &'static str,
    series: &'static str,
    value: &'static str,
}

fn rules() -> Vec<Rule> {
    let of = |key: &'static str| {
        RULES.lines().filter_map(move |line| line.trim_start().strip_prefix(key))
    };
    let rules = of("- alert: ").zip(of("expr: "));
    let rules: Vec<Rule> = rules
        .map(|(alert, expression)| {
            let (series, value) = expression.split_once(" == ").expect("`SERIES == VALUE`");
            Rule { alert, series, value }
        })
        .collect();
    assert_eq!(rules.len(), of("- alert: ").count());
    assert_eq!(rules.len(), of("expr: ").count());
    rules
}

/// The setting of `prometheus.yml` by this name.
fn scrape_setting(name: &str) -> &'static str {
    let found = SCRAPES.lines().find_map(|line| {
        let line = line.trim_start().trim_start_matches("- ");
        line.strip_prefix(name)?.strip_prefix(": ")
    });
    found.expect("it is set")
}

/// The alerts that fire at a target. A target that has no address, or gives no page before it is
/// asked again, is not up.
pub fn firing(address: Option<&str>) -> BTreeSet<&'static str> {
    let seconds = scrape_setting("scrape_interval").trim_end_matches('s').parse().unwrap();
    let scrape = |address| ask(address, "/metrics", Duration::from_secs(seconds)).ok();
    let page = address.and_then(scrape).map(|page| page.body);
    let up = format!("up{{job=\"{}\"}} {}", scrape_setting("job_name"), u8::from(page.is_some()));
    let page = page.unwrap_or_default();
    let series: BTreeSet<&str> = page.lines().chain([up.as_str()]).collect();
    let fires = |rule: &Rule| series.contains(format!("{} {}", rule.series, rule.value).as_str());
    rules().into_iter().filter(fires).map(|rule| rule.alert).collect()
}

/// What the alert of a warning is called: `no-quorum` has `QuorateNoQuorum`.
pub fn alert(warning: &str) -> &'static str {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    let name = format!("Quorate{}", warning.split('-').map(word).collect::<String>());
    let named = rules().into_iter().find(|rule| rule.alert == name);
    named.unwrap_or_else(|| panic!("no rule is called {name}")).alert
}
