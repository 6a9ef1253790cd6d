//! The view on a screen of characters.

use super::*;
use nearfar_machine::Machine;
use nearfar_observed::live::host::Host;
use nearfar_observed::live::reading::{CpuTicks, Process, Reading, Stat, Thread};
use ratatui::backend::TestBackend;

/// Two nodes of twenty cpus and forty processes, after one second.
fn frame(busy: u64) -> Frame {
    let reading = |at: u64| Reading {
        at_ns: at * 1_000_000_000,
        cpus: (0..40)
            .map(|c| (c, CpuTicks { busy: at * busy, idle: at * (100 - busy), stolen: 0 }))
            .collect(),
        processes: (1..41)
            .map(|pid| {
                let name = if pid == 7 { "evil\x1b[2J".to_owned() } else { format!("app-{pid}") };
                let stat = Stat {
                    name,
                    threads: 2,
                    started: 1,
                    ticks: at * u64::from(pid),
                    resident_pages: 9,
                    state: 'R',
                    ..Stat::default()
                };
                (pid, Process { stat, ..Process::default() })
            })
            .collect(),
        threads: [(
            40,
            Thread {
                pid: 40,
                stat: Stat { name: "worker".into(), state: 'S', started: 1, ..Stat::default() },
                ..Thread::default()
            },
        )]
        .into(),
        ticks_per_second: 100.0,
        ..Reading::default()
    };
    let host = Host {
        machine: Machine::from_shape("2x20").unwrap(),
        page_bytes: 4096,
        figures: String::new(),
        lines: "",
    };
    host.frame(&reading(1), &reading(2), 1_000_000_000)
}

fn view() -> View {
    let mut view = View::new("test".into(), false);
    view.show(frame(25));
    view.show(frame(50));
    view
}

fn press(view: &mut View, keys: &str) -> Act {
    let mut act = Act::Draw;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            c => KeyCode::Char(c),
        };
        act = view.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    act
}

fn shown(view: &View, width: u16, height: u16) -> String {
    let mut terminal = ratatui::Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|screen| view.draw(screen)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_tab_fits_every_size_and_says_how_to_learn_what_is_missing() {
    let mut view = view();
    for (width, height) in [(80, 24), (200, 60), (20, 4), (1, 1), (60, 5)] {
        for key in ["1", "2", "3", "4", "5", "6"] {
            press(&mut view, key);
            let screen = shown(&view, width, height);
            assert_eq!(screen.lines().count(), height as usize);
            if (width, height) == (80, 24) && key == "3" {
                assert!(screen.contains("unknown, why: w"), "{screen}");
                assert!(screen.contains("50 %"), "{screen}");
            }
        }
    }
}

#[test]
fn the_key_w_gives_the_reason_and_an_unknown_number_is_no_0() {
    let mut view = view();
    press(&mut view, "2");
    let table = shown(&view, 250, 20);
    assert!(table.contains('?') && !table.contains("0.00 GB/s"), "{table}");
    press(&mut view, "w");
    let why = shown(&view, 200, 60);
    assert!(why.contains("UNKNOWN") && why.contains("read") && why.contains("it was not asked for"), "{why}");
    press(&mut view, "x?");
    assert!(shown(&view, 80, 24).contains("turns the order round"));
}

#[test]
fn rows_are_sorted_filtered_and_chosen() {
    let mut view = view();
    press(&mut view, "4");
    let first = |view: &View| shown(view, 160, 24).lines().nth(3).unwrap_or_default().to_owned();
    assert!(first(&view).contains("app-40"), "{}", first(&view));
    press(&mut view, "r");
    assert!(first(&view).contains("app-1 "), "{}", first(&view));
    press(&mut view, "/app-3");
    assert!(shown(&view, 80, 24).contains("/app-3▏"));
    press(&mut view, "\n");
    assert!(first(&view).contains("app-3 "), "{}", first(&view));
    assert!(!shown(&view, 160, 24).contains("app-4"));
    press(&mut view, "\x1br");
    press(&mut view, "↓");
    assert_eq!(press(&mut view, "\n"), Act::Read);
    assert_eq!(view.focus, Some(40));
    assert!(shown(&view, 80, 24).contains("worker"));
    assert_eq!(press(&mut view, "q"), Act::Quit);
}

#[test]
fn names_of_processes_are_not_obeyed() {
    let mut view = view();
    press(&mut view, "4/evil\n");
    let screen = shown(&view, 120, 24);
    assert!(screen.contains(r"evil\u{1b}[2J") && !screen.contains('\x1b'), "{screen}");
}

#[test]
fn a_sparkline_is_as_long_as_there_were_frames_and_follows_its_row() {
    let mut view = view();
    press(&mut view, "3");
    let line = shown(&view, 200, 60).lines().nth(3).unwrap_or_default().to_owned();
    assert!(line.contains("▃▅"), "{line}");
    view.forget();
    view.show(frame(100));
    let line = shown(&view, 200, 60).lines().nth(3).unwrap_or_default().to_owned();
    assert!(line.contains(" █") && !line.contains('▃'), "{line}");
}
