//! `quorate top`

mod picture;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use crossterm::style::{Color, Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{cursor, queue};
use serde_json::json;

use self::picture::{Line, Mood, Picture, Reading};
use super::status;
use crate::failure::Failure;
use crate::output::{Format, print, print_json_line};
use crate::terminal::{Screen, ended};

/// Watch a cluster: commands a second, latency, each replica's state, and what is wrong; `q` ends
/// it.
///
/// It asks what `quorate status` asks, again and again. Without a terminal, or with --frames, the
/// readings are printed one below the other.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    pub status: status::Arguments,
    /// Milliseconds from reading to reading.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub every: u64,
    /// Print so many readings as text, and end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub frames: Option<u32>,
}

/// Runs `top`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let targets = arguments.status.targets()?;
    let live = arguments.frames.is_none() && format == Format::Table && io::stdout().is_terminal();
    let every = Duration::from_millis(arguments.every);
    if live {
        return watch(&targets, every);
    }
    let mut before = read(&targets);
    for _ in 0..arguments.frames.unwrap_or(u32::MAX) {
        std::thread::sleep(every);
        let now = read(&targets);
        let picture = Picture::of(&before, &now);
        match format {
            Format::Table => print(&format!("{}\n", picture.text()))?,
            Format::Json => print_json_line(&json!(picture.to_json()))?,
        }
        before = now;
    }
    Ok(())
}

/// Asks all replicas at once: one that does not answer holds the others up no longer than its
/// patience.
fn read(targets: &[status::Target]) -> Vec<Reading> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = targets
            .iter()
            .map(|target| {
                scope.spawn(|| Reading {
                    name: target.name.clone(),
                    at: Instant::now(),
                    answer: status::ask(target),
                })
            })
            .collect();
        let lost = || Err("the thread that asks it panicked".to_owned());
        let answers = asked.into_iter().zip(targets).map(|(thread, target)| {
            let name = target.name.clone();
            thread.join().unwrap_or_else(|_| Reading { name, at: Instant::now(), answer: lost() })
        });
        answers.collect()
    })
}

fn watch(targets: &[status::Target], every: Duration) -> Result<(), Failure> {
    let refused = |error| Failure::io(error, Path::new("terminal"), "add --frames 10");
    let mut before = read(targets);
    let screen = Screen::open().map_err(refused)?;
    loop {
        let is_over = ended(every);
        let now = read(targets);
        let picture = Picture::of(&before, &now);
        if is_over {
            drop(screen);
            return print(&picture.text());
        }
        draw(&picture.lines()).map_err(refused)?;
        before = now;
    }
}

fn draw(lines: &[Line]) -> io::Result<()> {
    let (columns, rows) = terminal::size().unwrap_or((120, 40));
    let mut out = io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0), ResetColor)?;
    for line in lines.iter().take(usize::from(rows.saturating_sub(1))) {
        let colour = match line.mood {
            Mood::Plain => None,
            Mood::Faint => Some(Color::DarkGrey),
            Mood::Good => Some(Color::Green),
            Mood::Warning => Some(Color::Yellow),
            Mood::Critical => Some(Color::Red),
        };
        if let Some(colour) = colour {
            queue!(out, SetForegroundColor(colour))?;
        }
        let text: String = line.text.chars().take(columns.into()).collect();
        queue!(
            out,
            Print(text),
            ResetColor,
            Clear(ClearType::UntilNewLine),
            cursor::MoveToNextLine(1)
        )?;
    }
    queue!(out, Clear(ClearType::FromCursorDown))?;
    out.flush()
}
