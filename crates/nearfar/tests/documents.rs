//! ARCHITECTURE.md and the README are short, name what is there, and their links lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Directories, and modules that are one file, directly below.
fn parts(directory: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .flatten()
        .map(|entry| (entry.path().is_dir(), entry.file_name().into_string().unwrap()))
        .filter(|(is_directory, name)| *is_directory || name.ends_with(".rs"))
        .map(|(_, name)| name.trim_end_matches(".rs").to_owned())
        .filter(|name| !["lib", "main", "mod"].contains(&name.as_str()))
        .collect();
    all.sort();
    all
}

/// Words of the tree's first column.
fn named(tree: &str) -> Vec<String> {
    let first =
        |line: &str| line.split("  ").find(|part| !part.trim().is_empty()).unwrap_or_default().to_owned();
    let words = |line: &str| first(line).split([',', ' ', '/']).map(str::to_owned).collect::<Vec<_>>();
    tree.lines().flat_map(words).filter(|word| !word.is_empty()).collect()
}

#[test]
fn the_architecture_fits_two_pages_and_its_tree_is_the_tree() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() <= 120, "{} lines", text.lines().count());
    let tree = text.split("```").nth(3).expect("the tree is the second block");
    let named = named(tree);
    let crates = root().join("crates");
    for one in parts(&crates) {
        assert!(named.contains(&one), "crates/{one} is not in the tree");
        // Of small crates the files are their own affair.
        if !["host", "record", "nearfar"].contains(&one.as_str()) {
            continue;
        }
        for part in parts(&crates.join(&one).join("src")) {
            assert!(named.contains(&part), "crates/{one}/src/{part} is not in the tree");
        }
    }
    // And nothing else is.
    let mut there: Vec<String> = parts(&root()).into_iter().collect();
    there.extend(["crates".to_owned(), "src".to_owned()]);
    for one in parts(&crates) {
        there.extend(parts(&crates.join(&one).join("src")));
        there.push(one);
    }
    for name in named {
        assert!(there.contains(&name), "the tree names {name}, which is not there");
    }
}

#[test]
fn links_of_documents_lead_to_files() {
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|p| root().join(p)).into();
    pages.extend(site());
    let mut tried = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            // What is not in the site is led to at the forge.
            let there =
                ["blob", "tree"].map(|kind| format!("https://github.com/nearfar/nearfar/{kind}/main/"));
            if let Some(file) = there.iter().find_map(|forge| link.strip_prefix(forge.as_str())) {
                assert!(root().join(file).exists(), "{}: {link}", page.display());
                tried += 1;
                continue;
            }
            if link.is_empty() || link.contains("://") || link.contains(' ') {
                continue;
            }
            let leads = page.with_file_name(link).canonicalize();
            assert!(leads.is_ok(), "{}: {link}", page.display());
            let site = root().join("docs");
            assert!(
                !page.starts_with(&site) || leads.unwrap().starts_with(site),
                "{}: {link} is not in the site",
                page.display()
            );
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

/// Folders of the site.
const FOLDERS: &[&str] = &["docs", "docs/commands", "docs/documents", "docs/findings"];

/// All pages of the site.
fn site() -> Vec<PathBuf> {
    FOLDERS.iter().flat_map(|folder| markdown(folder)).collect()
}

fn markdown(folder: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(root().join(folder)).unwrap().flatten().map(|e| e.path());
    let mut pages: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages
}

#[test]
fn the_site_has_every_page_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let linked: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for page in site() {
        let name = page.strip_prefix(root().join("docs")).unwrap().to_str().unwrap().to_owned();
        if name == "SUMMARY.md" {
            continue;
        }
        // mdBook takes neither a page that is missing nor one that is there twice.
        let times = linked.iter().filter(|link| **link == name).count();
        assert_eq!(times, 1, "docs/SUMMARY.md leads to {name} so often");
    }
    let book = fs::read_to_string(root().join("book.toml")).unwrap();
    assert!(book.contains("src = \"docs\"") && book.contains("create-missing = false"), "{book}");
}

/// Headings of a page as browsers and mdBook name them.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let kept = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        words.chars().filter(|&c| kept(c)).collect::<String>().replace(' ', "-")
    };
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

#[test]
fn links_to_parts_of_pages_lead_to_headings() {
    let mut tried = 0;
    for page in [site(), vec![root().join("README.md")]].concat() {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, part)) = link.split_once('#').filter(|_| !link.contains("://")) else { continue };
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            if target.extension().is_some_and(|e| e == "md") {
                assert!(anchors(&target).iter().any(|a| a == part), "{}: {link}", page.display());
                tried += 1;
            }
        }
    }
    assert!(tried > 5, "{tried}");
}

/// Lines of shell in a page that begin with the command, and the commands between words of its text.
fn typed(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let parts: Vec<&str> = text.split("```").collect();
    let blocks = parts.iter().skip(1).step_by(2).flat_map(|block| block.lines().skip(1));
    let between = parts.iter().step_by(2).flat_map(|words| words.split('`').skip(1).step_by(2));
    let lines = blocks.chain(between).map(str::trim);
    lines.filter(|line| line.starts_with("nearfar ")).map(str::to_owned).collect()
}

#[test]
fn commands_of_the_pages_and_their_options_exist() {
    let definition = nearfar::cli::command();
    let mut tried = 0;
    for page in [site(), vec![root().join("README.md")]].concat() {
        for line in typed(&page) {
            let place = format!("{}: {line}", page.display());
            let command = line.split(" #").next().unwrap().split(';').next().unwrap();
            let mut words = command.split_whitespace().skip(1);
            let Some(name) = words.next().filter(|w| w.chars().all(|c| c.is_ascii_lowercase())) else {
                continue;
            };
            let Some(sub) = definition.find_subcommand(name) else { panic!("no such command: {place}") };
            // The options before the program, which begins with `--` or looks like one.
            for word in words.take_while(|w| *w != "--" && !w.starts_with("./") && !w.starts_with('|')) {
                let Some(long) = word.strip_prefix("--") else { continue };
                let long = long.split(['=', '[', ']']).next().unwrap();
                let there = sub.get_arguments().any(|a| {
                    a.get_long() == Some(long) || a.get_all_aliases().is_some_and(|all| all.contains(&long))
                });
                assert!(there || ["help", "version"].contains(&long), "no --{long}: {place}");
                tried += 1;
            }
        }
    }
    assert!(tried > 40, "{tried}");
}

/// Hand-written pages that say more about a command than its help.
const MORE: &[(&str, &[&str])] = &[
    ("record", &["the-program", "recording", "ranks", "virtual-machine"]),
    ("report", &["reading-a-report", "page", "phases", "what-if", "findings"]),
    ("show", &["reading-a-report"]),
    ("list", &["recording"]),
    ("diff", &["diff"]),
    ("export", &["export", "ci"]),
    ("fix", &["what-if", "placement-file"]),
    ("cure", &["is-it-numa", "what-if"]),
    ("run", &["placement-file"]),
    ("check", &["check"]),
    ("layout", &["layout", "ranks"]),
    ("where", &["where"]),
    ("topo", &["machine-file"]),
    ("top", &["top"]),
    ("exporter", &["exporter"]),
    ("measure", &["measure", "machine-file"]),
    ("reproduce", &["reproduce"]),
    ("import", &["import"]),
    ("doctor", &["install", "hardware"]),
    ("cache", &["virtual-machine"]),
    ("completions", &["install"]),
    ("man", &["install"]),
];

/// The first heading of a page.
fn title(page: &str) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    text.lines().next().unwrap().trim_start_matches('#').trim().replace('`', "")
}

/// A page for each command, made of its help, and the page that lists them.
#[test]
fn the_pages_of_commands_are_made_of_their_help() {
    let mut definition = nearfar::cli::command().term_width(86);
    definition.build();
    let of_help = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    let names: Vec<String> =
        definition.get_subcommands().filter(of_help).map(|sub| sub.get_name().to_owned()).collect();
    let mut index =
        "# Commands\n\nA page for each, made from the one definition of all flags: what `nearfar COMMAND --help` prints.\n\n\
         | command | what it does |\n|---|---|\n"
            .to_owned();
    let mut pages = Vec::new();
    for name in &names {
        let sub = definition.find_subcommand_mut(name).unwrap();
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        index += &format!("| [{name}](commands/{name}.md) | {about} |\n");
        let help = sub.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let (_, more) =
            MORE.iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("MORE has no {name}"));
        let links: Vec<String> =
            more.iter().map(|page| format!("[{}](../{page}.md)", title(&format!("{page}.md")))).collect();
        let text = lines.join("\n");
        let page =
            format!("# nearfar {name}\n\nMore: {}.\n\n```text\n{}\n```\n", links.join(" · "), text.trim());
        pages.push((format!("docs/commands/{name}.md"), page));
    }
    pages.push(("docs/commands.md".to_owned(), index));
    for (file, page) in &pages {
        let file = root().join(file);
        if std::env::var_os("NEARFAR_UPDATE_DOCS").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, page).unwrap();
        }
        let there = fs::read_to_string(&file).unwrap_or_default();
        let of_today = "is not of today: NEARFAR_UPDATE_DOCS=1 cargo test -p nearfar --test documents";
        assert!(there == *page, "{} {of_today}", file.display());
    }
    assert_eq!(markdown("docs/commands").len(), names.len(), "docs/commands has a page of no command");
}

#[test]
fn every_kind_of_finding_has_a_page_with_its_picture_and_repair() {
    let source = fs::read_to_string(root().join("crates/report/src/sections.rs")).unwrap();
    let kinds = source.split("fn kind(").nth(1).unwrap().split("other =>").next().unwrap();
    let kinds: Vec<&str> = kinds.split('"').skip(1).step_by(2).filter(|word| !word.contains(' ')).collect();
    assert!(kinds.len() >= 15, "{kinds:?}");
    let source = fs::read_to_string(root().join("docs/pictures/make")).unwrap();
    assert!(
        kinds.iter().filter(|kind| source.contains(**kind)).count() >= 13,
        "docs/pictures/make lacks kinds"
    );
    let pages: Vec<(PathBuf, String)> =
        markdown("docs/findings").into_iter().map(|p| (p.clone(), fs::read_to_string(p).unwrap())).collect();
    for kind in kinds {
        let of_it = pages.iter().filter(|(_, text)| text.contains(&format!("`{kind}`"))).count();
        assert!(of_it > 0, "docs/findings has no page of {kind}");
    }
    let index = fs::read_to_string(root().join("docs/findings.md")).unwrap();
    for (page, text) in pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(index.contains(&format!("(findings/{name})")), "docs/findings.md does not lead to {name}");
        for part in ["```text", "## Repair", "## How to see it"] {
            assert!(text.contains(part), "{}: no {part}", page.display());
        }
        // A picture of its own, made from a recording, small enough for a page. That links lead to files is another test.
        let picture = format!("../pictures/{}.svg", name.trim_end_matches(".md"));
        assert!(text.contains(&format!("]({picture})")), "{}: no picture {picture}", page.display());
        let drawn = fs::read_to_string(page.with_file_name(&picture)).unwrap();
        assert!(drawn.contains("<svg") && drawn.contains("source: ") && drawn.len() < 100_000, "{picture}");
        // Dark pages show it, too: it brings its own ground.
        assert!(drawn.contains("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"), "{picture}");
    }
}
