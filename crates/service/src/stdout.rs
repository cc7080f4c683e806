//! Results on standard output.

use std::io::{self, Write as _};
use std::path::Path;

use crate::exit::{Exit, Failure};

/// Writes `text`. A reader that has gone away (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let what = format!("the result could not be written: {error}");
            let place = Path::new("standard output");
            Err(Failure::at(Exit::Failed, what, place, "redirect it elsewhere"))
        }
        _ => Ok(()),
    }
}
