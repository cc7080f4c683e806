//! What is seen of a demonstration: a screen on a terminal, a line a second elsewhere.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue, style};
use serde_json::Value;

use super::Arguments;
use super::show::Show;
use crate::failure::Failure;

/// What the person at the terminal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Kill the leader.
    Kill,
    /// Restart what is down.
    Restart,
    /// End.
    Quit,
}

/// Where the demonstration is shown. Dropping it gives the terminal back.
pub struct Screen {
    live: bool,
    head: String,
    drawn: u64,
}

impl Screen {
    /// Opens it; `live` takes the terminal.
    pub fn open(live: bool, arguments: &Arguments, redis_port: &str) -> Result<Self, Failure> {
        let head = format!(
            "quorate demo   {} replicas, {}, durability {}\n\n  redis-cli -p {redis_port}\n",
            arguments.replicas,
            arguments.choices.described(arguments.replicas),
            arguments.durability.name(),
        );
        if live {
            let refused =
                |error| Failure::io(error, Path::new("terminal"), "add --seconds 10 | cat");
            enable_raw_mode().map_err(refused)?;
            execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).map_err(refused)?;
        } else {
            eprint!("{head}");
        }
        Ok(Self { live, head, drawn: 0 })
    }

    /// The keys pressed since the last time; waits for the first for `patience`.
    pub fn keys(&self, patience: Duration) -> Vec<Key> {
        let mut keys = Vec::new();
        let mut patience = if self.live { patience } else { return keys };
        while poll(patience).unwrap_or(false) {
            patience = Duration::ZERO;
            // A terminal that has gone away sends a signal as well.
            let Ok(Event::Key(key)) = read() else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    keys.push(Key::Quit);
                }
                KeyCode::Char('k') => keys.push(Key::Kill),
                KeyCode::Char('r') => keys.push(Key::Restart),
                KeyCode::Char('q') | KeyCode::Esc => keys.push(Key::Quit),
                _ => {}
            }
        }
        keys
    }

    /// Shows how things are: whenever asked on a terminal, once a second elsewhere.
    pub fn draw(&mut self, show: &mut Show) {
        let news = show.figures().turn != self.drawn;
        self.drawn = show.figures().turn;
        if self.live {
            // A terminal that cannot be written to is no reason to end before the cluster stops.
            let _ = self.draw_live(show);
        } else if news {
            eprintln!("{}", line(show));
        }
    }

    fn draw_live(&self, show: &Show) -> io::Result<()> {
        let figures = show.figures();
        let interval = &figures.interval;
        let (up, size) = show.up();
        let mut text = self.head.clone();
        text.push_str(&format!(
            "\n  {:>9.0} commits/s     {:>9.0} commands/s\n  {:>9.1} ms p50        {:>9.1} ms p99\n\n",
            figures.blocks,
            interval.acknowledged as f64 / interval.seconds.max(f64::EPSILON),
            interval.p50_ms,
            interval.p99_ms,
        ));
        text.push_str(&format!(
            "  {up} of {size} replicas up     {} commands acknowledged     {:.0} s\n\n",
            figures.total,
            show.elapsed().as_secs_f64()
        ));
        for (id, status) in figures.statuses.iter().enumerate() {
            text.push_str(&replica(id, status.as_ref()));
        }
        text.push_str("\n  [k] kill -9 the leader   [r] restart it   [q] quit\n\n");
        for news in show.news() {
            text.push_str(&format!("  {news}\n"));
        }
        let mut out = io::stdout().lock();
        queue!(out, cursor::MoveTo(0, 0))?;
        for line in text.lines() {
            queue!(
                out,
                style::Print(line),
                Clear(ClearType::UntilNewLine),
                cursor::MoveToNextLine(1)
            )?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.live {
            // Nothing can be done about a terminal that does not want itself back.
            let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
            let _ = disable_raw_mode();
        }
    }
}

fn replica(id: usize, status: Option<&Value>) -> String {
    match status {
        None => format!("  replica {id}   down\n"),
        Some(status) => format!(
            "  replica {id}   view {:>8}   height {:>8}   {}{}\n",
            status["view"].as_u64().unwrap_or(0),
            status["executed_height"].as_u64().unwrap_or(0),
            status["not_ready"].as_str().unwrap_or("ready"),
            if status["leader"] == id { ", leads" } else { "" },
        ),
    }
}

/// The figures of a second, and the last news, in one line.
fn line(show: &Show) -> String {
    let figures = show.figures();
    let interval = &figures.interval;
    let newest = figures.statuses.iter().flatten().max_by_key(|status| status["view"].as_u64());
    let number = |name: &str| newest.and_then(|status| status[name].as_u64()).unwrap_or(0);
    let (up, size) = show.up();
    format!(
        "{:4.0} s  {:7.0} commands/s  {:5.0} commits/s  p50 {:6.1} ms  p99 {:6.1} ms  view {}  \
         leader {}  {up}/{size} up{}",
        show.elapsed().as_secs_f64(),
        interval.acknowledged as f64 / interval.seconds.max(f64::EPSILON),
        figures.blocks,
        interval.p50_ms,
        interval.p99_ms,
        number("view"),
        number("leader"),
        show.news().last().map(|news| format!("   [{}]", news.trim())).unwrap_or_default(),
    )
}
