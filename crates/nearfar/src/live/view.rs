//! What the screen shows and what keys do: a value, drawn by `draw`, without a terminal of its own.

mod draw;

use nearfar_observed::live::{Cell, Frame, Tab, Table};
use nearfar_report::live::{matches, sorted};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Values that a sparkline remembers.
const REMEMBERED: usize = 240;

/// What a key asks of the loop around the view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// Draw again.
    Draw,
    /// Read at once: another process was chosen.
    Read,
    /// End.
    Quit,
    /// Stop as Ctrl-Z does.
    Stop,
    /// Go so many frames on in a recording, or back.
    Step(i64),
    /// Begin or end to pause.
    Pause,
    /// Multiply the interval.
    Interval(f64),
}

/// What lies over the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Popup {
    None,
    Help,
    Why,
}

/// The screen's state.
pub struct View {
    /// What is watched, for the first line.
    pub title: String,
    /// Whether frames come from a recording.
    pub recorded: bool,
    /// Whether time stands still.
    pub paused: bool,
    /// The process whose threads and objects are wanted.
    pub focus: Option<u32>,
    tab: Tab,
    frame: Frame,
    sort: BTreeMap<Tab, (String, bool)>,
    selected: BTreeMap<Tab, u64>,
    first_column: BTreeMap<Tab, usize>,
    filter: String,
    editing: bool,
    popup: Popup,
    scrolled: u16,
    past: HashMap<(Tab, u64, usize), VecDeque<Option<f64>>>,
}

impl View {
    /// A view that shows nothing yet.
    pub fn new(title: String, recorded: bool) -> View {
        View {
            title,
            recorded,
            paused: false,
            focus: None,
            tab: Tab::Machine,
            frame: Frame::default(),
            sort: BTreeMap::new(),
            selected: BTreeMap::new(),
            first_column: BTreeMap::new(),
            filter: String::new(),
            editing: false,
            popup: Popup::None,
            scrolled: 0,
            past: HashMap::new(),
        }
    }

    /// Whether the objects of a process are looked at: they cost more than the rest.
    pub fn wants_objects(&self) -> bool {
        self.tab == Tab::Objects
    }

    /// Takes a new frame, and remembers its numbers for the sparklines.
    pub fn show(&mut self, frame: Frame) {
        self.remember(&frame);
        self.frame = frame;
    }

    /// Remembers a frame's numbers without showing it: what was before in a recording.
    pub fn remember(&mut self, frame: &Frame) {
        let mut seen: HashMap<(Tab, u64, usize), Option<f64>> = HashMap::new();
        for (tab, table) in frame.tables() {
            for row in &table.rows {
                let columns =
                    if tab == Tab::Machine { 0..table.columns.len() } else { table.main..table.main + 1 };
                for at in columns {
                    seen.insert((tab, row.id, at), row.cells.get(at).and_then(Cell::number));
                }
            }
        }
        // What ended is forgotten.
        self.past.retain(|key, _| seen.contains_key(key));
        for (key, value) in seen {
            let past = self.past.entry(key).or_default();
            if past.len() == REMEMBERED {
                past.pop_front();
            }
            past.push_back(value);
        }
    }

    /// Forgets what was before.
    pub fn forget(&mut self) {
        self.past.clear();
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> Act {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Act::Quit,
            KeyCode::Char('z') if control => return Act::Stop,
            _ => {}
        }
        if self.editing {
            match key.code {
                KeyCode::Enter => self.editing = false,
                KeyCode::Esc => {
                    self.editing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(c) if !control => self.filter.push(c),
                _ => {}
            }
            return Act::Draw;
        }
        if self.popup != Popup::None {
            match key.code {
                KeyCode::Down => self.scrolled = self.scrolled.saturating_add(1),
                KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
                KeyCode::PageDown => self.scrolled = self.scrolled.saturating_add(10),
                KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(10),
                _ => self.popup = Popup::None,
            }
            return Act::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return Act::Quit,
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc if self.focus.is_some() => self.focus = None,
            KeyCode::Esc => return Act::Quit,
            KeyCode::Char(c @ '1'..='6') => self.tab = Tab::ALL[c as usize - '1' as usize],
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(Tab::ALL.len() - 1),
            KeyCode::Char('?' | 'h') => self.open(Popup::Help),
            KeyCode::Char('w') => self.open(Popup::Why),
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char('p' | ' ') => return Act::Pause,
            KeyCode::Char('+') => return Act::Interval(2.0),
            KeyCode::Char('-') => return Act::Interval(0.5),
            KeyCode::Char(']' | '.') => return Act::Step(1),
            KeyCode::Char('[' | ',') => return Act::Step(-1),
            KeyCode::Char('s') | KeyCode::Right => self.sort_by_next(1),
            KeyCode::Char('S') | KeyCode::Left => self.sort_by_next(-1),
            KeyCode::Char('r') => self.turn_round(),
            KeyCode::Char('>') => self.shift_columns(1),
            KeyCode::Char('<') => self.shift_columns(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(20),
            KeyCode::PageUp => self.select(-20),
            KeyCode::Home => self.select(isize::MIN / 2),
            KeyCode::End => self.select(isize::MAX / 2),
            KeyCode::Enter => return self.choose(),
            _ => {}
        }
        // Objects are looked at once they are shown.
        if self.tab == Tab::Objects && self.frame.table(Tab::Objects).is_none() {
            Act::Read
        } else {
            Act::Draw
        }
    }

    fn open(&mut self, popup: Popup) {
        (self.popup, self.scrolled) = (popup, 0);
    }

    fn turn(&mut self, by: usize) {
        let at = Tab::ALL.iter().position(|t| *t == self.tab).unwrap_or(0);
        self.tab = Tab::ALL[(at + by) % Tab::ALL.len()];
    }

    fn table(&self) -> Option<&Table> {
        self.frame.table(self.tab)
    }

    /// Position of the column that rows are sorted by, and whether backwards.
    fn order(&self, table: &Table) -> (usize, bool) {
        match self.sort.get(&self.tab) {
            Some((key, backwards)) => (table.position(key).unwrap_or(table.main), *backwards),
            // Few rows are easier to find in their own order.
            None if matches!(self.tab, Tab::Nodes | Tab::Cores) => (0, false),
            None => (table.main, false),
        }
    }

    fn sort_by_next(&mut self, by: isize) {
        let Some(table) = self.table() else { return };
        let (at, _) = self.order(table);
        let next = (at as isize + by).rem_euclid(table.columns.len().max(1) as isize) as usize;
        if let Some(column) = table.columns.get(next) {
            let key = column.key.to_string();
            self.sort.insert(self.tab, (key, false));
        }
    }

    fn turn_round(&mut self) {
        let Some(table) = self.table() else { return };
        let (at, backwards) = self.order(table);
        if let Some(column) = table.columns.get(at) {
            let key = column.key.to_string();
            self.sort.insert(self.tab, (key, !backwards));
        }
    }

    fn shift_columns(&mut self, by: isize) {
        let most = self.table().map_or(0, |t| t.columns.len().saturating_sub(2));
        let first = self.first_column.entry(self.tab).or_default();
        *first = first.saturating_add_signed(by).min(most);
    }

    /// Rows that the filter leaves, in order.
    fn rows(&self, table: &Table) -> Vec<usize> {
        let (by, backwards) = self.order(table);
        let mut rows = sorted(table, by, backwards);
        // Of a chosen process only its own threads.
        let of = self.focus.filter(|_| self.tab == Tab::Threads).map(|pid| pid.to_string().into());
        let own = |row: usize| of.is_none() || table.cell(table.rows[row].id, "pid") == of.as_ref();
        rows.retain(|&row| own(row) && matches(table, row, &self.filter));
        rows
    }

    fn select(&mut self, by: isize) {
        let Some(table) = self.table() else { return };
        let rows = self.rows(table);
        let at =
            self.selected.get(&self.tab).and_then(|id| rows.iter().position(|&r| table.rows[r].id == *id));
        let next = match at {
            Some(at) => at.saturating_add_signed(by).min(rows.len().saturating_sub(1)),
            None => 0,
        };
        if let Some(id) = rows.get(next).map(|&row| table.rows[row].id) {
            self.selected.insert(self.tab, id);
        }
    }

    /// Enter: the threads of a process, the objects of a thread's process.
    fn choose(&mut self) -> Act {
        let Some(table) = self.table() else { return Act::Draw };
        let rows = self.rows(table);
        let chosen =
            self.selected.get(&self.tab).copied().or_else(|| rows.first().map(|&r| table.rows[r].id));
        let Some(id) = chosen else { return Act::Draw };
        match self.tab {
            Tab::Processes => {
                self.focus = Some(id as u32);
                self.tab = Tab::Threads;
                Act::Read
            }
            Tab::Threads => {
                if let Some(Cell::Text(pid)) = table.cell(id, "pid") {
                    self.focus = pid.parse().ok();
                }
                self.tab = Tab::Objects;
                Act::Read
            }
            _ => Act::Draw,
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
