//! One scenario, told in full.

use quorate_sim::twins::{Plan, Scenario, report};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Format, print, print_json};

/// Tells of a scenario: the script, what happened, the block tree, what came of it. Whether it
/// fails.
pub fn tell(
    plan: &Plan,
    scenario: &Scenario,
    brief: bool,
    format: Format,
) -> Result<bool, Failure> {
    let report::Told { outcome, trace, picture } = report::tell(plan, scenario);
    let failed = outcome.violation.is_some();
    let words = outcome.violation.as_ref().map(ToString::to_string);
    match format {
        Format::Json => print_json(&json!({
            "protocol": plan.variant.name,
            "violation": words,
            "committed": outcome.committed,
            "forked": outcome.forked,
            "equivocated": outcome.equivocated,
            "noticed": outcome.noticed,
            "suffix_views": outcome.suffix_views,
            "trace": if brief { Vec::new() } else { trace },
            "picture": picture.lines().collect::<Vec<_>>(),
        }))?,
        Format::Table => {
            let mut text =
                format!("{}, script from view {}:\n", plan.variant.name, plan.prefix + 1);
            text.push_str(&scenario.to_string());
            if !brief {
                text.push_str("\nwhat happened (→ arrives, ✗ does not; milliseconds):\n");
                for line in &trace {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            text.push_str("\nblocks (● certified, ○ not):\n");
            text.push_str(&picture);
            let yes = |did: bool, what: &'static str| if did { what } else { "" };
            let facts = [
                yes(outcome.committed, "committed in the script"),
                yes(outcome.forked, "forked"),
                yes(outcome.equivocated, "equivocated"),
                yes(outcome.noticed, "noticed"),
            ];
            let facts: Vec<&str> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
            text.push_str(&format!(
                "\n{}; {} views behind the script, {} messages\n",
                facts.join(", "),
                outcome.suffix_views,
                outcome.delivered
            ));
            text.push_str(&words.map_or("no violation\n\n".to_owned(), |words| words + "\n\n"));
            print(&text)?;
        }
    }
    Ok(failed)
}
