//! docs/recording.md is written from the definitions of the rows: everything
//! behind its marker. `NEARFAR_UPDATE_DOCS=1 cargo test -p nearfar-recording` rewrites it.

use nearfar_recording::*;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const MARKER: &str = "<!-- Written by crates/recording/tests/recording_doc.rs from here on. -->";
const TABLES: &str = concat!(
    include_str!("../src/tables/runs.rs"),
    include_str!("../src/tables/samples.rs"),
    include_str!("../src/tables/code.rs"),
    include_str!("../src/tables/memory.rs"),
    include_str!("../src/tables/phases.rs"),
    include_str!("../src/tables/counted.rs"),
    include_str!("../src/tables/codes.rs"),
);
const META: &str = include_str!("../src/meta.rs");

#[test]
fn the_document_says_what_the_code_defines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recording.md");
    let text = fs::read_to_string(&path).expect("docs/recording.md");
    let (head, _) = text.split_once(MARKER).expect("docs/recording.md has its marker");
    let wanted = format!("{head}{MARKER}\n\n{}", generated());
    if text != wanted && std::env::var_os("NEARFAR_UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).expect("docs/recording.md can be written");
    } else {
        assert!(
            text == wanted,
            "docs/recording.md is not what the code defines; \
             NEARFAR_UPDATE_DOCS=1 cargo test -p nearfar-recording --test recording_doc rewrites it"
        );
    }
}

#[test]
fn every_table_and_code_is_documented() {
    let document = generated();
    let headings = |marker: &str| document.lines().filter(|line| line.starts_with(marker)).count();
    assert_eq!(headings("### `"), TABLES.matches("\ntable! {").count(), "a table is missing in `generated`");
    assert_eq!(codes().len(), TABLES.matches("\ncodes! {").count());
    assert_eq!(Resolution::ALL.len() + Access::ALL.len() + SampleSource::ALL.len(), {
        let rows = |name: &str| codes().into_iter().find(|c| c.name == name).map_or(0, |c| c.rows.len());
        rows("Resolution") + rows("Access") + rows("SampleSource")
    });
    assert!(!document.contains("|  |"), "a field has no description");
}

fn generated() -> String {
    let mut out = String::from("## Tables\n");
    table::<Processes>(&mut out);
    table::<ProcessEnds>(&mut out);
    table::<Threads>(&mut out);
    table::<AccessSamples>(&mut out);
    table::<Loops>(&mut out);
    table::<LoopStreams>(&mut out);
    table::<LoopOperands>(&mut out);
    table::<Progresses>(&mut out);
    table::<Excerpts>(&mut out);
    table::<ExcerptBlocks>(&mut out);
    table::<PageFaults>(&mut out);
    table::<Locations>(&mut out);
    table::<Modules>(&mut out);
    table::<Symbols>(&mut out);
    table::<ChainFrames>(&mut out);
    table::<MemoryObjects>(&mut out);
    table::<ObjectEnds>(&mut out);
    table::<AllocationGroups>(&mut out);
    table::<SiteNames>(&mut out);
    table::<RangeEvents>(&mut out);
    table::<PageNodes>(&mut out);
    table::<Mappings>(&mut out);
    table::<Phases>(&mut out);
    table::<PhaseCounts>(&mut out);
    table::<PhaseMarks>(&mut out);
    table::<Metrics>(&mut out);
    table::<Counters>(&mut out);
    table::<CpuEpochs>(&mut out);
    table::<EpochTraffics>(&mut out);
    table::<PageTraffics>(&mut out);
    table::<CountedWindows>(&mut out);
    table::<Losses>(&mut out);
    out.push_str(
        "\n## Codes\n\nThe meaning of `u8` columns. A code that is not listed is of a later version.\n",
    );
    for code in codes() {
        write!(out, "\n### {}\n\n{}\n\n| code | name | meaning |\n|---|---|---|\n", code.name, code.doc)
            .unwrap();
        for row in code.rows {
            writeln!(out, "| {} | {} | {} |", row.0, row.1, row.2).unwrap();
        }
    }
    out.push_str("\n## meta.json\n\n| key | meaning |\n|---|---|\n");
    for (field, doc) in fields_of_meta() {
        writeln!(out, "| `{field}` | {doc} |").unwrap();
    }
    out
}

fn table<T: Columns>(out: &mut String) {
    let doc = sentence(T::DOC);
    write!(out, "\n### `{}`\n\n{doc}\n\n| column | type | meaning |\n|---|---|---|\n", T::TABLE).unwrap();
    for column in T::SCHEMA {
        let kind = match column.kind {
            ColumnKind::U8 => "u8",
            ColumnKind::U16 => "u16",
            ColumnKind::U32 => "u32",
            ColumnKind::U64 => "u64",
            ColumnKind::I16 => "i16",
            ColumnKind::F64 => "f64",
            ColumnKind::Text => "text",
        };
        writeln!(out, "| `{}` | {kind} | {} |", column.name, sentence(column.doc)).unwrap();
    }
}

/// A doc comment as one line; names of Rust items that it links lose their brackets and paths.
fn sentence(doc: &str) -> String {
    let line = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("([`crate::NONE`])", "")
        .replace("[`", "`")
        .replace("`]", "`")
        .replace("super::", "")
        .replace('|', "\\|")
}

struct Code {
    name: String,
    doc: String,
    /// Code, name in reports, meaning.
    rows: Vec<(String, String, String)>,
}

/// The `codes!` blocks: the macro keeps their comments as documentation only.
fn codes() -> Vec<Code> {
    TABLES
        .split("\ncodes! {")
        .skip(1)
        .map(|block| {
            let block = block.split("\n}\n").next().unwrap_or(block);
            let mut code = Code { name: String::new(), doc: String::new(), rows: Vec::new() };
            let mut doc = String::new();
            for line in block.lines().map(str::trim) {
                if let Some(text) = line.strip_prefix("///") {
                    doc.push_str(text);
                } else if let Some(name) = line.strip_suffix(" {") {
                    (code.name, code.doc) = (name.to_owned(), sentence(&std::mem::take(&mut doc)));
                } else if let Some((_, value)) = line.split_once(" = ") {
                    let (number, name) = value.split_once(' ').expect("code and name");
                    let name = name.trim_end_matches(',').trim_matches('"').to_owned();
                    code.rows.push((number.to_owned(), name, sentence(&std::mem::take(&mut doc))));
                }
            }
            code
        })
        .collect()
}

fn fields_of_meta() -> Vec<(String, String)> {
    let (_, body) = META.split_once("pub struct Meta {").expect("struct Meta");
    let mut doc = String::new();
    let mut fields = Vec::new();
    for line in body.split("\n}").next().unwrap_or(body).lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
        } else if let Some((name, _)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(": ")) {
            fields.push((name.to_owned(), sentence(&std::mem::take(&mut doc))));
        }
    }
    fields
}
