use super::*;
use nearfar_observed::live::Row;

fn column(key: &'static str, unit: Unit) -> Column {
    Column { key: key.into(), head: key.into(), unit, what: "what".into(), source: "there".into() }
}

fn frame() -> Frame {
    let columns = ["ipc", "instructions", "cycles", "local", "remote"];
    let units = [Unit::Ratio, Unit::PerSecond, Unit::PerSecond, Unit::PerSecond, Unit::PerSecond];
    let row = |id: u64, cells: [Option<f64>; 5]| Row { id, cells: cells.map(Cell::from).to_vec() };
    let mut cores = Table {
        columns: columns.iter().zip(units).map(|(k, u)| column(k, u)).collect(),
        rows: vec![
            row(0, [Some(0.5), Some(50.0), Some(100.0), Some(7.0), Some(3.0)]),
            row(1, [Some(0.0), Some(0.0), Some(100.0), Some(0.0), Some(0.0)]),
        ],
        ..Table::default()
    };
    cores.explain("remote", "no PMU");
    let nodes = Table {
        columns: vec![
            column("node", Unit::Text),
            column("name", Unit::Text),
            column("read", Unit::BytesPerSecond),
            column("write", Unit::BytesPerSecond),
        ],
        rows: vec![
            Row { id: 0, cells: vec!["0".into(), "a,\"b\"\x1b".into(), 2e9.into(), 1e9.into()] },
            Row { id: 1, cells: vec!["1".into(), "=1+1".into(), Cell::Unknown, Cell::Unknown] },
        ],
        ..Table::default()
    };
    let mut frame = Frame::new(4.0, 2.0);
    frame.insert(Tab::Cores, cores);
    frame.insert(Tab::Nodes, nodes);
    frame
}

#[test]
fn numbers_keep_three_digits_and_small_ones_are_still_there() {
    let shown = [
        (0.0, Unit::Count, "0"),
        (12.0, Unit::PerSecond, "12"),
        (0.5, Unit::PerSecond, "0.50"),
        (1234.0, Unit::PerSecond, "1.23 k"),
        (0.001, Unit::Ratio, "< 0.01"),
        (5.6e9, Unit::PerSecond, "5.60 G"),
        (38e9, Unit::BytesPerSecond, "38.0 GB/s"),
        (0.0001, Unit::Share, "0.01 %"),
    ];
    for (value, unit, text) in shown {
        assert_eq!(cell(&Cell::Number(value), unit), text);
    }
    assert_eq!(cell(&Cell::Unknown, Unit::Share), UNKNOWN);
    assert_eq!(cell(&"a\x1b[2J".into(), Unit::Text), r"a\u{1b}[2J");
}

#[test]
fn a_sparkline_ends_with_the_latest_and_has_gaps_where_nothing_is_known() {
    let timeline = [Some(0.0), None, Some(0.5), Some(1.0)];
    assert_eq!(sparkline(timeline.iter(), 6, true), "  ▁ ▅█");
    assert_eq!(sparkline(timeline.iter(), 2, true), "▅█");
    assert_eq!(sparkline([Some(0.0)].iter(), 1, false), "▁");
}

#[test]
fn rows_are_sorted_with_the_unknown_last_both_ways() {
    let frame = frame();
    let cores = frame.table(Tab::Cores).unwrap();
    assert_eq!(sorted(cores, 0, false), [0, 1]);
    assert_eq!(sorted(cores, 0, true), [1, 0]);
    let nodes = frame.table(Tab::Nodes).unwrap();
    assert_eq!((sorted(nodes, 2, false), sorted(nodes, 2, true)), (vec![0, 1], vec![0, 1]));
    assert!(matches(nodes, 1, "1+1") && !matches(nodes, 0, "1+1") && matches(nodes, 0, ""));
}

#[test]
fn pcms_columns_are_pcms() {
    let frame = frame();
    let numa = "Time elapsed: 2000 ms\nCore,IPC,Instructions,Cycles,Local DRAM accesses,Remote DRAM accesses\n\
                0,0.50,100,200,14,6\n1,0.00,0,200,0,0\n*,0.25,100,400,14,6\n\n";
    assert_eq!(Csv::PcmNuma.frame(&frame, "", ""), numa);
    let begin = ",,SKT0,SKT0,SKT0,SKT0,SKT1,SKT1,SKT1,SKT1,System,System,System\nDate,Time,Mem Read (MB/s),\
                 Mem Write (MB/s),P. Write (T/s),Memory (MB/s),Mem Read (MB/s),Mem Write (MB/s),P. Write (T/s),\
                 Memory (MB/s),Read,Write,Memory\n";
    assert_eq!(Csv::PcmMemory.begin(&frame), begin);
    // What is unknown of one node is unknown of the system.
    assert_eq!(
        Csv::PcmMemory.frame(&frame, "2026-11-25", "10:00:00.000"),
        "2026-11-25,10:00:00.000,2000.00,1000.00,,3000.00,,,,,,,\n"
    );
}

#[test]
fn long_csv_has_a_line_for_each_number_with_its_source() {
    let text = Csv::Long.frame(&frame(), "", "");
    assert!(text.contains("4.000000,2.000000,cores,0,,remote,3,1/s,there\n"), "{text}");
    assert!(text.contains("nodes,0,\"a,\"\"b\"\"\\u{1b}\",read,2000000000,bytes/s,there\n"), "{text}");
    assert!(text.contains("nodes,1,\"=1+1\",read,,bytes/s,unknown\n"), "{text}");
}
