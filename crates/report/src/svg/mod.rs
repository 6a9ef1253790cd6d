//! The report's pictures as SVG files for papers: black on white, system fonts, no scripts, no interaction.
//!
//! The page draws its pictures in the browser, where they answer to the pointer; a paper has no browser, and a browser
//! is not to be needed for a file. So these are drawn here, from the same values of the JSON, and say in words what the
//! page says on hover: units, sources, the basis.

mod drawing;
mod ladder;
mod machine;
mod matrix;
mod ranks;
mod source;
mod strips;
mod time;

use super::layout::shorten;
use drawing::Drawing;
use nearfar_analyze::Report;
use nearfar_compare::ranks::Run;

/// Objects whose pages are drawn. // chosen
const OBJECTS: usize = 20;

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Name of the file, without an ending: letters, digits and `-`.
    pub name: String,
    /// The SVG.
    pub svg: String,
}

/// All pictures that a report has the values for.
pub fn pictures(r: &Report) -> Vec<Picture> {
    let mut all = Vec::new();
    let mut add = |name: &str, drawing: Option<Drawing>| {
        if let Some(drawing) = drawing {
            all.push(Picture { name: name.to_owned(), svg: drawing.finish() });
        }
    };
    add("machine", machine::machine(r));
    let now = format!("Threads' nodes and pages' nodes, % of {}", r.basis.words());
    add("nodes-now", matrix::matrix(r, &now, &r.node_matrix));
    if let Some(repaired) = &r.pictures.repaired {
        let title = format!("After the repair of {}", shorten(&repaired.objects.join(", "), 60));
        add("nodes-repaired", matrix::matrix(r, &title, &repaired.node_matrix));
    }
    add("what-if", ladder::ladder(r));
    add("time", time::timeline(r));
    add("threads", time::threads(r));
    add("bandwidth", time::bandwidth(r));
    add("bandwidth-use", time::usage(r));
    for (at, strip) in r.pictures.strips.iter().take(OBJECTS).enumerate() {
        let name = r.objects.get(strip.object).map_or("", |o| o.name.as_str());
        let file = file_name(name);
        add(&format!("object-{:02}-{file}", at + 1), Some(strips::strip(r, strip, name)));
        add(&format!("object-{:02}-{file}-time", at + 1), strips::over_time(r, strip, name));
    }
    all
}

/// The pictures of a run of several ranks.
pub fn of_ranks(run: &Run) -> Vec<Picture> {
    vec![Picture { name: "hosts-and-ranks".to_owned(), svg: ranks::ranks(run).finish() }]
}

/// Part of a file's name from an object's: what a shell or a file system takes for something else is left out.
fn file_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(c),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
        if name.len() >= 40 {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_nothing_that_a_file_system_or_a_shell_takes_for_something_else() {
        for (name, file) in [
            ("vel", "vel"),
            ("../../etc/passwd", "etc-passwd"),
            ("std::vector<float>[0]", "std-vector-float-0"),
            ("\u{202e}…", "unnamed"),
            ("-rf", "rf"),
        ] {
            assert_eq!(file_name(name), file);
        }
        assert!(file_name(&"x".repeat(500)).len() <= 40);
    }
}
