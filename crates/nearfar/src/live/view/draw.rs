//! What the screen shows.

use super::{Popup, REMEMBERED, View};
use nearfar_figures::escape;
use nearfar_observed::live::{Column, Tab, Table, Unit};
use nearfar_report::live::{UNKNOWN, cell, is_left, reasons, sparkline};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
/// Widest text of a column on the screen, characters; a name's end matters more than its begin.
const WIDEST: usize = 40;
/// Least and most characters of a sparkline beside a row.
const SPARK: (usize, usize) = (8, 60);

impl View {
    /// Draws all of it.
    pub fn draw(&self, screen: &mut ratatui::Frame) {
        let area = screen.area();
        if area.height < 4 || area.width < 20 {
            screen.render_widget(Paragraph::new("too small"), area);
            return;
        }
        let line = |at: u16| Rect { x: area.x, y: area.y + at, width: area.width, height: 1 };
        let middle = Rect { x: area.x, y: area.y + 2, width: area.width, height: area.height - 3 };
        screen.render_widget(Paragraph::new(self.first_line(area.width as usize)), line(0));
        screen.render_widget(Paragraph::new(self.tabs()), line(1));
        let mut note = String::new();
        match self.table() {
            Some(table) if self.tab == Tab::Machine => {
                screen.render_widget(Paragraph::new(self.machine(table, middle)), middle);
            }
            Some(table) if table.rows.is_empty() && !table.why.is_empty() => {
                let why: Vec<&str> = table.why.values().map(String::as_str).collect();
                screen.render_widget(
                    Paragraph::new(escape::lines(&why.join("\n")).into_owned()).wrap(Wrap { trim: false }),
                    middle,
                );
            }
            Some(table) => {
                let (lines, hidden) = self.lines(table, middle);
                screen.render_widget(Paragraph::new(lines), middle);
                if hidden > 0 {
                    let s = if hidden == 1 { "" } else { "s" };
                    note = format!("{hidden} more column{s}: >  ");
                }
            }
            None => screen.render_widget(Paragraph::new(self.no_table()).wrap(Wrap { trim: false }), middle),
        }
        let missing = self.table().map_or(0, |t| t.missing().len());
        if missing > 0 {
            note = format!("{missing} unknown, why: w  {note}");
        }
        screen.render_widget(
            Paragraph::new(self.last_line(&note, usize::from(area.width))),
            line(area.height - 1),
        );
        if self.popup != Popup::None {
            self.popup(screen, area);
        }
    }

    fn no_table(&self) -> String {
        match (self.recorded, self.tab) {
            (true, _) => format!(
                "A recording has no table of {}: `nearfar report` has its threads and objects.",
                self.tab.name()
            ),
            (false, Tab::Objects) => "Being looked at …".to_owned(),
            _ => "Nothing has been read yet.".to_owned(),
        }
    }

    fn first_line(&self, width: usize) -> Line<'static> {
        let state = if self.paused { "paused" } else { "" };
        let right = format!("{:.1} s, interval {:.2} s {state}", self.frame.at_s, self.frame.interval_s);
        let title = format!("nearfar top  {}", escape::line(&self.title));
        let room = width.saturating_sub(right.chars().count() + 1);
        let title: String = title.chars().take(room).collect();
        Line::from(vec![
            Span::styled(format!("{title:<room$} "), Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(right),
        ])
    }

    fn tabs(&self) -> Line<'static> {
        let mut spans = Vec::new();
        for (at, tab) in Tab::ALL.iter().enumerate() {
            let style =
                if *tab == self.tab { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            spans.push(Span::styled(format!(" {} {} ", at + 1, tab.name()), style));
        }
        if let Some((pid, name)) = self.frame.objects_of.as_ref().filter(|_| self.tab == Tab::Objects) {
            spans.push(Span::raw(format!("  of {pid} {}", escape::line(name))));
        }
        if let Some(pid) = self.focus.filter(|_| self.tab == Tab::Threads) {
            spans.push(Span::raw(format!("  of {pid} (Esc: all)")));
        }
        Line::from(spans)
    }

    fn last_line(&self, note: &str, width: usize) -> Line<'static> {
        if self.editing || !self.filter.is_empty() {
            let cursor = if self.editing { "▏" } else { "  (Esc: all)" };
            return Line::from(format!("/{}{cursor}  {note}", escape::line(&self.filter)));
        }
        let keys = match self.recorded {
            true => ["q quit", "? help", "w why", "[ ] step", "p play", ""],
            false => ["q quit", "? help", "w why", "/ filter", "s sort", "p pause"],
        };
        // Those that fit as a whole; the others are in the help.
        let mut room = width.saturating_sub(note.chars().count());
        let fits = |key: &&str| {
            let fits = key.len() <= room;
            room = room.saturating_sub(if fits { key.len() + 2 } else { room });
            fits
        };
        let keys = keys.into_iter().filter(fits).collect::<Vec<&str>>().join("  ");
        Line::from(vec![
            Span::styled(note.to_owned(), Style::new().add_modifier(Modifier::BOLD)),
            Span::styled(keys, Style::new().add_modifier(Modifier::DIM)),
        ])
    }

    /// The one row of the machine, a line per column with its past.
    fn machine(&self, table: &Table, area: Rect) -> Vec<Line<'static>> {
        let Some(row) = table.rows.first() else { return Vec::new() };
        let missing: Vec<&str> = table.missing().iter().map(|(c, _)| c.key.as_ref()).collect();
        let room = (area.width as usize).saturating_sub(22 + 14 + 4).min(REMEMBERED);
        let mut lines: Vec<Line> = vec![Line::default()];
        for (at, (column, value)) in table.columns.iter().zip(&row.cells).enumerate() {
            let known = !missing.contains(&column.key.as_ref());
            let past = self.past.get(&(Tab::Machine, row.id, at));
            let spark = match past.filter(|_| known && column.unit != Unit::Text) {
                Some(past) => sparkline(past.iter(), room, column.unit == Unit::Share),
                None => String::new(),
            };
            let style = if known { Style::new() } else { Style::new().add_modifier(Modifier::DIM) };
            lines.push(Line::styled(
                format!("  {:<22}{:>14}  {spark}", column.head, cell(value, column.unit)),
                style,
            ));
        }
        lines
    }

    /// The lines of a table, and how many of its columns have no room.
    fn lines(&self, table: &Table, area: Rect) -> (Vec<Line<'static>>, usize) {
        let rows = self.rows(table);
        let height = (area.height as usize).saturating_sub(1);
        let selected =
            self.selected.get(&self.tab).and_then(|id| rows.iter().position(|&r| table.rows[r].id == *id));
        // The selected row is always among those that are shown.
        let first = selected.map_or(0, |at| at.saturating_sub(height.saturating_sub(1)));
        let shown = &rows[first.min(rows.len())..(first + height).min(rows.len())];
        let text = |row: usize, at: usize| -> String {
            let cells = &table.rows[row].cells;
            cells.get(at).map_or_else(|| UNKNOWN.to_owned(), |c| cut(&cell(c, table.columns[at].unit)))
        };
        let width_of = |at: usize| {
            let off = table.flags.contains_key(table.columns[at].key.as_ref());
            let marks = usize::from(self.order(table).0 == at) + usize::from(off);
            let head = table.columns[at].head.chars().count() + marks;
            shown.iter().map(|&row| text(row, at).chars().count()).max().unwrap_or(0).max(head)
        };
        let (columns, hidden, used) = self.columns(table, area.width as usize, width_of);
        let room = (area.width as usize).saturating_sub(used + 2);
        let spark = (room >= SPARK.0).then_some(room.min(SPARK.1));
        let pad = |column: &Column, text: &str, width: usize| match is_left(column) {
            true => format!("{text:<width$} "),
            false => format!("{text:>width$} "),
        };
        let (by, backwards) = self.order(table);
        let mut head = String::new();
        for &(at, width) in &columns {
            let mark = if at != by {
                ""
            } else if backwards {
                "▵"
            } else {
                "▿"
            };
            let off = if table.flags.contains_key(table.columns[at].key.as_ref()) { "!" } else { "" };
            head.push_str(&pad(&table.columns[at], &format!("{}{off}{mark}", table.columns[at].head), width));
        }
        if spark.is_some() {
            head.push_str(&format!(" {} so far", table.columns[table.main].head));
        }
        let mut lines =
            vec![Line::styled(head, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED))];
        for (at, &row) in shown.iter().enumerate() {
            let mut line: String =
                columns.iter().map(|&(at, width)| pad(&table.columns[at], &text(row, at), width)).collect();
            if let (Some(width), Some(past)) =
                (spark, self.past.get(&(self.tab, table.rows[row].id, table.main)))
            {
                let share = table.columns[table.main].unit == Unit::Share;
                line.push_str(&format!(" {}", sparkline(past.iter(), width, share)));
            }
            let chosen = selected == Some(first + at);
            lines.push(Line::styled(
                line,
                if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() },
            ));
        }
        (lines, hidden)
    }

    /// The columns that have room, with their widths; how many have none; and the characters used. First the row's
    /// own, then those that have numbers, and those without any at the end.
    fn columns(
        &self,
        table: &Table,
        room: usize,
        width_of: impl Fn(usize) -> usize,
    ) -> (Vec<(usize, usize)>, usize, usize) {
        let missing: Vec<&str> = table.missing().iter().map(|(c, _)| c.key.as_ref()).collect();
        let known = |at: &usize| !missing.contains(&table.columns[*at].key.as_ref());
        let first = self.first_column.get(&self.tab).copied().unwrap_or(0);
        let rest = || 1 + first..table.columns.len();
        let order = std::iter::once(0).chain(rest().filter(&known)).chain(rest().filter(|at| !known(at)));
        let (mut chosen, mut used, mut hidden) = (Vec::new(), 0, first);
        for at in order.filter(|&at| at < table.columns.len()) {
            let width = width_of(at);
            if used + width < room {
                used += width + 1;
                chosen.push((at, width));
            } else {
                hidden += 1;
            }
        }
        (chosen, hidden, used)
    }

    fn popup(&self, screen: &mut ratatui::Frame, area: Rect) {
        let margin = |size: u16, most: u16| size.saturating_sub(most.min(size.saturating_sub(2))) / 2;
        let (x, y) = (margin(area.width, 110), margin(area.height, 50));
        let at =
            Rect { x: area.x + x, y: area.y + y, width: area.width - 2 * x, height: area.height - 2 * y };
        let (title, text) = match self.popup {
            Popup::Why => (
                format!(" {}: columns, their sources, and why they are unknown ", self.tab.name()),
                self.why(),
            ),
            _ => (" keys ".to_owned(), self.help()),
        };
        screen.render_widget(Clear, at);
        let block = Block::bordered().title(title).title_bottom(" any key closes, ↑ ↓ scroll ");
        screen.render_widget(
            Paragraph::new(text).wrap(Wrap { trim: false }).scroll((self.scrolled, 0)).block(block),
            at,
        );
    }

    fn why(&self) -> String {
        let Some(table) = self.table() else { return self.no_table() };
        let mut text = String::new();
        for (heads, why) in reasons(table) {
            text.push_str(&format!("UNKNOWN {}: {}\n\n", escape::line(&heads), escape::line(&why)));
        }
        let missing: Vec<&str> = table.missing().iter().map(|(c, _)| c.key.as_ref()).collect();
        for column in &table.columns {
            let unit = match column.unit.name() {
                "" => String::new(),
                unit => format!(" [{unit}]"),
            };
            text.push_str(&format!("{}{unit}: {}. From {}", column.head, column.what, column.source));
            if let Some(off) = table.flags.get(column.key.as_ref()) {
                text.push_str(&format!(". OFF: {}", escape::line(off)));
            }
            // Some rows have no number where others have one.
            if let Some(why) =
                table.why.get(column.key.as_ref()).filter(|_| !missing.contains(&column.key.as_ref()))
            {
                text.push_str(&format!(". Where it is {UNKNOWN}: {}", escape::line(why)));
            }
            text.push('\n');
        }
        text
    }

    fn help(&self) -> String {
        let mut text = "\
1 … 6, Tab      machine, nodes, cores, processes, threads, objects
↑ ↓ PgUp PgDn   choose a row
Enter           of a process its threads, of a thread its process's objects
s S, ← →        sort by the next or previous column; r turns the order round
/               show only rows with a text; Esc shows all, and ends the choice of a process
< >             columns further left or right
w               columns with units and sources, and why some are unknown
p, space        pause, and go on
"
        .to_owned();
        text.push_str(match self.recorded {
            true => "[ ]             one interval back or on\n",
            false => "+ -             longer or shorter intervals\n",
        });
        text.push_str(
            "q, Esc, Ctrl-C  end\n\n? stands where a number has no source. It is not 0.\nA sparkline ends with the latest value; \
             shares go from 0 to 1, others to their largest value.",
        );
        text
    }
}

/// Shortened at the start: the end of a path says more.
fn cut(text: &str) -> String {
    let length = text.chars().count();
    match length > WIDEST {
        true => format!("…{}", text.chars().skip(length - WIDEST + 1).collect::<String>()),
        false => text.to_owned(),
    }
}
