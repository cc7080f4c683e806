//! The bank's program: `bank start --home FOLDER` runs one replica.

use std::process::ExitCode;

use bank::Bank;
use quorate_service::Program;

fn main() -> ExitCode {
    Program::new("bank", env!("CARGO_PKG_VERSION")).agrees_on("opening_balance = 1000").main(
        |settings| {
            let opening = settings.agreed.integer("opening_balance");
            let opening = u64::try_from(opening)
                .map_err(|_| format!("`service.opening_balance` is {opening}, below 0"))?;
            Ok(move || Bank::new(opening))
        },
    )
}
