//! The whole terminal, taken and given back.

use std::io;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::style::ResetColor;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};

/// The terminal, until it is dropped.
pub struct Screen(());

impl Screen {
    /// Takes it.
    pub fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self(());
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that does not want itself back.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show, ResetColor);
        let _ = disable_raw_mode();
    }
}

/// Whether the person pressed a key that ends it, within `patience`.
pub fn ended(patience: Duration) -> bool {
    if !poll(patience).unwrap_or(true) {
        return false;
    }
    match read() {
        Ok(Event::Key(key)) => {
            let interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
            key.kind == KeyEventKind::Press
                && (interrupt || matches!(key.code, KeyCode::Char('q' | ' ') | KeyCode::Esc))
        }
        Ok(_) => false,
        Err(_) => true,
    }
}
